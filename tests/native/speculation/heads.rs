//! Draft heads draft as the implementations do that they come from.

use std::{fs, ops::ControlFlow, path::Path};

use serde_json::{Value, json};
use tabloom::{
    Error,
    engine::{Engine, Event, Options, Request, steady_clock},
    load::{self, Device, LoadOptions},
    step::{Draft, Executor, Follow, MAX_DRAFTS, RowTokens, Sampling, SeqPlan, StepPlan},
    weights::FolderSource,
};

use super::{DraftBy, Golden, golden, loaded, no_lookup};

/// Compares a head's drafts, by the logits of the rows that verify them.
fn a_random_head_drafts_like_its_reference(name: &str, device: Device) {
    let golden: Golden = golden(&format!("draft/{name}/golden.json"));
    let of_target = crate::support::goldens::golden(&golden.target);
    let folder = |name: &str| FolderSource::new(crate::support::goldens::folder(name));
    let head = folder(&format!("draft/{name}"));
    let options = LoadOptions { device, ..Default::default() };
    let proceed = |_: load::Progress| ControlFlow::Continue(());
    let loaded = pollster::block_on(async {
        if golden.inside {
            return load::executor(&head, &options, proceed).await;
        }
        let source = folder(&golden.target);
        let opened = load::Opened::open(&source).await?;
        let draft = opened.draft(&head, &options).await;
        opened.prepare(&options)?.with_draft(draft)?.load(proceed).await
    })
    .expect("model and head load");
    assert!(matches!(loaded.draft, Some(Ok(_))), "{name}: {:?}", loaded.draft);
    let mut executor = loaded.executor;
    let groups = executor.capacity().groups;
    let tokens = [&of_target.tokens[..], &of_target.greedy].concat();
    for (slot, round) in golden.rounds.iter().enumerate() {
        let end = of_target.tokens.len() + round.known - 1;
        let seq = |slot: usize, start: usize, ids: &[u32], drafts: usize| SeqPlan {
            slot: slot as u32,
            tokens: RowTokens::Known(ids.to_vec()),
            start: start as u32,
            blocks: (0..groups.blocks(start + ids.len() + drafts))
                .map(|at| (1 + groups.blocks(64) * slot + at) as u32)
                .collect(),
            sample: Some(Sampling::GREEDY),
            drafts: vec![Draft::default(); drafts],
            follow: Follow::Sampled,
            ..Default::default()
        };
        let mut run = |seq: SeqPlan| {
            let read_logits = seq.rows() <= 1 + MAX_DRAFTS;
            let plan = StepPlan { seqs: vec![seq], read_logits, ..Default::default() };
            executor.submit(&plan).expect("a valid step");
            pollster::block_on(executor.result(async || {})).expect("the device lives")
        };
        let read = run(seq(slot, 0, &tokens[..end], 0));
        assert_eq!(read.samples[0].token, tokens[end], "the target's own token");
        let drafted = run(seq(slot, end, &tokens[end..=end], round.drafts.len()));
        assert_eq!(drafted.samples.len(), 1 + round.accepted, "{name}, round {slot}");
        run(seq(slot + 8, 0, &tokens[..end], 0));
        let answer = [&tokens[end..=end], &round.drafts].concat();
        let expected = run(seq(slot + 8, end, &answer, 0));
        let error = crate::support::nmse(&expected.logits, &drafted.logits);
        assert!(error < 1e-8, "{name}, round {slot}: {error:e}");
    }
}

/// The built-in model's head drafts rounds as long as those of speculators' implementation.
fn the_built_in_head_has_the_acceptance_of_its_reference(device: Device) {
    let goldens: Vec<Golden> = golden("draft/built_in.json");
    let executor = loaded(device, DraftBy::Head).loaded.executor;
    // Rounds are counted: none is cut short because its device is slow.
    let step_seconds = f64::INFINITY;
    let options =
        Options { adaptive_drafts: false, max_drafts: 5, step_seconds, ..Default::default() };
    let mut engine = Engine::new(executor, options, steady_clock()).with_proposer(no_lookup());
    for golden in goldens {
        let request = Request {
            prompt: golden.tokens,
            max_tokens: Some(golden.greedy.len()),
            ..Default::default()
        };
        engine.submit(request).expect("it is accepted");
        let (mut answer, mut known) = (Vec::new(), Vec::new());
        while !engine.is_idle() {
            for event in pollster::block_on(engine.step()).expect("the device lives") {
                if let Event::Token { token, .. } = event {
                    answer.push(token);
                }
            }
            known.push(answer.len());
        }
        assert_eq!(answer, golden.greedy);
        let expected: Vec<usize> = golden.rounds.iter().map(|round| round.known).collect();
        known.retain(|known| (1..answer.len()).contains(known));
        known.dedup();
        assert_eq!(known, expected);
    }
}

