//! The messages between a page and the host.
//!
//! A page sends [`Call`]s, most with an id of its own choice; every [`Answer`] names the id it
//! answers. A call is over with its first `value`, `end` or `error`. The first call is
//! [`Call::Hello`].

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
    service::Resumed,
    step::{BLOCK_SIZE, MAX_DRAFTS},
};

use super::state::HostMetrics;

/// The version of these messages.
pub const PROTOCOL: u32 = 1;
/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Models that are made of files of a page have names that begin so.
pub const LOCAL: &str = "local:";
/// Longest message, in bytes of JSON: far more than the longest context.
const LONGEST: usize = 64 << 20;

/// What a page asks for.
#[derive(Debug)]
pub enum Call {
    /// Says who asks, and is answered with [`Welcome`].
    Hello {
        id: u32,
        version: String,
        protocol: u32,
        /// A Web Lock that the page holds as long as it lives.
        tab: Option<String>,
        visible: bool,
        isolation: Isolation,
    },
    /// Load the model in the folder `url`; answered by `progress`…, then `value` with [`Info`].
    Load {
        id: u32,
        url: String,
        options: Result<Options>,
        /// What a local model is made of, which JSON cannot express.
        files: Option<IgnoredAny>,
    },
    /// Answer a conversation; streams give `accepted`, `chunk`… and `end`, others a `value`.
    Chat {
        id: u32,
        request: Box<Result<ChatCompletionRequest>>,
        moment: Asked,
        /// Chunks of the stream that the page has room for.
        credit: u32,
        /// What the page has of each choice of a stream that another host began.
        resume: Option<Vec<Resumed>>,
    },
    /// Go on with texts; answered as `Chat`.
    Complete {
        id: u32,
        request: Box<Result<CompletionRequest>>,
        moment: Asked,
        credit: u32,
        resume: Option<Vec<Resumed>>,
    },
    /// Tell what tokenizer or template make of something; answered by a `value`.
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
    /// The page has room for so many chunks more of that stream.
    Credit { id: u32, chunks: u32 },
    /// Drop the call of that id; it gets no more answers.
    Cancel { id: u32 },
    /// Whether the page can be seen.
    Visible { visible: bool },
    /// A snapshot of the metrics, as a `value` with [`HostMetrics`].
    Metrics { id: u32 },
    /// Answered with null, to show that the host lives.
    Ping { id: u32 },
    /// The page takes its leave.
    Bye {},
}

/// When a request was first asked, and a random number: they name, date and seed its answer, also when
/// it is asked again of another host.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Seconds since 1970.
    pub now: u64,
    pub entropy: u64,
}

/// What is to be told of tokens.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokensTask {
    /// Those of a text or a conversation.
    Tokenize,
    /// Their text.
    Detokenize,
    /// The text of a conversation.
    Template,
}

/// Whose cached prefixes a page may share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Those of all pages that say so too.
    #[default]
    Shared,
    /// Nobody's.
    Tab,
    /// Those of the pages that name the same session.
    Session(String),
}

/// How to load.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    pub device: Device,
    pub quantize: Quantize,
    pub context: Option<usize>,
    pub kv: Kv,
    pub kv_bytes: Option<u64>,
    pub sliding_window: Option<SlidingWindow>,
    pub speculation: Speculation,
    pub draft: Draft,
    /// Memory for weights, keys and values of all models of the host; the last load that names it
    /// counts.
    pub budget_bytes: Option<u64>,
    pub store: Keep,
    /// What the files must be.
    pub integrity: Option<Manifest>,
    /// Where Hugging Face's repositories are, if not there; ends with `/`.
    pub hub: Option<String>,
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

/// Most tokens that are guessed ahead of a draw: as many as can be unless the page says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Guesses")]
pub struct Speculation {
    pub max_drafts: usize,
}

/// [`Speculation`] as a page writes it.
#[derive(Deserialize)]
#[serde(
    untagged,
    rename_all_fields = "camelCase",
    deny_unknown_fields,
    expecting = "expected true, false or {maxDrafts: 0 to 7}"
)]
enum Guesses {
    Switch(bool),
    Limit { max_drafts: Option<usize> },
}

impl Default for Speculation {
    fn default() -> Speculation {
        Speculation { max_drafts: MAX_DRAFTS }
    }
}

impl TryFrom<Guesses> for Speculation {
    type Error = String;

