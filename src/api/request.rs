//! What a client sends: OpenAI's chat completion request.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::constraint::{ResponseFormat, StructuredOutputs};
use super::fields::Fields;
use super::tools::{RequestTool, ToolChoice};
use crate::error::Result;

/// A request for a chat completion as it comes over the wire, not yet checked.
///
/// Besides OpenAI's fields it takes some of vLLM's: `top_k`, `min_p`, `repetition_penalty`,
/// `allowed_token_ids`, `bad_words`, `stop_token_ids`, `min_tokens`, `ignore_eos`,
/// `repetition_detection`, `include_stop_str_in_output`, `skip_special_tokens`, `prompt_logprobs`,
/// `logprob_token_ids`, `thinking_token_budget`, `chat_template_kwargs`, `continue_final_message` and
/// `structured_outputs`; `speculative_decoding` is its own. [`ChatCompletionRequest::validate`] turns it into a [`crate::api::ChatRequest`].
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
    /// Token ids to what is added to their logits.
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
    /// More variables of the chat template.
    pub chat_template_kwargs: Option<Map<String, Value>>,
    /// Whether a last message of the assistant is gone on with; true unless said otherwise.
    pub continue_final_message: Option<bool>,
    /// Whether tokens may be guessed before they are drawn.
    pub speculative_decoding: Option<bool>,
    /// Every other field, so that none is ignored in silence.
    pub other: BTreeMap<String, Value>,
}

/// One message of a request.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RequestMessage {
    pub role: String,
    pub content: Option<Content>,
    /// What the assistant thought.
    pub reasoning_content: Option<String>,
    /// The assistant's calls of tools.
    pub tool_calls: Option<Vec<RequestCall>>,
    /// The call that a message of a tool answers.
    pub tool_call_id: Option<String>,
    /// The name of the tool that answers.
    pub name: Option<String>,
    /// Whether the answer goes on with this message, the last and the assistant's.
    pub prefix: Option<bool>,
    /// Every other field, so that none is ignored in silence.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A call of a tool in a message of the assistant.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestCall {
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub function: RequestCallFunction,
    /// Where it was in a stream; it changes nothing.
    pub index: Option<u32>,
}

/// The function that a [`RequestCall`] calls.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestCallFunction {
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

/// How much a model thinks before it answers, as far as its chat template knows such a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

/// A message's content: plain text, or a list of parts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of parts {type: \"text\", text: …}")]
pub enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// One part of a message's content; only parts of type `text` are supported.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ContentPart {
    #[serde(rename = "type")]
    pub kind: String,
    pub text: Option<String>,
}

/// Where to stop: one string or several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub enum Stop {
    One(String),
    Many(Vec<String>),
}

/// A pattern of tokens that, coming again and again, ends an answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RepetitionDetection {
    /// Most tokens of a pattern; 0 looks for none.
    pub max_pattern_size: i64,
    /// Fewest tokens of a pattern; 0 means 1.
    pub min_pattern_size: i64,
    /// How often it must come one after the other.
    pub min_count: i64,
}

/// Options that only matter for streamed answers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StreamOptions {
    /// Whether a last chunk without choices carries the token counts.
    pub include_usage: Option<bool>,
}

impl ChatCompletionRequest {
    /// Reads a request from any serde format; a wrong type is reported with the parameter's path.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self> {
        Self::from_fields(Fields::read(deserializer)?)
    }

    /// Reads the fields of a request.
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

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Content::Text(text.into())
    }
}
