//! OpenAI's chat completions, whole or in chunks, as a client receives them.

use serde::Serialize;

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatCompletion {
    pub id: String,
    /// Always `chat.completion`.
    pub object: &'static str,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
    /// `n` answers, in order.
    pub choices: Vec<Choice>,
    pub usage: Usage,
    /// If requested: null for the first token of the prompt, which has no context, then one entry per
    /// token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<Vec<Option<TokenLogprob>>>,
}

/// The answer inside a [`ChatCompletion`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    pub index: u32,
    pub message: ResponseMessage,
    /// Null unless requested.
    pub logprobs: Option<ChoiceLogprobs>,
    pub finish_reason: FinishReason,
    /// The token of `stop_token_ids` that ended the answer, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<u32>,
}

impl Choice {
    /// The first answer, without log-probabilities.
    pub fn new(content: impl Into<String>, finish_reason: FinishReason) -> Choice {
        let message = ResponseMessage::new(content.into(), String::new(), Vec::new());
        Choice { index: 0, message, logprobs: None, finish_reason, stop_reason: None }
    }
}

/// Log-probabilities of a text's tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChoiceLogprobs {
    pub content: Vec<TokenLogprob>,
    /// Always null: a refusal is part of the content here.
    pub refusal: (),
}

/// A token's log-probability before penalties, bias, temperature and filters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TokenLogprob {
    #[serde(flatten)]
    pub chosen: TopLogprob,
    /// The most likely tokens at its position, as many as requested.
    pub top_logprobs: Vec<TopLogprob>,
}

/// A token and its log-probability.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopLogprob {
    /// The token's text; invalid UTF-8 becomes U+FFFD.
    pub token: String,
    /// Not below −9999.
    pub logprob: f32,
    /// The token's bytes: a client can join characters that are split over tokens.
    pub bytes: Vec<u8>,
}

impl TopLogprob {
    /// A token with these bytes.
    pub fn new(bytes: Vec<u8>, logprob: f32) -> TopLogprob {
        let token = String::from_utf8_lossy(&bytes).into_owned();
        TopLogprob { token, logprob: logprob.max(-9999.0), bytes }
    }
}

/// The message the model wrote.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResponseMessage {
    /// Always `assistant`.
    pub role: &'static str,
    /// Null if the model wrote only reasoning or tool calls.
    pub content: Option<String>,
    /// The reasoning before the answer; left out if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The tool calls; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ResponseCall>,
    /// Always null: a refusal is part of the content here.
    pub refusal: (),
}

impl ResponseMessage {
    /// A message with the answer's text, reasoning and tool calls.
    pub fn new(content: String, reasoning: String, tool_calls: Vec<ResponseCall>) -> Self {
        let nothing = reasoning.is_empty() && tool_calls.is_empty();
        ResponseMessage {
            role: "assistant",
            content: (nothing || !content.is_empty()).then_some(content),
            reasoning_content: (!reasoning.is_empty()).then_some(reasoning),
            tool_calls,
            refusal: (),
        }
    }
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResponseCall {
    /// The message with the tool's result refers to this id.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub function: ResponseFunction,
}

/// The function of a [`ResponseCall`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResponseFunction {
    pub name: String,
    /// JSON, as the model wrote it.
    pub arguments: String,
}

impl ResponseCall {
    /// A call of the function `name`.
    pub fn new(id: String, name: String, arguments: String) -> Self {
        ResponseCall { id, kind: "function", function: ResponseFunction { name, arguments } }
    }
}

/// A piece of a streamed answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatCompletionChunk {
    /// The same in all chunks of an answer.
    pub id: String,
    /// Always `chat.completion.chunk`.
    pub object: &'static str,
    /// Seconds since 1970, the same in all chunks of an answer.
    pub created: u64,
    pub model: String,
    /// One choice; none in the chunk with the usage.
    pub choices: Vec<ChunkChoice>,
    /// Left out unless requested; then null in all chunks but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
}

/// The answer's next piece inside a [`ChatCompletionChunk`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChunkChoice {
    pub index: u32,
    pub delta: Delta,
    /// Log-probabilities of this chunk's tokens; null unless requested.
    pub logprobs: Option<ChoiceLogprobs>,
    pub finish_reason: Option<FinishReason>,
    /// The token of `stop_token_ids` that ended the answer, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<u32>,
    /// Whether all tokens of the chunk are accepted draft tokens. Left out if false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub drafted: bool,
}

/// What a chunk adds to the message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Delta {
    /// `assistant` in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// More of the reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// New tool calls, or more of their arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallDelta>,
}

/// What a chunk adds to a tool call: first its name, then its arguments piece by piece.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ToolCallDelta {
    /// The call's index in the message.
    pub index: usize,
    /// Only in the first piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`; only in the first piece.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    pub function: FunctionDelta,
}

/// The function of a [`ToolCallDelta`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FunctionDelta {
    /// Only in the first piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// More of the JSON.
    pub arguments: String,
}

