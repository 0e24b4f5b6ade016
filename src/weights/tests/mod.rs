//! Whole loads: checkpoints in memory and on disk, good and bad, into host memory.

mod claim;
mod draft;
mod experts;
mod faults;
mod formats;
mod goldens;
mod http;
mod kept;
mod packed;
mod parallel;
pub mod server;
mod stored;
mod streaming;

use super::*;
use crate::error::{Error, Result};
use crate::model::{ModelConfig, Quantization};
use ::safetensors::tensor::{Dtype, TensorView, serialize};
use pollster::block_on;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

/// Files in memory, returned in chunks of a chosen size.
#[derive(Clone)]
pub struct MemorySource {
    pub files: BTreeMap<String, Vec<u8>>,
    pub chunk: usize,
    pub tells_length: bool,
    pub opened: RefCell<Vec<String>>,
}

pub struct MemoryStream {
    pub rest: Vec<u8>,
    pub chunk: usize,
    pub length: Option<u64>,
}

impl MemorySource {
    pub fn new(files: impl IntoIterator<Item = (&'static str, Vec<u8>)>) -> MemorySource {
        let files = files.into_iter().map(|(name, bytes)| (name.into(), bytes)).collect();
        MemorySource { files, chunk: 1000, tells_length: true, opened: RefCell::default() }
    }

    fn file(&mut self, name: &str) -> &mut Vec<u8> {
        self.files.get_mut(name).expect("the test's own file")
    }
}

impl Source for MemorySource {
    type Stream = MemoryStream;

    fn gguf(&self) -> Option<&str> {
        self.files.keys().map(String::as_str).find(|name| name.ends_with(".gguf"))
    }

    async fn open(&self, file: &str) -> Result<Option<MemoryStream>> {
        self.opened.borrow_mut().push(file.into());
        Ok(self.files.get(file).map(|bytes| MemoryStream {
            rest: bytes.clone(),
            chunk: self.chunk,
            length: self.tells_length.then_some(bytes.len() as u64),
        }))
    }
}

impl ByteStream for MemoryStream {
    fn length(&self) -> Option<u64> {
        self.length
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        let rest = self.rest.split_off(self.chunk.min(self.rest.len()));
        let chunk = std::mem::replace(&mut self.rest, rest);
        Ok((!chunk.is_empty()).then(|| chunk.into()))
    }
}

/// Reads the configuration and loads the weights into host memory.
fn load(source: &impl Source, quantise: &Quantise) -> Result<HostWeights> {
    load_observed(source, quantise, |_| ControlFlow::Continue(()))
}

fn load_observed(
    source: &impl Source,
    quantise: &Quantise,
    on_progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<HostWeights> {
    block_on(load_slowly(source, quantise, on_progress))
}

async fn load_slowly(
    source: &impl Source,
    quantise: &Quantise,
    on_progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<HostWeights> {
    let config = source.read("config.json").await?;
    let quantization = Quantization::from_json(&config)?;
    let config = ModelConfig::from_json(&config)?;
    let checkpoint = Checkpoint::open(source).await?;
    let plan = checkpoint.plan(&config, quantization, quantise)?;
    let mut sink = HostSink::new();
    checkpoint.load(&plan, &mut sink, on_progress).await?;
    Ok(sink.into_weights())
}

/// A configuration whose sizes need padding everywhere.
fn tiny_config() -> Value {
    json!({
        "architectures": ["Qwen2ForCausalLM"], "hidden_size": 20, "intermediate_size": 12,
        "max_position_embeddings": 64, "num_attention_heads": 2, "num_hidden_layers": 1,
        "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "vocab_size": 11, "head_dim": 8,
        "tie_word_embeddings": true,
    })
}

/// Every tensor of [`tiny_config`]: name, shape.
const TINY: [(&str, &[usize]); 14] = [
    ("model.embed_tokens.weight", &[11, 20]),
    ("model.layers.0.input_layernorm.weight", &[20]),
    ("model.layers.0.self_attn.q_proj.weight", &[16, 20]),
    ("model.layers.0.self_attn.k_proj.weight", &[8, 20]),
    ("model.layers.0.self_attn.v_proj.weight", &[8, 20]),
    ("model.layers.0.self_attn.q_proj.bias", &[16]),
    ("model.layers.0.self_attn.k_proj.bias", &[8]),
    ("model.layers.0.self_attn.v_proj.bias", &[8]),
    ("model.layers.0.self_attn.o_proj.weight", &[20, 16]),
    ("model.layers.0.post_attention_layernorm.weight", &[20]),
    ("model.layers.0.mlp.gate_proj.weight", &[12, 20]),
    ("model.layers.0.mlp.up_proj.weight", &[12, 20]),
    ("model.layers.0.mlp.down_proj.weight", &[20, 12]),
    ("model.norm.weight", &[20]),
];

/// A tensor's name, type, shape and bytes.
type Stored = (String, Dtype, Vec<usize>, Vec<u8>);

/// Random f32 tensors for [`tiny_config`].
fn tiny_tensors() -> Vec<Stored> {
    let mut rng = fastrand::Rng::with_seed(7);
    let tensor = |(name, shape): &(&str, &[usize])| {
        let count: usize = shape.iter().product();
        let bytes = (0..count).flat_map(|_| (rng.f32() - 0.5).to_le_bytes()).collect();
        (name.to_string(), Dtype::F32, shape.to_vec(), bytes)
    };
    TINY.iter().map(tensor).collect()
}

fn serialized(tensors: &[Stored]) -> Vec<u8> {
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    serialize(views, None).unwrap()
}

fn tiny_source() -> MemorySource {
    MemorySource::new([
        ("config.json", tiny_config().to_string().into_bytes()),
        ("model.safetensors", serialized(&tiny_tensors())),
    ])
}

/// The same model in two shards with an index.
fn sharded_source() -> MemorySource {
    let tensors = tiny_tensors();
    let (first, second) = tensors.split_at(4);
    let map: BTreeMap<&str, &str> = first
        .iter()
        .map(|tensor| (tensor.0.as_str(), "a.safetensors"))
        .chain(second.iter().map(|tensor| (tensor.0.as_str(), "b.safetensors")))
        .collect();
    MemorySource::new([
        ("config.json", tiny_config().to_string().into_bytes()),
        ("model.safetensors.index.json", json!({"weight_map": map}).to_string().into_bytes()),
        ("a.safetensors", serialized(first)),
        ("b.safetensors", serialized(second)),
    ])
}
