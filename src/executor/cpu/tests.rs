//! The draft heads' logits against reference implementations, see `tests/goldens/golden_draft.py`.

use std::{collections::BTreeMap, ops::ControlFlow};

use pollster::block_on;
use serde::Deserialize;

use super::*;
use crate::{
    model::Quantization,
    step::{BLOCK_SIZE, Draft, Follow, HostMemory, KvGroups, RowTokens, Sampling, SeqPlan},
    weights::{Checkpoint, FolderSource, HostSink, Quantise, Source, open_draft},
};

/// The references store keys and values in f32; with f16 they differ from themselves by up to 6e-5.
const LIMIT: f64 = 3e-4;

#[derive(Deserialize)]
struct Golden {
    target: String,
    /// The draft head is in the checkpoint of its target.
    inside: bool,
    rounds: Vec<Round>,
}

#[derive(Deserialize)]
struct Round {
    /// Tokens of the answer before this round.
    known: usize,
    /// By number of earlier drafts: `[vocab]` of the draft head.
    logits: BTreeMap<usize, Vec<f32>>,
}

#[derive(Deserialize)]
struct OfTarget {
    tokens: Vec<u32>,
    greedy: Vec<u32>,
}

fn folder(name: &str) -> String {
    format!("{}/tests/goldens/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn golden<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let json = std::fs::read(folder(&format!("{name}/golden.json"))).expect("it is there");
    serde_json::from_slice(&json).expect("it is valid")
}

async fn load(head: &str, target: &str) -> Result<CpuExecutor> {
    let proceed = |_: crate::weights::Progress| ControlFlow::Continue(());
    let source = FolderSource::new(folder(target));
    let json = source.read("config.json").await?;
    let config = ModelConfig::from_json(&json)?;
    let checkpoint = Checkpoint::open(&source).await?;
    let plan = checkpoint.plan(&config, Quantization::from_json(&json)?, &Quantise::KEEP)?;
    let mut weights = HostSink::new();
    checkpoint.load(&plan, &mut weights, proceed).await?;

    let source = FolderSource::new(folder(head));
    let mut of_head = HostSink::new();
    let prepared = open_draft(&source, &config, &Quantise::KEEP).await?;
    let draft = prepared.load(&mut of_head, proceed).await?;
    let draft = Drafter::Head(Box::new(draft), of_head.into_weights());

    let (vocab, kinds) = (config.vocab, vec![KvKind::F16; config.layers]);
    let (rows, seqs, blocks, context) = (64, 16, 128, 128);
    let (groups, host) = (KvGroups::FULL, HostMemory::NONE);
    let capacity = Capacity { rows, seqs, logit_rows: rows, blocks, context, vocab, groups, host };
    let (executor, refused) =
        CpuExecutor::with_draft(config, weights.into_weights(), Some(draft), capacity, kinds)?;
    refused.map_or(Ok(executor), Err)
}

/// Runs tokens of a sequence and returns the logits of the last draft after them.
fn run(
    executor: &mut CpuExecutor,
    slot: usize,
    start: usize,
    tokens: &[u32],
    drafts: usize,
) -> Vec<f32> {
    let blocks = (start + tokens.len() + drafts).div_ceil(BLOCK_SIZE);
    let seq = SeqPlan {
        slot: slot as u32,
        tokens: RowTokens::Known(tokens.to_vec()),
        start: start as u32,
        blocks: (0..blocks).map(|at| (1 + 4 * slot + at) as u32).collect(),
        sample: Some(Sampling::GREEDY),
        drafts: vec![Draft::default(); drafts],
        follow: Follow::Sampled,
        ..Default::default()
    };
    executor.submit(&StepPlan { seqs: vec![seq], ..Default::default() }).expect("a valid step");
    block_on(executor.result(async || {})).expect("it runs");
    let model = executor.draft.as_ref().and_then(|draft| draft.model.as_ref()).expect("a head");
    model.acts[&Act::Logits][..model.config.vocab].to_vec()
}

fn nmse(expected: &[f32], found: &[f32]) -> f64 {
    assert_eq!(expected.len(), found.len());
    let squares = |list: &mut dyn Iterator<Item = f32>| -> f64 {
        list.map(|x| f64::from(x) * f64::from(x)).sum()
    };
    let differences = &mut expected.iter().zip(found).map(|(a, b)| a - b);
    squares(differences) / squares(&mut expected.iter().copied())
}

#[test]
fn draft_heads_compute_the_logits_of_their_references() {
    let heads = std::fs::read_dir(folder("draft")).expect("the goldens are there");
    let heads = heads.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir());
    let mut checked = 0;
    for path in heads {
        let head = format!("draft/{}", path.file_name().unwrap().to_str().unwrap());
        let Golden { target, inside, rounds } = golden(&head);
        let OfTarget { tokens, greedy } = golden(&target);
        let target = if inside { &head } else { &target };
        let mut executor = block_on(load(&head, target)).expect(&head);
        let all = [&tokens[..], &greedy].concat();
        let drafts = rounds.iter().flat_map(|round| {
            round.logits.iter().map(|(before, logits)| (round.known, *before, logits))
        });
        for (slot, (known, before, expected)) in drafts.enumerate() {
            let end = tokens.len() + known - 1;
            run(&mut executor, slot, 0, &all[..end], 0);
            let found = run(&mut executor, slot, end, &all[end..=end], before + 1);
            let error = nmse(expected, &found);
            assert!(error < LIMIT, "{head}, {known} known, draft {before}: {error:.1e}");
            checked += 1;
        }
    }
    assert_eq!(checked, 12 * 4 * 2);
}

#[test]
fn a_product_in_pieces_has_the_bits_of_a_whole_one() {
    let tokens = [1, 2, 3];
    let logits = |piece: usize| {
        let mut executor = block_on(load("draft/llama3", "llama3_bf16")).expect("it loads");
        executor.target.piece = piece;
        run(&mut executor, 0, 0, &tokens, 0);
        executor.target.acts[&Act::Logits].clone()
    };
    let whole = logits(usize::MAX);
    assert!(whole.iter().any(|logit| *logit != 0.0));
    for piece in [1, 5000] {
        assert_eq!(logits(piece), whole, "pieces of {piece} multiplications");
    }
}