#[test]
fn a_draft_head_that_does_not_fit_is_reported_and_the_model_runs_without_it() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("www/model");
    let folder = std::env::temp_dir().join(format!("tabloom-heads-{}", std::process::id()));
    let options = LoadOptions { device: Device::Cpu, ..Default::default() };
    let prompt: Vec<u32> = golden::<Vec<Golden>>("draft/built_in.json").remove(0).tokens;
    let changed = |field: &str, value: Value| {
        let json = fs::read(model.join("draft/config.json")).expect("a configuration");
        let mut config: Value = serde_json::from_slice(&json).expect("a valid one");
        config[field] = value;
        config.to_string().into_bytes()
    };
    let weights = fs::read(model.join("draft/model.safetensors")).expect("weights");
    let config = changed("model_type", "llama".into());
    let cut = &weights[..weights.len() / 2];
    // Changes the header to another name of the same length.
    let renamed = |from: &[u8], to: &[u8]| {
        let mut weights = weights.clone();
        let at = weights.windows(from.len()).position(|name| name == from).expect("the tensor");
        weights[at..][..to.len()].copy_from_slice(to);
        weights
    };
    let nameless = renamed(b"\"norm.weight\"", b"\"morn.weight\"");
    let streams = "eagle_aux_hidden_state_layer_ids";
    /// Configuration, weights, and a check of the error.
    type Case<'a> = (Vec<u8>, &'a [u8], fn(&Error) -> bool);
    let table: [Case; 9] = [
        // For another model, by width and by vocabulary.
        (
            changed("target_hidden_size", 256.into()),
            &weights,
            |error| matches!(error, Error::InvalidConfig { field, .. } if field == "target_hidden_size"),
        ),
        (
            changed("vocab_size", 4096.into()),
            &weights,
            |error| matches!(error, Error::InvalidConfig { field, .. } if field == "vocab_size"),
        ),
        // For another model, by its layers: the target has fewer.
        (
            changed(streams, json!([2, 4, 60])),
            &weights,
            |error| matches!(error, Error::InvalidConfig { field, .. } if field.ends_with("layer_ids")),
        ),
        (
            changed("intermediate_size", 96.into()),
            &weights,
            |error| matches!(error, Error::WrongTensor { name, .. } if name.contains(".mlp.")),
        ),
        (
            changed("draft_vocab_size", 1000.into()),
            &weights,
            |error| matches!(error, Error::WrongTensor { name, .. } if name.starts_with("lm_head")),
        ),
        (
            config.clone(),
            &nameless,
            |error| matches!(error, Error::MissingTensor { name } if name == "norm.weight"),
        ),
        // A model of an unsupported architecture.
        (
            json!({ "architectures": ["BloomForCausalLM"] }).to_string().into_bytes(),
            &weights,
            |error| matches!(error, Error::UnsupportedArchitecture { found, .. } if found == "BloomForCausalLM"),
        ),
        (config.clone(), b"", |error| matches!(error, Error::Truncated { .. })),
        (config.clone(), cut, |error| matches!(error, Error::Truncated { .. })),
    ];
    for (at, (config, weights, expected)) in table.into_iter().enumerate() {
        fs::create_dir_all(folder.join("draft")).expect("a folder");
        for file in ["config.json", "model.safetensors"] {
            fs::copy(model.join(file), folder.join(file)).expect("a copy");
        }
        fs::write(folder.join("draft/config.json"), config).expect("a file");
        fs::write(folder.join("draft/model.safetensors"), weights).expect("a file");
        let source = FolderSource::new(folder.to_str().expect("a name").to_owned());
        let load = load::executor(&source, &options, |_| ControlFlow::Continue(()));
        let loaded = pollster::block_on(load).expect("the model loads");
        let Some(Err(error)) = loaded.draft else { panic!("{at}: {:?}", loaded.draft) };
        println!("{error}");
        assert!(expected(&error), "{at}: {error:?}");
        let mut engine = Engine::new(loaded.executor, Options::default(), steady_clock());
        let request = Request { prompt: prompt.clone(), max_tokens: Some(3), ..Default::default() };
        engine.submit(request).expect("it is accepted");
        let mut tokens = 0;
        while !engine.is_idle() {
            let events = pollster::block_on(engine.step()).expect("it runs");
            tokens += events.iter().filter(|event| matches!(event, Event::Token { .. })).count();
        }
        assert_eq!(tokens, 3);
    }
    fs::remove_dir_all(folder).expect("it is removed");
}

fn heads_draft_as_their_references_do(device: Device) {
    for name in [
        "llama3",
        "norms",
        "stream_norms",
        "qk_norms",
        "two_layers",
        "biases",
        "narrow",
        "eagle",
        "mtp",
        "mimo",
        "medusa",
        "repeated_medusa",
    ] {
        a_random_head_drafts_like_its_reference(name, device);
    }
    the_built_in_head_has_the_acceptance_of_its_reference(device);
}

#[test]
fn heads_draft_as_their_references_do_on_the_cpu() {
    heads_draft_as_their_references_do(Device::Cpu);
}

#[test]
fn heads_draft_as_their_references_do_on_the_gpu() {
    heads_draft_as_their_references_do(Device::Gpu);
}