    fn try_from(guesses: Guesses) -> Result<Speculation, String> {
        let max_drafts = match guesses {
            Guesses::Switch(false) => 0,
            Guesses::Switch(true) | Guesses::Limit { max_drafts: None } => MAX_DRAFTS,
            Guesses::Limit { max_drafts: Some(most) } => most,
        };
        if max_drafts > MAX_DRAFTS {
            return Err(format!("found {max_drafts} maxDrafts, expected 0 to {MAX_DRAFTS}"));
        }
        Ok(Speculation { max_drafts })
    }
}

/// What guesses the tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Guesser")]
pub enum Draft {
    /// What lies beside the model.
    #[default]
    Beside,
    Nothing,
    /// The model's own first layers, so many of them.
    EarlyExit(usize),
    /// What is in the folder with this address.
    Folder(String),
}

/// [`Draft`] as a page writes it.
#[derive(Deserialize)]
#[serde(
    untagged,
    rename_all_fields = "camelCase",
    deny_unknown_fields,
    expecting = "expected true, false, the address of a folder or {earlyExit: layers}"
)]
enum Guesser {
    Switch(bool),
    Folder(String),
    Own { early_exit: usize },
}

impl From<Guesser> for Draft {
    fn from(guesser: Guesser) -> Draft {
        match guesser {
            Guesser::Switch(true) => Draft::Beside,
            Guesser::Switch(false) => Draft::Nothing,
            Guesser::Folder(url) => Draft::Folder(url),
            Guesser::Own { early_exit } => Draft::EarlyExit(early_exit),
        }
    }
}

/// What a page is told.
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
        /// The choice's tokens that are new since its last chunk.
        tokens: Vec<u32>,
        /// In the chunk that ends a choice: its tokens, all told.
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

/// What is to be told to whom, in order.
pub type Outbox = Vec<(TabId, Answer)>;

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Welcome(Welcome),
    Info(Info),
    Completion(ChatCompletion),
    TextCompletion(Completion),
    Embeddings(EmbeddingResponse),
    Tokens(TokenizeResponse),
    Text(DetokenizeResponse),
    Rendered(String),
    Metrics(Box<HostMetrics>),
    Pong(()),
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Welcome {
    pub version: &'static str,
    pub protocol: u32,
    /// A Web Lock that the host holds as long as it lives.
    pub host: Option<String>,
}

/// How far loading is.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// What came of the drafter; null if there is none.
    pub draft: Option<DraftInfo>,
}

/// A drafter that is used, or why it is not.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DraftInfo {
    /// Bytes of its weights.
    WeightBytes(f64),
    Error(String),
}

/// What is wrong with a message, and the id of its call where it names one.
pub type Refused = (u32, Error);

impl Call {
    /// The page's name for it, or 0.
    pub fn id(&self) -> u32 {
        match self {
            Call::Hello { id, .. }
            | Call::Load { id, .. }
            | Call::Chat { id, .. }
            | Call::Complete { id, .. }
            | Call::Tokens { id, .. }
            | Call::Embed { id, .. }
            | Call::Credit { id, .. }
            | Call::Cancel { id }
            | Call::Metrics { id }
            | Call::Ping { id } => *id,
            Call::Visible { .. } | Call::Bye {} => 0,
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where it is no call. What is wrong with the parameters of a call is in
    /// the call itself.
    pub fn read(json: &str) -> Result<Call, Refused> {
        let refused = |id, message| {
            let error = Error::InvalidRequest { param: "message".into(), message };
            Err((id, error))
        };
        if json.len() > LONGEST {
            let message = format!("found {} bytes, expected at most {LONGEST}", json.len());
            return refused(0, message);
        }
        let mut fields: Fields = match serde_json::from_str::<Map<_, _>>(json) {
            Ok(fields) => fields.into(),
            Err(error) => return refused(0, error.to_string()),
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

    /// The call of these fields and of an id, which is `known` if it is one of a call.
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
                files: f.value("files").map(|_| IgnoredAny),
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
            "bye" => Call::Bye {},
            _ => return Err(invalid("type", format!("{kind:?}"), "the type of a call")),
        };
        refuse_unsupported("", &fields.into_map(), &[])?;
        Ok(call)
    }
}

/// The request of a call; what is wrong with it is for the call's answer to say.
fn request(fields: &mut Fields) -> serde_json::Value {
    fields.value("request").unwrap_or_default()
}

/// As with a request, with the option to blame.
fn options(value: serde_json::Value) -> Result<Options> {
    typed(&value).map_err(|(path, message)| Error::InvalidRequest {
        param: path.unwrap_or_else(|| "options".into()),
        message,
    })
}