impl ToolCallDelta {
    /// The first piece of a call.
    pub fn first(index: usize, id: String, name: String, arguments: String) -> Self {
        let function = FunctionDelta { name: Some(name), arguments };
        ToolCallDelta { index, id: Some(id), kind: Some("function"), function }
    }

    /// A later piece with more of the arguments.
    pub fn more(index: usize, arguments: String) -> Self {
        let function = FunctionDelta { name: None, arguments };
        ToolCallDelta { index, function, ..Default::default() }
    }
}

impl From<String> for Delta {
    fn from(content: String) -> Self {
        Delta { content: (!content.is_empty()).then_some(content), ..Default::default() }
    }
}

impl From<&str> for Delta {
    fn from(content: &str) -> Self {
        content.to_owned().into()
    }
}

impl Delta {
    /// Whether it adds nothing.
    pub fn is_empty(&self) -> bool {
        *self == Delta::default()
    }

    /// Appends a later delta.
    pub fn extend(&mut self, later: Delta) {
        let texts = [
            (&mut self.content, later.content),
            (&mut self.reasoning_content, later.reasoning_content),
        ];
        for (text, more) in texts {
            match (text, more) {
                (Some(text), Some(more)) => text.push_str(&more),
                (text @ None, more) => *text = more,
                (Some(_), None) => {}
            }
        }
        for call in later.tool_calls {
            match self.tool_calls.last_mut() {
                Some(last) if last.index == call.index => {
                    last.function.arguments.push_str(&call.function.arguments);
                }
                _ => self.tool_calls.push(call),
            }
        }
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its turn, or a stop string appeared.
    Stop,
    /// The token limit or the context was reached.
    Length,
    /// The answer repeated a pattern, as `repetition_detection` defines it.
    Repetition,
    /// The model called tools and ended its turn.
    ToolCalls,
}

/// Token counts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    pub prompt_tokens: u32,
    pub completion_tokens: u32,
    pub total_tokens: u32,
    pub prompt_tokens_details: PromptTokensDetails,
    pub completion_tokens_details: CompletionTokensDetails,
}

/// Details of the prompt's token count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PromptTokensDetails {
    /// Tokens found in the prefix cache.
    pub cached_tokens: u32,
}

/// Details of the answer's token count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompletionTokensDetails {
    /// Accepted draft tokens.
    pub accepted_prediction_tokens: u32,
    /// Rejected draft tokens.
    pub rejected_prediction_tokens: u32,
    /// Tokens of the reasoning.
    pub reasoning_tokens: u32,
}

impl Usage {
    /// Usage without details of the completion.
    pub fn new(prompt_tokens: u32, cached_tokens: u32, completion_tokens: u32) -> Self {
        let total_tokens = prompt_tokens.saturating_add(completion_tokens);
        let prompt_tokens_details = PromptTokensDetails { cached_tokens };
        let completion_tokens_details = CompletionTokensDetails::default();
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens,
            prompt_tokens_details,
            completion_tokens_details,
        }
    }
}

/// Makes all the chunks, or the whole completion, of one answer.
///
/// A stream is [`Responder::start`], any number of [`Responder::delta`],
/// [`Responder::finish`], and, where usage is wanted, [`Responder::usage`].
#[derive(Clone, Debug, PartialEq)]
pub struct Responder {
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
    /// Index of the answer within the request.
    pub index: u32,
    /// Whether a last chunk carries the token counts.
    pub include_usage: bool,
}

impl Responder {
    /// The first chunk: the role and an empty content.
    pub fn start(&self) -> ChatCompletionChunk {
        let delta =
            Delta { role: Some("assistant"), content: Some(String::new()), ..Default::default() };
        self.choice(ChunkChoice { delta, ..Default::default() })
    }

    /// A chunk with the next piece of the message, the log-probabilities of its tokens, and whether
    /// they are accepted draft tokens.
    pub fn delta(
        &self,
        delta: impl Into<Delta>,
        logprobs: Option<ChoiceLogprobs>,
        drafted: bool,
    ) -> ChatCompletionChunk {
        let delta = delta.into();
        self.choice(ChunkChoice { delta, logprobs, drafted, ..Default::default() })
    }

    /// The chunk with the finish reason and the stop token that ended the answer, if one did. `delta` is
    /// the rest of the message.
    pub fn finish(
        &self,
        delta: Delta,
        logprobs: Option<ChoiceLogprobs>,
        reason: FinishReason,
        stop_reason: Option<u32>,
    ) -> ChatCompletionChunk {
        let finish_reason = Some(reason);
        self.choice(ChunkChoice {
            delta,
            logprobs,
            finish_reason,
            stop_reason,
            ..Default::default()
        })
    }

    /// The last chunk, without choices, if usage is wanted.
    pub fn usage(&self, usage: Usage) -> Option<ChatCompletionChunk> {
        self.include_usage.then(|| self.chunk(Vec::new(), Some(usage)))
    }

