//! The messages between a page and the host.
//!
//! A page sends [`Call`]s, most with an id that it chooses; every [`Answer`] has the id of its call. A
//! call ends with its first `value`, `end` or `error`. The first call is [`Call::Hello`].

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::Map;

use crate::{
    Error, Result,
    api::{
        ChatCompletion, ChatCompletionRequest, Chunk, Completion, CompletionRequest,
        DetokenizeResponse, EmbeddingRequest, EmbeddingResponse, Fields, TokenizeResponse, invalid,
        refuse_unsupported, typed,
    },
    engine::TabId,
    error::WireError,
    manifest::Manifest,
    service::{Resumed, SamplingDefaults},
    step::{BLOCK_SIZE, MAX_DRAFTS},
};

use super::state::HostMetrics;

/// The version of these messages.
pub const PROTOCOL: u32 = 1;
/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// URL prefix of models whose files the page passes in.
pub const LOCAL: &str = "local:";
/// Longest message, in bytes of JSON: far more than the longest context.
const LONGEST: usize = 64 << 20;

/// A message from a page.
#[derive(Debug)]
pub enum Call {
    /// Introduces the page; answered by a `value` with [`Welcome`].
    Hello {
        id: u32,
        version: String,
        protocol: u32,
        /// A Web Lock that the page holds while it lives.
        tab: Option<String>,
        visible: bool,
        isolation: Isolation,
    },
    /// Load the model in the folder `url`; answered by `progress`…, then `value` with [`Info`].
    Load {
        id: u32,
        url: String,
        options: Result<Options>,
        /// Whether to do with less memory: the device was lost.
        sparing: bool,
        /// Whether the message has the files of a local model; JSON cannot hold the files themselves.
        files: Option<IgnoredAny>,
    },
    /// Begin to load the model in the folder `url`, and stop before its weights; answered by a `value` with
    /// [`Inspection`], or the error of the load.
    Inspect { id: u32, url: String, options: Result<Options> },
    /// Run a chat completion; a stream gives `accepted`, `chunk`… and `end`, others a `value`.
    Chat {
        id: u32,
        request: Box<Result<ChatCompletionRequest>>,
        moment: Asked,
        /// Number of chunks that the page accepts for now.
        credit: u32,
        /// Resumes a stream that another host began: the part of each choice that the page has.
        resume: Option<Vec<Resumed>>,
    },
    /// Run a text completion; answered as `Chat`.
    Complete {
        id: u32,
        request: Box<Result<CompletionRequest>>,
        moment: Asked,
        credit: u32,
        resume: Option<Vec<Resumed>>,
    },
    /// Tokenise, detokenise or render the chat template; answered by a `value`.
    Tokens {
        id: u32,
        task: TokensTask,
        /// A [`TokenizeRequest`](crate::api::TokenizeRequest), or a
        /// [`DetokenizeRequest`](crate::api::DetokenizeRequest).
        request: serde_json::Value,
        /// Seconds since 1970, for templates that print a date.
        now: u64,
    },
    /// Embed texts; answered by a `value`.
    Embed { id: u32, request: Result<EmbeddingRequest> },
    /// The page accepts this many more chunks of that stream.
    Credit { id: u32, chunks: u32 },
    /// Cancel the call with that id; it gets no more answers.
    Cancel { id: u32 },
    /// Whether the page is visible.
    Visible { visible: bool },
    /// A snapshot of the metrics, as a `value` with [`HostMetrics`].
    Metrics { id: u32 },
    /// Answered with null, to show that the host is alive.
    Ping { id: u32 },
    /// The page disconnects; with `free` its model goes, too, if no other page uses it.
    Bye { free: bool },
}

/// The time at which a request was first sent, and a random number. They set the id, date and seed of
/// its answer, and stay the same when the request is sent again to another host.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Seconds since 1970.
    pub now: u64,
    pub entropy: u64,
}

