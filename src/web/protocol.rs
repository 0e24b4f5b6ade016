//! The messages between a page and the engine's worker.
//!
//! A page sends [`Call`]s, each with an id of its own choice; every [`Answer`] names the id it
//! answers. A call is over with its first `value`, `end` or `error`.

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    Error, Result,
    api::{ChatCompletionChunk, ChatCompletionRequest, EmbeddingRequest},
    error::WireError,
    metrics::Metrics,
    step::BLOCK_SIZE,
};

/// What a page asks for.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Call {
    /// Load the model in the folder `url`; answered by `progress`, then `value` with [`Info`].
    Load {
        id: u32,
        url: String,
        #[serde(deserialize_with = "Options::read")]
        options: Result<Options>,
    },
    /// Answer a conversation; streams give `accepted`, `chunk`… and `end`, others a `value`.
    Chat {
        id: u32,
        #[serde(deserialize_with = "read_request")]
        request: Box<Result<ChatCompletionRequest>>,
    },
    /// Embed texts; answered by a `value`.
    Embed {
        id: u32,
        #[serde(deserialize_with = "read_embedding_request")]
        request: Result<EmbeddingRequest>,
    },
    /// Drop the call of that id; it gets no more answers.
    Cancel { id: u32 },
    /// A snapshot of the metrics, as a `value` with [`HostMetrics`].
    Metrics { id: u32 },
}

/// How to load.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    #[serde(default)]
    pub device: Device,
    #[serde(default)]
    pub quantize: Quantize,
    pub context: Option<usize>,
    #[serde(default)]
    pub kv: Kv,
    pub kv_bytes: Option<u64>,
    pub sliding_window: Option<SlidingWindow>,
}

impl Options {
    /// Never fails: what is wrong is in the result, with the option to blame.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Result<Options>, D::Error> {
        Ok(serde_path_to_error::deserialize(deserializer).map_err(|error| Error::InvalidRequest {
            param: match error.path().to_string().as_str() {
                "." => "options".into(),
                path => path.into(),
            },
            message: error.inner().to_string(),
        }))
    }
}

/// Never fails: what is wrong is in the result, with the parameter to blame.
fn read_request<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Box<Result<ChatCompletionRequest>>, D::Error> {
    Ok(Box::new(ChatCompletionRequest::read(deserializer)))
}

/// Never fails, as [`read_request`].
fn read_embedding_request<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Result<EmbeddingRequest>, D::Error> {
    Ok(EmbeddingRequest::read(deserializer))
}

/// Which executor to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    #[default]
    Auto,
    Gpu,
    Cpu,
}

/// How 16- and 32-bit matrices are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantize {
    #[default]
    Keep,
    W8,
    W4,
}

/// How keys and values are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kv {
    #[default]
    F16,
    Int8,
}

/// What each token sees of its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlidingWindow {
    /// Tokens at the beginning that stay visible; one block by default.
    #[serde(default = "SlidingWindow::sinks")]
    pub sinks: usize,
    /// Last tokens, itself included.
    pub tokens: usize,
}

impl SlidingWindow {
    fn sinks() -> usize {
        BLOCK_SIZE
    }
}

/// What a page is told.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Answer<T: Serialize> {
    Progress { id: u32, progress: Progress },
    Accepted { id: u32 },
    Chunk { id: u32, value: ChatCompletionChunk },
    End { id: u32 },
    Value { id: u32, value: T },
    Error { id: u32, error: WireError },
}

/// How far loading is.
#[derive(Debug, Serialize)]
pub struct Progress {
    /// `download` or `compile`.
    pub stage: &'static str,
    pub file: String,
    pub loaded: f64,
    pub total: f64,
    /// Bytes, or kernels, per second.
    pub rate: f64,
}

/// What was loaded, and on what.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Info {
    pub model: String,
    pub architecture: String,
    /// `gpu` or `cpu`.
    pub device: &'static str,
    pub adapter: String,
    pub software: bool,
    pub context: usize,
    pub weight_bytes: f64,
}

/// Counters and gauges of the engine, and of the worker it lives in.
#[derive(Debug, Serialize)]
pub struct HostMetrics {
    #[serde(flatten)]
    pub engine: Metrics,
    /// Size of the WebAssembly memory, which never shrinks: the peak so far.
    pub wasm_heap_bytes: usize,
}
