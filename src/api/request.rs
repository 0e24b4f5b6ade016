//! OpenAI's chat completion request, as a client sends it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de::SeqAccess};
use serde_json::{Map, Value};

use super::constraint::{ResponseFormat, StructuredOutputs};
use super::fields::Fields;
use super::tools::{RequestTool, ToolChoice};
use super::typed::{TextOrList, all};
use crate::error::Result;

/// A request for a chat completion as it comes over the wire, not yet checked.
///
/// Besides OpenAI's fields it takes these of vLLM: `top_k`, `min_p`, `repetition_penalty`,
/// `allowed_token_ids`, `bad_words`, `stop_token_ids`, `min_tokens`, `ignore_eos`,
/// `repetition_detection`, `include_stop_str_in_output`, `skip_special_tokens`, `prompt_logprobs`,
/// `logprob_token_ids`, `thinking_token_budget`, `chat_template_kwargs`, `continue_final_message` and
/// `structured_outputs`. `speculative_decoding` is Tabloom's own. [`ChatCompletionRequest::validate`]
/// turns it into a [`crate::api::ChatRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatCompletionRequest {
    pub model: Option<String>,
    pub messages: Vec<RequestMessage>,
    pub stream: Option<bool>,
    pub stream_options: Option<StreamOptions>,
    /// The older name of `max_completion_tokens`.
    pub max_tokens: Option<i64>,
    pub max_completion_tokens: Option<i64>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<i64>,
    pub min_p: Option<f64>,
    pub seed: Option<i64>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub repetition_penalty: Option<f64>,
    /// Token id → value added to its logit.
    pub logit_bias: Option<BTreeMap<String, f64>>,
    pub logprobs: Option<bool>,
    pub top_logprobs: Option<i64>,
    pub logprob_token_ids: Option<Vec<i64>>,
    pub prompt_logprobs: Option<i64>,
    pub allowed_token_ids: Option<Vec<i64>>,
    pub bad_words: Option<Vec<String>>,
    pub stop_token_ids: Option<Vec<i64>>,
    pub min_tokens: Option<i64>,
    pub thinking_token_budget: Option<i64>,
    pub ignore_eos: Option<bool>,
    pub repetition_detection: Option<RepetitionDetection>,
    pub stop: Option<Stop>,
    pub include_stop_str_in_output: Option<bool>,
    pub skip_special_tokens: Option<bool>,
    pub n: Option<i64>,
    pub response_format: Option<ResponseFormat>,
    pub structured_outputs: Option<StructuredOutputs>,
    pub tools: Option<Vec<RequestTool>>,
    pub tool_choice: Option<ToolChoice>,
    pub parallel_tool_calls: Option<bool>,
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Further variables for the chat template.
    pub chat_template_kwargs: Option<Map<String, Value>>,
    /// Whether the answer continues a last message of the assistant; default true.
    pub continue_final_message: Option<bool>,
    /// Whether speculative decoding may be used.
    pub speculative_decoding: Option<bool>,
    /// All other fields, so that none is ignored silently.
    pub other: BTreeMap<String, Value>,
}

/// One message of a request.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct RequestMessage {
    pub role: String,
    pub content: Option<Content>,
    /// The assistant's reasoning.
    pub reasoning_content: Option<String>,
    /// The same as `reasoning_content`, in answers of vLLM and OpenRouter.
    pub reasoning: Option<String>,
    /// The same as `reasoning_content`, in answers of Ollama.
    pub thinking: Option<String>,
    /// The same as `reasoning_content` in pieces, in answers of OpenRouter.
    pub reasoning_details: Option<Vec<ReasoningDetail>>,
    /// What the assistant said instead of an answer.
    pub refusal: Option<String>,
    /// The assistant's tool calls.
    pub tool_calls: Option<Vec<RequestCall>>,
    /// In a message of role `tool`: the id of the call that it answers.
    pub tool_call_id: Option<String>,
    /// The name of that tool.
    pub name: Option<String>,
    /// Whether the answer continues this message; only for a last message of the assistant.
    pub prefix: Option<bool>,
    /// All other fields, so that none is ignored silently.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A piece of the assistant's reasoning: text, a summary, or neither where it is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(expecting = "an object")]
