//! The error type: one variant per cause that a caller can act on.

use serde::Serialize;
use serde_json::Value;

/// A result whose error is [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// All errors of Tabloom.
///
/// Each message says what was found, what was expected and what to do. An error crosses the worker
/// boundary as data ([`Error::to_wire`]), never as text to parse.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    /// A file could not be read: network failure, HTTP status, missing path.
    #[error(
        "could not read {what}: {reason}. Check the address and that the server allows this origin (CORS)"
    )]
    Fetch { what: String, reason: String },
    /// A folder lacks a part of a model, or has it in a format that is not read.
    #[error("{folder} has no {part}. {advice}")]
    MissingPart { folder: String, part: String, advice: String },
    /// The bytes are not what they claim to be (an HTML page, an LFS pointer, a broken header).
    #[error("{what} is not a valid {expected}: {found}")]
    Malformed { what: String, expected: String, found: String },
    /// A file ended before the bytes its header promises.
    #[error("{what} is truncated: {expected} bytes expected, {found} found. Download it again")]
    Truncated { what: String, expected: u64, found: u64 },
    /// A file does not match its digest, or changed while it was read.
    #[error(
        "{what} is damaged or was changed: {found} found, {expected} expected. Load it again; if that does not help, compare the file with its manifest"
    )]
    Integrity { what: String, expected: String, found: String },
    /// `config.json`, or a GGUF file's metadata, names an unsupported architecture, or none.
    #[error(
        "{} is not supported. Supported: {supported}. Published models that run: {MODELS}",
        named(found)
    )]
    UnsupportedArchitecture { found: String, supported: String },
    /// A field of a configuration file is missing, of the wrong type or out of range.
    #[error("{file}: {field} is {found}, expected {expected}")]
    InvalidConfig { file: String, field: String, found: String, expected: String },
    /// The checkpoint lacks a tensor the architecture needs.
    #[error(
        "the checkpoint has no tensor {name:?}, which this architecture needs. Is a shard missing?"
    )]
    MissingTensor { name: String },
    /// A tensor's type or shape differs from what `config.json` implies.
    #[error("tensor {name:?} is {found}, expected {expected}")]
    WrongTensor { name: String, found: String, expected: String },
    /// The device cannot hold one buffer of this size.
    #[error(
        "{what} needs {bytes} bytes, but this device allows {limit}. Choose a smaller model, context or a stronger quantisation"
    )]
    TooLarge { what: String, bytes: u64, limit: u64 },
    /// The device ran out of memory; what was allocated for this attempt has been freed.
    #[error(
        "out of GPU memory while allocating {bytes} bytes for {what}. Close other tabs, or choose {}",
        smaller(*.advised)
    )]
    OutOfMemory {
        what: String,
        bytes: u64,
        /// What a model should need at most, where this one already did with less memory.
        #[serde(skip_serializing_if = "Option::is_none")]
        advised: Option<u64>,
    },
    /// There is no usable GPU adapter.
    #[error(
        "no GPU is available: {reason}. Use a browser with WebGPU (Chrome or Edge 113+, Safari 26+, Firefox 141+), or load with device \"cpu\""
    )]
    NoGpu { reason: String },
    /// The GPU device was lost; the engine is closed.
    #[error("the GPU device was lost: {reason}. Load the engine again")]
    DeviceLost { reason: String },
    /// The device was lost although the model had little memory already.
    #[error(
        "the GPU device was lost again, although KV cache and steps had a quarter of their size. Browsers do not say why; mostly memory is short. Even so the model needs {needed} bytes: choose one that needs at most {advised}, or a stronger quantisation, or close other tabs"
    )]
    DeviceLostAgain { needed: u64, advised: u64 },
    /// The driver can compile no variant of a shader.
    #[error(
        "the GPU's driver cannot compile {shader}: {reason}. Update it, try another browser, or load with device \"cpu\""
    )]
    Pipeline { shader: &'static str, reason: String },
    /// The driver refused a valid operation.
    #[error("the GPU refused an operation: {reason}")]
    Gpu { reason: String },
    /// Prompt and answer do not fit the context.
    #[error(
        "{param}: found {prompt} tokens, but the context holds {limit} and must keep room for an answer. Shorten it"
    )]
    ContextLengthExceeded { param: String, prompt: usize, limit: usize },
    /// The queue is full.
    #[error(
        "{waiting} requests wait already, and the queue holds {limit}. Try again when some are answered"
    )]
    QueueFull { waiting: usize, limit: usize },
    /// The models in use leave too little memory for another.
    #[error(
        "the model needs {needed} bytes, but {used} of the {budget} for all models are in use. Close an engine, or load with a larger budgetBytes"
    )]
    OverBudget { needed: u64, budget: u64, used: u64 },
    /// Page and host come from different versions of the package.
    #[error(
        "this page runs version {page}, but the engine shared by all tabs is version {host}. Reload the page"
    )]
    VersionMismatch { page: String, host: String },
    /// A call came before the page said hello.
    #[error("the first message on a port must be a hello")]
    Handshake,
    /// A request parameter is missing or out of range.
    #[error("{param}: {message}")]
    InvalidRequest { param: String, message: String },
    /// The request's restrictions exclude every token.
    #[error(
        "after {sampled} tokens of the answer, the request's restrictions exclude every token, expected at least one. Loosen them"
    )]
    NoTokenAllowed { sampled: usize },
    /// The chat template failed to compile or render.
    #[error("the chat template failed: {message}")]
    Template { message: String },
    /// The tokenizer file is invalid or refused a text.
    #[error("the tokenizer failed: {message}")]
    Tokenizer { message: String },
    /// The model produced logits or hidden states that are not finite.
    #[error(
        "the model produced {count} values that are not finite numbers; the weights are damaged or overflow"
    )]
    Numerical { count: u32 },
    /// The caller aborted the operation.
    #[error("aborted by the caller")]
    Aborted,
    /// The engine was closed.
    #[error("the engine is closed. Load it again")]
    Closed,
}

