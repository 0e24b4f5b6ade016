//! If a drafter cannot be loaded, this is reported, and the model runs without it.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use tabloom::{
    Error, Result,
    engine::{Engine, Event, Options, Request, steady_clock},
    executor::{KvKind, block_bytes},
    gpu::{Gpu, Power},
    load::{Device, DraftWith, LoadOptions, Loaded, Opened, Progress},
    step::{Executor, KvGroups},
    weights::FolderSource,
};

/// The folder of the built-in model.
pub fn built_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("www/model")
}

/// A folder for a test's files.
pub fn scratch(name: &str) -> PathBuf {
    let name = format!("tabloom-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn proceed(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Loads the built-in model with the drafter in a folder.
fn load(
    folder: &Path,
    options: LoadOptions,
    on_progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Loaded> {
    let (source, beside) = (FolderSource::new(built_in()), FolderSource::new(folder));
    pollster::block_on(async {
        let opened = Opened::open(&source).await?;
        let draft = opened.draft(&beside, &options).await;
        opened.prepare(&options)?.with_draft(draft)?.load(on_progress).await
    })
}

/// Loads it without a drafter.
fn load_alone(options: LoadOptions) -> Loaded {
    let options = LoadOptions { draft: DraftWith::Nothing, ..options };
    load(&built_in(), options, proceed).expect("the model loads")
}

/// The model's answer to a few tokens.
fn answer(loaded: Loaded) -> Vec<u32> {
    let mut engine = Engine::new(loaded.executor, Options::default(), steady_clock());
    let prompt = (100..108).collect();
    let request = Request { prompt, max_tokens: Some(6), ..Default::default() };
    engine.submit(request).expect("it is accepted");
    let mut tokens = Vec::new();
    while !engine.is_idle() {
        for event in pollster::block_on(engine.step()).expect("it runs") {
            if let Event::Token { token, .. } = event {
                tokens.push(token);
            }
        }
    }
    assert_eq!(tokens.len(), 6);
    tokens
}

#[test]
fn a_budget_of_the_model_may_leave_its_head_no_room() {
    for device in [Device::Cpu, Device::Gpu] {
        let options = LoadOptions { device, ..Default::default() };
        let config = load_alone(options).config;
        // One block for tokens, and the null block.
        let kv_bytes =
            Some(2 * block_bytes(&config, &vec![KvKind::F16; config.layers], KvGroups::FULL));
        let options = LoadOptions { kv_bytes, ..options };
        let loaded = load(&built_in().join("draft"), options, proceed).expect("the model loads");
        let Some(Err(Error::InvalidRequest { param, .. })) = &loaded.draft else {
            panic!("{:?}", loaded.draft)
        };
        assert_eq!(param, "kvBytes");
        let alone = load_alone(options);
        assert_eq!((loaded.weight_bytes, loaded.context), (alone.weight_bytes, alone.context));
        assert_eq!(answer(loaded), answer(alone));
    }
}

/// Writes a model with the built-in vocabulary, weights of zero, and a wide MLP.
fn write_wide_model(folder: &Path, width: u64) {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": width,
        "num_hidden_layers": 2, "num_attention_heads": 1, "num_key_value_heads": 1,
        "vocab_size": 2048, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5,
        "hidden_act": "silu", "tie_word_embeddings": true,
    });
    fs::write(folder.join("config.json"), config.to_string()).expect("a file");
    let of_layer = [
        ("input_layernorm", vec![32]),
        ("post_attention_layernorm", vec![32]),
        ("self_attn.q_proj", vec![32, 32]),
        ("self_attn.k_proj", vec![32, 32]),
        ("self_attn.v_proj", vec![32, 32]),
        ("self_attn.o_proj", vec![32, 32]),
        ("mlp.gate_proj", vec![width, 32]),
        ("mlp.up_proj", vec![width, 32]),
        ("mlp.down_proj", vec![32, width]),
    ];
    let layers = [0, 1].map(|layer| {
        of_layer.each_ref().map(|(name, shape)| (format!("layers.{layer}.{name}"), shape.clone()))
    });
    let around = [("embed_tokens".into(), vec![2048, 32]), ("norm".into(), vec![32])];
    let (mut header, mut end) = (Map::new(), 0);
    for (name, shape) in layers.into_iter().flatten().chain(around) {
        let begin = end;
        end += 2 * shape.iter().product::<u64>();
        let tensor = json!({ "dtype": "BF16", "shape": shape, "data_offsets": [begin, end] });
        header.insert(format!("model.{name}.weight"), tensor);
    }
    let header = Value::Object(header).to_string();
    let start = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    let path = folder.join("model.safetensors");
    fs::write(&path, &start).expect("a file");
    let file = fs::File::options().write(true).open(path).expect("the file");
    file.set_len(start.len() as u64 + end).expect("zeros");
}

#[test]
fn a_draft_model_may_be_too_wide_for_the_device() {
    let largest = {
        let gpu = pollster::block_on(Gpu::open(Power::HighPerformance)).expect("a GPU");
        gpu.largest_binding()
    };
    let folder = scratch("wide");
    let options = LoadOptions { draft: DraftWith::Separate, ..Default::default() };
    let rows = load_alone(options).executor.capacity().rows as u64;
    // The MLP activations of a step are one binding.
    write_wide_model(&folder, (largest / (4 * rows) + 1).next_multiple_of(32));
    let loaded = load(&folder, options, proceed).expect("the model loads");
    assert!(matches!(loaded.draft, Some(Err(Error::TooLarge { .. }))), "{:?}", loaded.draft);
    let alone = load_alone(options);
    assert_eq!(loaded.weight_bytes, alone.weight_bytes);
    assert_eq!(answer(loaded), answer(alone));
    fs::remove_dir_all(folder).expect("it is removed");
}

#[test]
fn a_draft_model_must_have_the_same_vocabulary() {
    let folder = scratch("tokens");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(built_in().join(file), folder.join(file)).expect("a copy");
    }
    let tokenizer = fs::read(built_in().join("tokenizer.json")).expect("a tokenizer");
    let tokenizer: Value = serde_json::from_slice(&tokenizer).expect("a valid one");
    let mut swapped = tokenizer.clone();
    let vocab = swapped["model"]["vocab"].as_object_mut().expect("a vocabulary");
    let [first, second]: [String; 2] = [1000, 1001].map(|id| {
        let (token, _) = vocab.iter().find(|(_, of)| **of == id).expect("a token");
        token.clone()
    });
    vocab.insert(first, 1001.into());
    vocab.insert(second, 1000.into());
    let options = LoadOptions { device: Device::Cpu, ..Default::default() };
    for (tokenizer, fits) in [(None, true), (Some(tokenizer), true), (Some(swapped), false)] {
        if let Some(tokenizer) = tokenizer {
            fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).expect("a file");
        }
        let loaded = load(&folder, options, proceed).expect("the model loads");
        match loaded.draft.expect("a drafter") {
            Ok(_) => assert!(fits),
            Err(Error::InvalidConfig { file, field, .. }) => {
                assert!(!fits);
                assert_eq!((&file[..], &field[..]), ("tokenizer.json", "token 1000"));
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    fs::remove_dir_all(folder).expect("it is removed");
}

#[test]
fn an_aborted_load_stops_at_once() {
    let head = built_in().join("draft");
    let model = fs::metadata(built_in().join("model.safetensors")).expect("a file").len();
    let of_head = |progress: Progress| matches!(progress, Progress::Download { loaded, .. } if loaded > model);
    let of_kernels = |progress: Progress| matches!(progress, Progress::Compile { .. });
    /// Where a load is aborted.
    type Place<'a> = (Device, &'a dyn Fn(Progress) -> bool);
    let places: [Place; 3] =
        [(Device::Cpu, &of_head), (Device::Gpu, &of_head), (Device::Gpu, &of_kernels)];
    for (device, is_there) in places {
        let mut aborted = false;
        let loaded = load(&head, LoadOptions { device, ..Default::default() }, |progress| {
            assert!(!aborted, "{device:?}: it goes on");
            aborted = is_there(progress);
            if aborted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(aborted, "{device:?}: the place is reached");
        assert!(matches!(loaded, Err(Error::Aborted)), "{device:?}: {:?}", loaded.err());
    }
}
