//! What is said of a model before it is loaded: what it takes, or the error of the load.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    rc::Rc,
};

use serde_json::{Value, json};
use tabloom::{
    Error, Result,
    executor::KvKind,
    load::{self, Device, DraftWith, Features, Inspection, LoadOptions, inspect},
    weights::{ByteStream, Chunk, FolderSource, FolderStream, Quantise, Source},
};

use crate::without_drafter::{built_in, scratch};

const OPTIONS: LoadOptions = LoadOptions {
    device: Device::Cpu,
    quantise: Quantise::KEEP,
    context: None,
    window: None,
    kv: KvKind::F16,
    draft: DraftWith::Bundled,
    kv_bytes: None,
    budget: None,
    host_bytes: 0,
    stores: false,
    sparing: false,
    features: Features { subgroups: true },
};

/// Bytes that are read at a time.
const CHUNK: usize = 4096;

/// A folder, and how many bytes are read of each file that is opened.
struct Watched {
    source: FolderSource,
    read: Rc<RefCell<BTreeMap<String, u64>>>,
}

struct Stream {
    stream: FolderStream,
    /// Read from the disk, and not from this.
    ready: Option<Chunk>,
    file: String,
    read: Rc<RefCell<BTreeMap<String, u64>>>,
}

impl Watched {
    fn new(path: impl Into<PathBuf>) -> Watched {
        Watched { source: FolderSource::new(path), read: Rc::default() }
    }
}

impl Source for Watched {
    type Stream = Stream;

    async fn open(&self, file: &str) -> Result<Option<Stream>> {
        let Some(stream) = self.source.open(file).await? else { return Ok(None) };
        self.read.borrow_mut().entry(file.into()).or_default();
        Ok(Some(Stream { stream, ready: None, file: file.into(), read: self.read.clone() }))
    }

    fn gguf(&self) -> Option<&str> {
        self.source.gguf()
    }
}

impl ByteStream for Stream {
    fn length(&self) -> Option<u64> {
        self.stream.length()
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        let next = match self.ready.take() {
            None => self.stream.next().await?,
            ready => ready,
        };
        let Some(chunk) = next else { return Ok(None) };
        let (first, length) = (chunk.len().min(CHUNK), chunk.len());
        self.ready = (first < length).then(|| chunk.slice(first..length));
        *self.read.borrow_mut().entry(self.file.clone()).or_default() += first as u64;
        Ok(Some(chunk.slice(0..first)))
    }
}

fn look(path: &Path) -> Result<Inspection> {
    pollster::block_on(inspect(&Watched::new(path), None, &OPTIONS))
}

/// Why a model does not load; the same is said without loading it.
fn refused(path: &Path) -> Error {
    let source = FolderSource::new(path);
    let load = load::model(&source, &OPTIONS, |_| ControlFlow::Continue(()));
    let loading = pollster::block_on(load).err().expect("it does not load");
    let looking = look(path).expect_err("it would not load");
    assert_eq!(looking, loading);
    loading
}

/// The built-in model's `config.json` with other fields.
fn config(fields: Value) -> Vec<u8> {
    let json = fs::read(built_in().join("config.json")).expect("a file");
    let mut config: Value = serde_json::from_slice(&json).expect("an object");
    config.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
    config.to_string().into_bytes()
}

#[test]
fn what_a_load_takes_is_known_before_the_weights() {
    let source = Watched::new(built_in());
    let found = pollster::block_on(inspect(&source, None, &OPTIONS)).expect("it would load");
    let read = source.read.borrow();
    let length = |file: &str| fs::metadata(built_in().join(file)).expect("a file").len();
    assert_eq!(read["tokenizer.json"], 0, "it is only asked for");
    for file in ["model.safetensors", "draft/model.safetensors"] {
        assert!(read[file] < length(file), "{file}: {} bytes are read", read[file]);
    }
    let files = length("model.safetensors") + length("draft/model.safetensors");
    assert_eq!(found.file_bytes, files);
    let load = load::executor(&source, &OPTIONS, |_| ControlFlow::Continue(()));
    drop(read);
    let loaded = pollster::block_on(load).expect("it loads");
    assert_eq!(found.weight_bytes, loaded.weight_bytes);
    assert!(found.kv_bytes > 0);
}