    /// The whole completion with all answers.
    pub fn complete(
        &self,
        choices: Vec<Choice>,
        prompt_logprobs: Option<Vec<Option<TokenLogprob>>>,
        usage: Usage,
    ) -> ChatCompletion {
        ChatCompletion {
            id: self.id.clone(),
            object: "chat.completion",
            created: self.created,
            model: self.model.clone(),
            choices,
            usage,
            prompt_logprobs,
        }
    }

    fn choice(&self, choice: ChunkChoice) -> ChatCompletionChunk {
        self.chunk(vec![ChunkChoice { index: self.index, ..choice }], None)
    }

    fn chunk(&self, choices: Vec<ChunkChoice>, usage: Option<Usage>) -> ChatCompletionChunk {
        ChatCompletionChunk {
            id: self.id.clone(),
            object: "chat.completion.chunk",
            created: self.created,
            model: self.model.clone(),
            choices,
            usage: self.include_usage.then_some(usage),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    fn responder(include_usage: bool) -> Responder {
        Responder {
            id: "chatcmpl-1".into(),
            created: 5,
            model: "m".into(),
            index: 0,
            include_usage,
        }
    }

    fn chunk(choices: serde_json::Value) -> serde_json::Value {
        json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "m",
            "choices": choices,
        })
    }

    #[test]
    fn a_stream_without_usage_never_mentions_it() {
        let r = responder(false);
        let choice = |delta, reason: serde_json::Value| {
            chunk(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}]))
        };
        assert_eq!(
            to_value(r.start()).unwrap(),
            choice(json!({"role": "assistant", "content": ""}), json!(null))
        );
        assert_eq!(
            to_value(r.delta("hi", None, false)).unwrap(),
            choice(json!({"content": "hi"}), json!(null))
        );
        assert_eq!(
            to_value(r.finish(Delta::default(), None, FinishReason::Length, None)).unwrap(),
            choice(json!({}), json!("length"))
        );
        assert_eq!(
            to_value(r.finish("!".into(), None, FinishReason::Stop, None)).unwrap(),
            choice(json!({"content": "!"}), json!("stop"))
        );
        assert_eq!(r.usage(Usage::new(3, 2, 4)), None);
    }

    #[test]
    fn a_stream_with_usage_has_null_until_the_last_chunk() {
        let r = responder(true);
        let end = r.finish(Delta::default(), None, FinishReason::Stop, None);
        for piece in [r.start(), r.delta("x", None, false), end] {
            let piece = to_value(piece).unwrap();
            assert_eq!(piece.get("usage"), Some(&serde_json::Value::Null));
        }
        let mut last = chunk(json!([]));
        last["usage"] = json!({
            "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 2},
            "completion_tokens_details": {
                "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
                "reasoning_tokens": 0,
            },
        });
        assert_eq!(to_value(r.usage(Usage::new(3, 2, 4)).unwrap()).unwrap(), last);
    }

    #[test]
    fn a_whole_completion_has_openai_s_shape() {
        let choice = Choice::new("hi", FinishReason::Stop);
        let whole = responder(false).complete(vec![choice], None, Usage::new(1, 0, 2));
        assert_eq!(
            to_value(whole).unwrap(),
            json!({
                "id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "m",
                "choices": [{
                    "index": 0,
                    "message": {"role": "assistant", "content": "hi", "refusal": null},
                    "logprobs": null,
                    "finish_reason": "stop",
                }],
                "usage": {
                    "prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3,
                    "prompt_tokens_details": {"cached_tokens": 0},
                    "completion_tokens_details": {
                        "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
                "reasoning_tokens": 0,
                    },
                },
            })
        );
    }

    #[test]
    fn log_probabilities_have_openai_s_shape() {
        let top = vec![TopLogprob::new("a".into(), -0.5), TopLogprob::new(vec![0xF0], f32::MIN)];
        let hi = TokenLogprob { chosen: TopLogprob::new("é".into(), -1.5), top_logprobs: top };
        let logprobs = ChoiceLogprobs { content: vec![hi.clone()], refusal: () };
        let written = json!({
            "token": "é", "logprob": -1.5, "bytes": [195, 169],
            "top_logprobs": [
                {"token": "a", "logprob": -0.5, "bytes": [97]},
                {"token": "\u{FFFD}", "logprob": -9999.0, "bytes": [240]},
            ],
        });
        let chunk = to_value(responder(false).delta("é", Some(logprobs.clone()), false)).unwrap();
        let expected = json!({"content": [written], "refusal": null});
        assert_eq!(chunk["choices"][0]["logprobs"], expected);
        let choice = Choice {
            logprobs: Some(logprobs),
            stop_reason: Some(7),
            ..Choice::new("é", FinishReason::Stop)
        };
        let scores = Some(vec![None, Some(hi)]);
        let whole = responder(false).complete(vec![choice], scores, Usage::new(2, 0, 1));
        let whole = to_value(whole).unwrap();
        assert_eq!(whole["choices"][0]["logprobs"], expected);
        assert_eq!(whole["choices"][0]["stop_reason"], 7);
        assert_eq!(whole["prompt_logprobs"], json!([null, written]));
    }
}
