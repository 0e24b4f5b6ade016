//! Reads arbitrary bytes as a model's files, and uses the result if there is one. Any input must give
//! a result or an [`Error`].
//!
//! The fuzz targets call these functions, and so does `tests/fuzz.rs` of the main crate.

use pollster::block_on;
use serde_json::json;
use std::ops::ControlFlow;
use tabloom::{
    Error, Result,
    load::{self, LoadOptions, Opened},
    model::{ModelConfig, Quantization},
    text::{Chat, ChatFiles, ChatTemplate, TemplateOptions, Tokenizer},
    weights::{ByteStream, Chunk, HostSink, Quantise, Reader, Source, open_draft, safetensors},
};

/// Larger models are planned, but not loaded.
const MOST_BYTES: u64 = 4 << 20;

/// A text with letters, digits, white space, an emoji and control token look-alikes.
const TEXT: &str = "Hi  there,\n<|user|>1234 <s>[INST]é🙂</s><think>\tx y";

/// Reads the header of a safetensors file.
pub fn safetensors(data: &[u8]) {
    for has_length in [true, false] {
        let mut reader = Reader::new(Bytes::new(data, has_length));
        let header = block_on(safetensors::read("model.safetensors", &mut reader));
        if let (Ok(header), true) = (header, has_length) {
            assert_eq!(header.end, data.len() as u64);
        }
    }
}

/// Reads `config.json`.
pub fn config(data: &[u8]) {
    let _ = Quantization::from_json(data);
    if let Ok(config) = ModelConfig::from_json(data) {
        use_config(&config);
    }
}

fn use_config(config: &ModelConfig) {
    assert!(!config.params().is_empty());
    for layer in &config.attention {
        if let Some(rope) = &layer.rope {
            assert_eq!(rope.inverse_frequencies(&[], config.context).len(), rope.dims / 2);
        }
    }
    let kinds = vec![Default::default(); config.layers];
    let _ = load::capacity(config, &LoadOptions::default(), &kinds, u64::MAX);
}

/// Loads a folder from a zero-separated input: `config.json`, the shard index if there are more than
/// two parts, and a file of weights.
pub fn checkpoint(data: &[u8]) {
    let (config, rest) = cut(data);
    let folder = match cut(rest) {
        (index @ [b'{', ..], shard) => {
            Folder { config, index: Some(index), weights: shard, gguf: None }
        }
        _ => Folder { config, index: None, weights: rest, gguf: None },
    };
    let _ = block_on(open(&folder));
}

/// Loads a GGUF file and its tokenizer.
pub fn gguf(data: &[u8]) {
    let folder = Folder { config: b"", index: None, weights: data, gguf: Some("model.gguf") };
    let _ = block_on(open(&folder));
}

async fn open(folder: &Folder<'_>) -> Result<()> {
    let opened = Opened::open(folder).await?;
    if folder.gguf.is_some()
        && let Ok(chat) = opened.chat().await
    {
        use_chat(&chat);
    }
    let options =
        LoadOptions { device: load::Device::Cpu, kv_bytes: Some(MOST_BYTES), ..Default::default() };
    let prepared = opened.prepare(&options)?;
    if prepared.bytes() <= 2 * MOST_BYTES {
        prepared.load(|_| ControlFlow::Continue(())).await?;
    }
    Ok(())
}

/// Loads a draft head from a zero-separated input: `config.json` and a PyTorch file.
pub fn draft(data: &[u8]) {
    let (config, weights) = cut(data);
    let target = json!({"architectures": ["Qwen2ForCausalLM"], "hidden_size": 20,
        "intermediate_size": 12, "max_position_embeddings": 64, "num_attention_heads": 2,
        "num_hidden_layers": 8, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "vocab_size": 11,
        "head_dim": 8});
    let target = ModelConfig::from_json(target.to_string().as_bytes()).expect("a target");
    let head = Head { config, weights };
    let prepared = block_on(open_draft(&head, &target, &Quantise::KEEP));
    if let Ok(prepared) = prepared
        && prepared.bytes() <= MOST_BYTES
    {
        let _ = block_on(prepared.load(&mut HostSink::new(), |_| ControlFlow::Continue(())));
    }
}