/// A GGUF file with one text among its metadata and no tensors.
fn gguf(key: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let [version, string] = [3u32, 8].map(u32::to_le_bytes);
    let [tensors, keys] = [0u64, 1].map(u64::to_le_bytes);
    [&b"GGUF"[..], &version, &tensors, &keys, &text(key), &string, &text(value)].concat()
}

#[test]
fn gguf_files_that_are_no_models_are_told_by_what_they_are() {
    let folder = scratch("ggufs");
    let path = folder.join("a.gguf");
    for (key, value, code, words) in [
        ("general.architecture", "rwkv7", "unsupported_architecture", ["keep a state", "qwen3moe"]),
        ("general.architecture", "bert", "unsupported_architecture", ["an encoder", "gemma3"]),
        ("general.architecture", "clip", "invalid_config", ["projector", "the model's own file"]),
        ("general.type", "adapter", "invalid_config", ["LoRA", "the model's own file"]),
    ] {
        fs::write(&path, gguf(key, value)).expect("a file");
        told(value, &refused(&path), code, &words);
    }
    fs::remove_dir_all(folder).expect("it is removed");
}

#[test]
fn what_is_missing_is_said_as_a_load_says_it() {
    let folder = scratch("inspected");
    let files = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"];
    for file in files {
        fs::copy(built_in().join(file), folder.join(file)).expect("a copy");
    }
    look(&folder).expect("it is whole");
    let restore = |file: &str| fs::copy(built_in().join(file), folder.join(file)).expect("a copy");
    let spoilt = |file: &str, bytes: &[u8]| {
        fs::write(folder.join(file), bytes).expect("a file");
        let error = refused(&folder);
        restore(file);
        error
    };

    let layers = config(json!({"num_hidden_layers": 99}));
    assert!(matches!(spoilt("config.json", &layers), Error::MissingTensor { .. }));
    let tokenizer_config = spoilt("tokenizer_config.json", br#"{"eos_token": 5}"#);
    assert!(matches!(tokenizer_config, Error::Malformed { .. }), "{tokenizer_config}");
    let weights = fs::read(folder.join("model.safetensors")).expect("a file");
    let short = spoilt("model.safetensors", &weights[..weights.len() - 8]);
    assert!(matches!(short, Error::Truncated { .. }), "{short}");

    for (file, part) in [("tokenizer.json", true), ("model.safetensors", false)] {
        fs::remove_file(folder.join(file)).expect("it is removed");
        match refused(&folder) {
            Error::MissingPart { part, .. } => assert_eq!(part, file),
            Error::Fetch { what, .. } => assert!(!part && what == file, "{what}"),
            error => panic!("{file}: {error}"),
        }
        restore(file);
    }
    fs::remove_dir_all(folder).expect("it is removed");
}

/// What people bring that does not run: its files, and words of the error.
type Kind = (&'static str, Vec<(&'static str, Vec<u8>)>, &'static str, &'static [&'static str]);

fn architecture(name: &str) -> Vec<u8> {
    json!({"architectures": [name], "hidden_size": 64}).to_string().into_bytes()
}

fn quantised(config: Value) -> Vec<u8> {
    self::config(json!({"quantization_config": config}))
}

#[test]
fn models_that_cannot_run_are_told_by_what_they_are() {
    let none = Vec::new;
    let adapter = br#"{"base_model_name_or_path": "org/base", "peft_type": "LORA"}"#.to_vec();
    let model = config(json!({}));
    let six_bits = json!({"bits": 6, "group_size": 64});
    let mlx = config(json!({"quantization_config": null, "quantization": six_bits}));
    let kinds: Vec<Kind> = vec![
        (
            "Mamba",
            vec![("config.json", architecture("MambaForCausalLM"))],
            "unsupported_architecture",
            &["MambaForCausalLM", "keep a state", "LlamaForCausalLM", "models.md"],
        ),
        (
            "RWKV",
            vec![("config.json", br#"{"model_type": "rwkv"}"#.to_vec())],
            "unsupported_architecture",
            &["rwkv", "keep a state"],
        ),
        (
            "Qwen3-Next",
            vec![("config.json", architecture("Qwen3NextForCausalLM"))],
            "unsupported_architecture",
            &["Qwen3NextForCausalLM", "keep a state"],
        ),
        (
            "an encoder, or sentence-transformers",
            vec![("config.json", architecture("BertModel")), ("modules.json", none())],
            "unsupported_architecture",
            &["BertModel", "an encoder, which writes no text"],
        ),
        (
            "diffusers",
            vec![("model_index.json", none())],
            "missing_part",
            &["no config.json", "pipeline for images"],
        ),
        (
            "MLC",
            vec![("mlc-chat-config.json", none()), ("params_shard_0.bin", none())],
            "missing_part",
            &["no config.json", "WebLLM", "GGUF"],
        ),
        (
            "an adapter",
            vec![("adapter_config.json", adapter.clone())],
            "missing_part",
            &["no config.json", "adapter", "merge", "org/base"],
        ),
        (
            "an adapter beside a configuration",
            vec![("config.json", model.clone()), ("adapter_config.json", adapter)],
            "missing_part",
            &["no model.safetensors", "adapter", "org/base"],
        ),
        (
            "transformers.js",
            vec![("config.json", model.clone()), ("onnx/model_q4f16.onnx", none())],
            "missing_part",
            &["no model.safetensors", "ONNX", "transformers.js", "onnx/model_q4f16.onnx"],
        ),
        (
            "PyTorch",
            vec![("config.json", model.clone()), ("pytorch_model.bin", none())],
            "missing_part",
            &["no model.safetensors", "PyTorch", "save_pretrained", "pytorch_model.bin"],
        ),
        (
            "Meta's or Mistral's own",
            vec![("params.json", none()), ("consolidated.safetensors", none())],
            "missing_part",
            &["no config.json", "other software", "params.json"],
        ),
        (
            "ExLlama",
            vec![("config.json", quantised(json!({"quant_method": "exl2", "bits": 4.0})))],
            "invalid_config",
            &["quant_method is \"exl2\"", "\"awq\"", "GGUF"],
        ),
        (
            "GPTQ of 3 bits",
            vec![("config.json", quantised(json!({"quant_method": "gptq", "bits": 3})))],
            "invalid_config",
            &["bits is 3, expected 4 or 8"],
        ),
        (
            "MLX of 6 bits",
            vec![("config.json", mlx)],
            "invalid_config",
            &["quantization.bits is 6, expected 4 or 8"],
        ),
        (
            "an empty folder",
            vec![],
            "fetch",
            &["config.json: there is no such file", "Check the address"],
        ),
    ];
    for (name, files, code, words) in kinds {
        let folder = scratch("kind");
        for (file, bytes) in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, bytes).expect("a file");
        }
        told(name, &refused(&folder), code, words);
        fs::remove_dir_all(folder).expect("it is removed");
    }
}

#[test]
fn tokenizers_of_other_software_are_named() {
    let folder = scratch("tokenizers");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(built_in().join(file), folder.join(file)).expect("a copy");
    }
    let advice = ["no tokenizer.json", "turns text into tokens"];
    told("none", &refused(&folder), "missing_part", &advice);
    for file in ["tokenizer.model", "merges.txt", "tekken.json", "vocab.txt"] {
        fs::write(folder.join(file), "").expect("a file");
        told(file, &refused(&folder), "missing_part", &["no tokenizer.json", "convert it", file]);
        fs::remove_file(folder.join(file)).expect("it is removed");
    }
    fs::remove_dir_all(folder).expect("it is removed");
}

fn told(name: &str, error: &Error, code: &str, words: &[&str]) {
    let wire = error.to_wire();
    assert_eq!(wire.code, code, "{name}: {error}");
    for word in words {
        assert!(wire.message.contains(word), "{name}: {error}, expected {word:?}");
    }
}