/// The guide to the models that run.
const MODELS: &str = "https://github.com/tabloom/tabloom/blob/main/docs/models.md";

fn named(architecture: &str) -> String {
    match architecture {
        "" => "a model whose files name no architecture".into(),
        name => format!("architecture {name:?}{}", kind_of(name)),
    }
}

/// What an architecture of a kind that is not supported is, as far as its name shows.
fn kind_of(architecture: &str) -> &'static str {
    const STATES: [&str; 12] = [
        "mamba",
        "rwkv",
        "jamba",
        "recurrent",
        "qwen3next",
        "qwen35",
        "qwen3_5",
        "falcon-h1",
        "falconh1",
        "lfm",
        "hybrid",
        "nemotron_h",
    ];
    const ENCODERS: [&str; 7] =
        ["bert", "roberta", "deberta", "electra", "mpnet", "maskedlm", "classification"];
    const MORE: [&str; 5] = ["conditionalgeneration", "t5", "whisper", "llava", "vision"];
    let name = architecture.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&STATES) {
        ", whose layers keep a state in place of keys and values,"
    } else if has(&ENCODERS) {
        ", an encoder, which writes no text,"
    } else if has(&MORE) {
        ", which also encodes images, sound or texts,"
    } else {
        ""
    }
}

/// An error as it crosses a worker boundary, similar to OpenAI's error objects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WireError {
    /// The variant's name in snake case, for programs.
    pub code: String,
    /// The human-readable message.
    pub message: String,
    /// The request parameter that caused the error, if one did.
    pub param: Option<String>,
    /// The variant's fields.
    pub details: Value,
}

/// Longest text in a wire error, in bytes; longer input is echoed only in part.
const LONGEST: usize = 2000;

/// What to choose where memory is short.
fn smaller(advised: Option<u64>) -> String {
    match advised {
        Some(bytes) => format!("a model that needs at most {bytes} bytes"),
        None => "a smaller model or context".into(),
    }
}

impl Error {
    /// The error of a model that already does with less memory and needs so many bytes: it says what would
    /// fit.
    pub fn spared(self, needed: Option<u64>) -> Error {
        let Some(needed) = needed else { return self };
        let advised = needed / 2;
        match self {
            Error::DeviceLost { .. } => Error::DeviceLostAgain { needed, advised },
            Error::OutOfMemory { what, bytes, .. } => {
                Error::OutOfMemory { what, bytes, advised: Some(advised) }
            }
            other => other,
        }
    }

    /// Converts the error into data for a message port.
    pub fn to_wire(&self) -> WireError {
        // An enum serialises as "code" or {"code": {fields}}.
        let (code, mut details) = match serde_json::to_value(self) {
            Ok(Value::String(code)) => (code, Value::Null),
            Ok(Value::Object(map)) => map.into_iter().next().unwrap_or_default(),
            _ => Default::default(),
        };
        let fields = details.as_object_mut().into_iter().flat_map(|fields| fields.values_mut());
        for field in fields {
            if let Value::String(text) = field {
                shorten(text);
            }
        }
        let mut param = match self {
            Error::InvalidRequest { param, .. } | Error::ContextLengthExceeded { param, .. } => {
                Some(param.clone())
            }
            _ => None,
        };
        let mut message = self.to_string();
        param.iter_mut().chain([&mut message]).for_each(shorten);
        WireError { code, message, param, details }
    }
}

fn shorten(text: &mut String) {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_errors_carry_code_message_param_and_fields() {
        let param = "messages".into();
        let wire = Error::ContextLengthExceeded { param, prompt: 600, limit: 512 }.to_wire();
        assert_eq!(wire.code, "context_length_exceeded");
        assert_eq!(wire.param.as_deref(), Some("messages"));
        assert_eq!(wire.details["limit"], 512);
        assert!(wire.message.contains("600 tokens"));
        assert_eq!(Error::Closed.to_wire().code, "closed");
    }

    #[test]
    fn architectures_are_told_by_their_kind() {
        let message = |found: &str| {
            let supported = "llama".into();
            Error::UnsupportedArchitecture { found: found.into(), supported }.to_string()
        };
        for (found, words) in [
            ("MambaForCausalLM", "keep a state"),
            ("Rwkv6ForCausalLM", "keep a state"),
            ("Qwen3NextForCausalLM", "keep a state"),
            ("qwen35", "keep a state"),
            ("BertModel", "an encoder, which writes no text, is not supported"),
            ("XLMRobertaForSequenceClassification", "an encoder"),
            ("T5ForConditionalGeneration", "also encodes"),
            (
                "PhiForCausalLM",
                "architecture \"PhiForCausalLM\" is not supported. Supported: llama",
            ),
            ("", "name no architecture is not supported"),
        ] {
            assert!(message(found).contains(words), "{}", message(found));
        }
    }

    #[test]
    fn wire_errors_shorten_echoed_input() {
        let sent = "é".repeat(100_000);
        let wire = Error::InvalidRequest { param: sent.clone(), message: sent }.to_wire();
        let texts = [&wire.message, wire.param.as_ref().unwrap()];
        assert!(texts.iter().all(|text| text.len() < 2010 && text.ends_with('…')));
        assert!(wire.details.to_string().len() < 4100);
    }
}