/// Reads `tokenizer.json`.
pub fn tokenizer(data: &[u8]) {
    if let Ok(chat) = Chat::new(&ChatFiles { tokenizer: data, ..Default::default() }) {
        use_chat(&chat);
    }
}

fn use_chat(chat: &Chat) {
    use_tokenizer(chat.tokenizer());
    let _ = chat.prompt(&vec![tabloom::api::Message::user(TEXT)].into(), Some(0));
}

fn use_tokenizer(tokenizer: &Tokenizer) {
    for text in ["", TEXT] {
        for ids in [tokenizer.encode_plain(text, true), tokenizer.encode_prompt(text)] {
            let Ok(ids) = ids else { continue };
            assert!(ids.iter().all(|id| *id <= tokenizer.max_id()));
            let _ = tokenizer.decode(&ids);
        }
    }
    let _ = tokenizer.spellings(300);
}

/// Compiles a chat template, and renders it unless it has namespaces, by which values may be nested so
/// deeply that dropping them takes all stack.
pub fn template(data: &[u8]) {
    let Ok(source) = str::from_utf8(data) else { return };
    let Ok(template) = ChatTemplate::new(source.into(), "<s>", "</s>") else { return };
    if source.contains("namespace") {
        return;
    }
    let messages = json!([
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": "<think>hm</think>yes", "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": {"a": [1, 2.5, null]}}},
        ]},
        {"role": "tool", "content": "4"},
    ]);
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let variables = [("tools".to_owned(), tools), ("enable_thinking".to_owned(), true.into())];
    let options = TemplateOptions {
        now: Some(0),
        variables: variables.into_iter().collect(),
        ..Default::default()
    };
    let _ = template.render(&messages, &options);
}

/// Splits at the first zero byte.
fn cut(data: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// A folder in memory.
struct Folder<'a> {
    config: &'a [u8],
    index: Option<&'a [u8]>,
    /// The contents of all other files.
    weights: &'a [u8],
    gguf: Option<&'a str>,
}

impl<'a> Source for Folder<'a> {
    type Stream = Bytes<'a>;

    async fn open(&self, file: &str) -> Result<Option<Bytes<'a>>> {
        let bytes = match (file, self.index) {
            ("config.json", _) => Some(self.config),
            ("model.safetensors", Some(_)) => None,
            ("model.safetensors.index.json", index) => index,
            _ => Some(self.weights),
        };
        Ok(bytes.map(|bytes| Bytes::new(bytes, true)))
    }

    fn gguf(&self) -> Option<&str> {
        self.gguf
    }
}

/// The folder of a draft head in memory.
struct Head<'a> {
    config: &'a [u8],
    weights: &'a [u8],
}

impl<'a> Source for Head<'a> {
    type Stream = Bytes<'a>;

    async fn open(&self, file: &str) -> Result<Option<Bytes<'a>>> {
        Ok(match file {
            "config.json" => Some(Bytes::new(self.config, true)),
            "pytorch_model.bin" => Some(Bytes::new(self.weights, true)),
            _ => None,
        })
    }
}

/// The rest of a file.
struct Bytes<'a> {
    rest: &'a [u8],
    length: Option<u64>,
}

impl<'a> Bytes<'a> {
    fn new(rest: &'a [u8], has_length: bool) -> Bytes<'a> {
        Bytes { rest, length: has_length.then_some(rest.len() as u64) }
    }
}

impl ByteStream for Bytes<'_> {
    fn length(&self) -> Option<u64> {
        self.length
    }

    async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        // A chunk size that no element size divides.
        let (chunk, rest) = self.rest.split_at(self.rest.len().min(997));
        self.rest = rest;
        Ok((!chunk.is_empty()).then(|| chunk.to_vec().into()))
    }
}
