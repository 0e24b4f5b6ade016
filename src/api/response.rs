//! What a client receives: OpenAI's chat completions, whole or in chunks.

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
    /// Exactly one.
    pub choices: Vec<Choice>,
    pub usage: Usage,
}

/// The answer inside a [`ChatCompletion`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    pub index: u32,
    pub message: ResponseMessage,
    /// Always null: log-probabilities are not offered.
    pub logprobs: (),
    pub finish_reason: FinishReason,
}

/// The message the model wrote.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResponseMessage {
    /// Always `assistant`.
    pub role: &'static str,
    pub content: String,
    /// Always null: a refusal is plain content here.
    pub refusal: (),
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
    /// One, or none in the chunk that carries the usage.
    pub choices: Vec<ChunkChoice>,
    /// Left out unless the request asked for it; then null in all chunks but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
}

/// The answer's next piece inside a [`ChatCompletionChunk`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChunkChoice {
    pub index: u32,
    pub delta: Delta,
    /// Always null: log-probabilities are not offered.
    pub logprobs: (),
    pub finish_reason: Option<FinishReason>,
}

/// What a chunk adds to the message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Delta {
    /// `assistant` in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its turn, or a stop string appeared.
    Stop,
    /// The token limit or the context was reached.
    Length,
}

/// How many tokens a request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    pub prompt_tokens: u32,
    pub completion_tokens: u32,
    pub total_tokens: u32,
}

impl Usage {
    /// Counts of a prompt and its answer.
    pub fn new(prompt_tokens: u32, completion_tokens: u32) -> Self {
        let total_tokens = prompt_tokens.saturating_add(completion_tokens);
        Usage { prompt_tokens, completion_tokens, total_tokens }
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
    /// Whether a last chunk carries the token counts.
    pub include_usage: bool,
}

impl Responder {
    /// The first chunk: the role and an empty content.
    pub fn start(&self) -> ChatCompletionChunk {
        self.choice(Delta { role: Some("assistant"), content: Some(String::new()) }, None)
    }

    /// A chunk that adds text.
    pub fn delta(&self, text: impl Into<String>) -> ChatCompletionChunk {
        self.choice(Delta { role: None, content: Some(text.into()) }, None)
    }

    /// The chunk that says why the answer ended.
    pub fn finish(&self, reason: FinishReason) -> ChatCompletionChunk {
        self.choice(Delta::default(), Some(reason))
    }

    /// The last chunk, without choices, if usage is wanted.
    pub fn usage(&self, usage: Usage) -> Option<ChatCompletionChunk> {
        self.include_usage.then(|| self.chunk(Vec::new(), Some(usage)))
    }

    /// The whole answer at once.
    pub fn complete(
        &self,
        content: impl Into<String>,
        finish_reason: FinishReason,
        usage: Usage,
    ) -> ChatCompletion {
        let message = ResponseMessage { role: "assistant", content: content.into(), refusal: () };
        ChatCompletion {
            id: self.id.clone(),
            object: "chat.completion",
            created: self.created,
            model: self.model.clone(),
            choices: vec![Choice { index: 0, message, logprobs: (), finish_reason }],
            usage,
        }
    }

    fn choice(&self, delta: Delta, finish_reason: Option<FinishReason>) -> ChatCompletionChunk {
        self.chunk(vec![ChunkChoice { index: 0, delta, logprobs: (), finish_reason }], None)
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
        Responder { id: "chatcmpl-1".into(), created: 5, model: "m".into(), include_usage }
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
        assert_eq!(to_value(r.delta("hi")).unwrap(), choice(json!({"content": "hi"}), json!(null)));
        assert_eq!(
            to_value(r.finish(FinishReason::Length)).unwrap(),
            choice(json!({}), json!("length"))
        );
        assert_eq!(r.usage(Usage::new(3, 4)), None);
    }

    #[test]
    fn a_stream_with_usage_has_null_until_the_last_chunk() {
        let r = responder(true);
        for piece in [r.start(), r.delta("x"), r.finish(FinishReason::Stop)] {
            let piece = to_value(piece).unwrap();
            assert_eq!(piece.get("usage"), Some(&serde_json::Value::Null));
        }
        let mut last = chunk(json!([]));
        last["usage"] = json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7});
        assert_eq!(to_value(r.usage(Usage::new(3, 4)).unwrap()).unwrap(), last);
    }

    #[test]
    fn a_whole_completion_has_openai_s_shape() {
        let whole = responder(false).complete("hi", FinishReason::Stop, Usage::new(1, 2));
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
                "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
            })
        );
    }
}