/// The task of [`Call::Tokens`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokensTask {
    /// The tokens of a text or a conversation.
    Tokenize,
    /// The text of tokens.
    Detokenize,
    /// The rendered text of a conversation.
    Template,
}

/// The pages that a page shares its prefix cache with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// All pages that choose this.
    #[default]
    Shared,
    /// No other page.
    Tab,
    /// Pages with the same session name.
    Session(String),
}

/// How to load a model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    pub device: Device,
    pub quantize: Quantize,
    pub context: Option<usize>,
    pub kv: Kv,
    pub kv_bytes: Option<u64>,
    pub sliding_window: Option<SlidingWindow>,
    pub prefix_cache: PrefixCache,
    pub speculation: Speculation,
    pub draft: Draft,
    /// Memory budget for weights and KV caches of all models of the host; the last load that sets it
    /// wins.
    pub budget_bytes: Option<u64>,
    pub store: Keep,
    /// Expected digests of the files.
    pub integrity: Option<Manifest>,
    /// Base URL of Hugging Face's repositories, if not the default; ends with `/`.
    pub hub: Option<String>,
    pub gpu: GpuFeatures,
    /// Whether to do with less memory, see [`Call::Load`].
    #[serde(skip)]
    pub sparing: bool,
}

/// Optional features of the GPU that are used where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GpuFeatures {
    pub subgroups: bool,
}

impl Default for GpuFeatures {
    fn default() -> GpuFeatures {
        GpuFeatures { subgroups: true }
    }
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

/// Where the files are kept for the next load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// In the browser's Cache API.
    #[default]
    Cache,
    /// In the origin private file system.
    Opfs,
    None,
}

/// How to quantise 16- and 32-bit matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantize {
    #[default]
    Keep,
    W8,
    W4,
}

/// Data type of the KV cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kv {
    #[default]
    F16,
    Int8,
}

/// The attention window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlidingWindow {
    /// Tokens at the start that stay visible; one block by default.
    #[serde(default = "SlidingWindow::sinks")]
    pub sinks: usize,
    /// Last tokens, the current one included.
    pub tokens: usize,
}

impl SlidingWindow {
    fn sinks() -> usize {
        BLOCK_SIZE
    }
}

/// Where cached prefixes are kept for which the KV cache has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct PrefixCache {
    /// Bytes of host memory.
    pub host_bytes: u64,
    /// Bytes of the origin private file system, for what tabs share of long conversations; none by default.
    pub stored_bytes: u64,
}

impl Default for PrefixCache {
    fn default() -> PrefixCache {
        PrefixCache { host_bytes: 128 << 20, stored_bytes: 0 }
    }
}

/// Most draft tokens per step of speculative decoding; [`MAX_DRAFTS`] by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "SpeculationJson")]
pub struct Speculation {
    pub max_drafts: usize,
}

/// [`Speculation`] in JSON.
#[derive(Deserialize)]
#[serde(
    untagged,
    rename_all_fields = "camelCase",
    deny_unknown_fields,
    expecting = "expected true, false or {maxDrafts: 0 to 7}"
)]
enum SpeculationJson {
    Switch(bool),
    Limit { max_drafts: Option<usize> },
}

impl Default for Speculation {
    fn default() -> Speculation {
        Speculation { max_drafts: MAX_DRAFTS }
    }
}

impl TryFrom<SpeculationJson> for Speculation {
    type Error = String;

    fn try_from(json: SpeculationJson) -> Result<Speculation, String> {
        let max_drafts = match json {
            SpeculationJson::Switch(false) => 0,
            SpeculationJson::Switch(true) | SpeculationJson::Limit { max_drafts: None } => {
                MAX_DRAFTS
            }
            SpeculationJson::Limit { max_drafts: Some(most) } => most,
        };
        if max_drafts > MAX_DRAFTS {
            return Err(format!("found {max_drafts} maxDrafts, expected 0 to {MAX_DRAFTS}"));
        }
        Ok(Speculation { max_drafts })
    }
}