pub struct ReasoningDetail {
    pub text: Option<String>,
    pub summary: Option<String>,
}

/// A tool call in a message of the assistant.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(expecting = "an object")]
pub struct RequestCall {
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub function: RequestCallFunction,
    /// The call's index in a stream; it changes nothing.
    pub index: Option<u32>,
    /// All other fields, so that none is ignored silently.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The function that a [`RequestCall`] calls.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(expecting = "an object")]
pub struct RequestCallFunction {
    pub name: String,
    /// A JSON object, as text; nothing, null and an empty text mean an empty object.
    pub arguments: Option<Value>,
    /// All other fields, so that none is ignored silently.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// How much the model reasons before it answers, if its chat template supports that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

/// A message's content: plain text, or a list of parts.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// One part of a message's content: of type `text`, or of type `refusal` in what the assistant said.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(expecting = "an object")]
pub struct ContentPart {
    #[serde(rename = "type")]
    pub kind: String,
    pub text: Option<String>,
    pub refusal: Option<String>,
}

/// Where to stop: one string or several.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    One(String),
    Many(Vec<String>),
}

/// Ends an answer that repeats a pattern of tokens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
pub struct RepetitionDetection {
    /// Longest pattern in tokens; 0 turns the detection off.
    pub max_pattern_size: i64,
    /// Shortest pattern in tokens; 0 means 1.
    pub min_pattern_size: i64,
    /// How many times in a row it must occur.
    pub min_count: i64,
}

/// Options that only matter for streamed answers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
pub struct StreamOptions {
    /// Whether a last chunk without choices carries the token counts.
    pub include_usage: Option<bool>,
    /// Whether chunks are padded to hide their lengths; not supported.
    pub include_obfuscation: Option<bool>,
}

impl ChatCompletionRequest {
    /// Reads a request from any serde format; a wrong type is reported with the parameter's path.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self> {
        Self::from_fields(Fields::read(deserializer)?)
    }

    /// Reads a request from its fields.
    pub(super) fn from_fields(mut fields: Fields) -> Result<Self> {
        macro_rules! request {
            ($($field:ident)*) => {
                ChatCompletionRequest {
                    messages: fields.take("messages")?.unwrap_or_default(),
                    $($field: fields.take(stringify!($field))?,)*
                    other: fields.into_map(),
                }
            };
        }
        Ok(request! {
            model stream stream_options max_tokens
            max_completion_tokens temperature top_p top_k
            min_p seed presence_penalty frequency_penalty
            repetition_penalty logit_bias logprobs top_logprobs
            logprob_token_ids prompt_logprobs allowed_token_ids bad_words
            stop_token_ids min_tokens thinking_token_budget ignore_eos
            repetition_detection stop include_stop_str_in_output skip_special_tokens
            n response_format structured_outputs tools
            tool_choice parallel_tool_calls reasoning_effort chat_template_kwargs
            continue_final_message speculative_decoding
        })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(deserializer)
    }
}

impl TextOrList for Content {
    const EXPECTED: &'static str = "a string or a list of parts {type: \"text\", text: …}";

    fn text(text: String) -> Self {
        Content::Text(text)
    }

    fn list<'de, A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        all(list).map(Content::Parts)
    }
}

impl<'de> Deserialize<'de> for Stop {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(deserializer)
    }
}

impl TextOrList for Stop {
    const EXPECTED: &'static str = "a string or a list of strings";

    fn text(text: String) -> Self {
        Stop::One(text)
    }

    fn list<'de, A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        all(list).map(Stop::Many)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Content::Text(text.into())
    }
}