/// The drafter of speculative decoding, besides prompt lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "DraftJson")]
pub enum Draft {
    /// The drafter in the model's own folder, if there is one.
    #[default]
    Bundled,
    Nothing,
    /// The model's first layers: this many.
    EarlyExit(usize),
    /// The drafter in the folder with this URL.
    Folder(String),
}

/// [`Draft`] in JSON.
#[derive(Deserialize)]
#[serde(
    untagged,
    rename_all_fields = "camelCase",
    deny_unknown_fields,
    expecting = "expected true, false, the address of a folder or {earlyExit: layers}"
)]
enum DraftJson {
    Switch(bool),
    Folder(String),
    Own { early_exit: usize },
}

impl From<DraftJson> for Draft {
    fn from(json: DraftJson) -> Draft {
        match json {
            DraftJson::Switch(true) => Draft::Bundled,
            DraftJson::Switch(false) => Draft::Nothing,
            DraftJson::Folder(url) => Draft::Folder(url),
            DraftJson::Own { early_exit } => Draft::EarlyExit(early_exit),
        }
    }
}

/// A message to a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Answer {
    Progress {
        id: u32,
        progress: Progress,
    },
    Accepted {
        id: u32,
    },
    Chunk {
        id: u32,
        value: Chunk,
        /// The tokens of this chunk.
        tokens: Vec<u32>,
        /// In the chunk that ends a choice: its total token count.
        ended: Option<usize>,
    },
    End {
        id: u32,
    },
    Value {
        id: u32,
        value: Value,
    },
    Error {
        id: u32,
        error: WireError,
    },
}

/// Answers to send, in order.
pub type Outbox = Vec<(TabId, Answer)>;

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Welcome(Welcome),
    Info(Info),
    Inspection(Inspection),
    Completion(ChatCompletion),
    TextCompletion(Completion),
    Embeddings(EmbeddingResponse),
    Tokens(TokenizeResponse),
    Text(DetokenizeResponse),
    Rendered(String),
    Metrics(Box<HostMetrics>),
    Pong(()),
}

/// The answer to [`Call::Hello`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Welcome {
    pub version: &'static str,
    pub protocol: u32,
    /// A Web Lock that the host holds while it lives.
    pub host: Option<String>,
}

/// The progress of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub stage: Stage,
    pub file: String,
    pub loaded: f64,
    pub total: f64,
    /// Bytes, or kernels, per second.
    pub rate: f64,
}

/// What a load does at the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Download,
    Compile,
}

/// The loaded model and its device.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// Whether the files are kept for the next load.
    pub stored: bool,
    /// The drafter; null if there is none.
    pub draft: Option<DraftInfo>,
    pub sampling: SamplingDefaults,
}

/// What a load of a model takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    pub weight_bytes: f64,
    pub kv_bytes: f64,
    pub file_bytes: f64,
}

/// The drafter that is used, or why it is not.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DraftInfo {
    /// Bytes of its weights.
    WeightBytes(f64),
    Error(String),
}

/// The id of an invalid message's call, 0 if it has none, and the error.
pub type Refused = (u32, Error);

impl Call {
    /// The call's id, or 0 if it has none.
    pub fn id(&self) -> u32 {
        match self {
            Call::Hello { id, .. }
            | Call::Load { id, .. }
            | Call::Inspect { id, .. }
            | Call::Chat { id, .. }
            | Call::Complete { id, .. }
            | Call::Tokens { id, .. }
            | Call::Embed { id, .. }
            | Call::Credit { id, .. }
            | Call::Cancel { id }
            | Call::Metrics { id }
            | Call::Ping { id } => *id,
            Call::Visible { .. } | Call::Bye { .. } => 0,
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if it is no call. Errors in a call's parameters are inside the [`Call`].
    pub fn read(json: &str) -> Result<Call, Refused> {
        let refused = |id, message| {
            let error = Error::InvalidRequest { param: "message".into(), message };
            Err((id, error))
        };
        if json.len() > LONGEST {
            let message = format!("found {} bytes, expected at most {LONGEST}", json.len());
            return refused(id_of(json), message);
        }
        let mut fields: Fields = match serde_json::from_str::<Map<_, _>>(json) {
            Ok(fields) => fields.into(),
            Err(error) => return refused(id_of(json), error.to_string()),
        };
        let id = fields.value("id");
        let known = id.as_ref().and_then(|id| u32::try_from(id.as_u64()?).ok());
        Call::from_fields(id.unwrap_or_default(), known, fields).or_else(|error| {
            let message = match error {
                Error::InvalidRequest { param, message } => format!("{param}: {message}"),
                other => other.to_string(),
            };
            refused(known.unwrap_or_default(), message)
        })
    }

    /// Reads a call from its fields. `known` is the id if it is a valid one.
    fn from_fields(id: serde_json::Value, known: Option<u32>, mut fields: Fields) -> Result<Call> {
        let f = &mut fields;
        let kind: String = f.need("type")?;
        let id = match (known, &*kind) {
            (None, "visible" | "bye") if id.is_null() => 0,
            (_, "visible" | "bye") => return Err(invalid("id", id, "none")),
            (Some(id), _) => id,
            (None, _) => return Err(invalid("id", id, "a whole number below 2^32")),
        };
        let call = match &*kind {
            "hello" => Call::Hello {
                id,
                version: f.need("version")?,
                protocol: f.need("protocol")?,
                tab: f.take("tab")?,
                visible: f.need("visible")?,
                isolation: f.take("isolation")?.unwrap_or_default(),
            },
            "load" => Call::Load {
                id,
                url: f.need("url")?,
                options: options(f.value("options").unwrap_or_default()),
                sparing: f.take("sparing")?.unwrap_or_default(),
                files: f.value("files").map(|_| IgnoredAny),
            },
            "inspect" => Call::Inspect {
                id,
                url: f.need("url")?,
                options: options(f.value("options").unwrap_or_default()),
            },
            "chat" => Call::Chat {
                id,
                request: Box::new(ChatCompletionRequest::read(request(f))),
                moment: f.need("moment")?,
                credit: f.take("credit")?.unwrap_or_default(),
                resume: f.take("resume")?,
            },
            "complete" => Call::Complete {
                id,
                request: Box::new(CompletionRequest::read(request(f))),
                moment: f.need("moment")?,
                credit: f.take("credit")?.unwrap_or_default(),
                resume: f.take("resume")?,
            },
            "tokens" => {
                Call::Tokens { id, task: f.need("task")?, request: request(f), now: f.need("now")? }
            }
            "embed" => Call::Embed { id, request: EmbeddingRequest::read(request(f)) },
            "credit" => Call::Credit { id, chunks: f.need("chunks")? },
            "cancel" => Call::Cancel { id },
            "visible" => Call::Visible { visible: f.need("visible")? },
            "metrics" => Call::Metrics { id },
            "ping" => Call::Ping { id },
            "bye" => Call::Bye { free: f.take("free")?.unwrap_or_default() },
            _ => return Err(invalid("type", format!("{kind:?}"), "the type of a call")),
        };
        refuse_unsupported("", &fields.into_map(), &[])?;
        Ok(call)
    }
}

/// The id of a call that cannot be read, as when it is too long or too deep; 0 if it has none.
fn id_of(json: &str) -> u32 {
    #[derive(Deserialize)]
    struct Id {
        id: u32,
    }
    serde_json::from_str(json).map_or(0, |Id { id }| id)
}

/// The request of a call, unread: its errors belong to the call's answer.
fn request(fields: &mut Fields) -> serde_json::Value {
    fields.value("request").unwrap_or_default()
}

/// Reads the load options; errors name the option.
fn options(value: serde_json::Value) -> Result<Options> {
    typed(&value).map_err(|(path, message)| Error::InvalidRequest {
        param: path.unwrap_or_else(|| "options".into()),
        message,
    })
}
