//! OpenAI's text completions (the legacy API): a prompt in, its continuation out.

use std::collections::BTreeMap;

use serde::{Deserializer, Serialize};

use super::fields::Fields;
use super::input::{Input, TextInput};
use super::neutral;
use super::refusal::{invalid, refuse_unsupported};
use super::request::ChatCompletionRequest;
use super::response::{ChatCompletionChunk, FinishReason, TokenLogprob, TopLogprob, Usage};
use super::validate::ChatRequest;
use crate::error::Result;

/// OpenAI's own default.
const MAX_TOKENS: i64 = 16;
/// OpenAI's own limit.
const MAX_LOGPROBS: i64 = 5;
/// Most answers to all prompts of a request: the engine's queue limit for one tab.
const MAX_CHOICES: usize = 128;

/// Fields with the same meaning as in a chat completion request.
const SHARED_FIELDS: [&str; 27] = [
    "allowed_token_ids",
    "bad_words",
    "frequency_penalty",
    "ignore_eos",
    "include_stop_str_in_output",
    "logit_bias",
    "logprob_token_ids",
    "min_p",
    "min_tokens",
    "n",
    "presence_penalty",
    "prompt_logprobs",
    "repetition_detection",
    "repetition_penalty",
    "response_format",
    "seed",
    "skip_special_tokens",
    "speculative_decoding",
    "stop",
    "stop_token_ids",
    "stream",
    "stream_options",
    "structured_outputs",
    "temperature",
    "thinking_token_budget",
    "top_k",
    "top_p",
];

/// A request for text completions as it comes over the wire, not yet checked.
///
/// It takes the sampling and output fields of a [`ChatCompletionRequest`], and these of its own:
/// `model`, `prompt` (an [`Input`]), `echo`, `max_tokens` (default 16; 0 with `echo` returns only the
/// prompt), `logprobs` (0 to 5 top tokens per position), `best_of` (must equal `n`) and
/// `add_special_tokens` (default true: the tokenizer adds its begin and end tokens to each prompt).
/// [`CompletionRequest::validate`] turns it into a [`CompleteRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompletionRequest {
    pub fields: Fields,
}

/// A request for text completions whose every value is in range.
#[derive(Clone, Debug, PartialEq)]
pub struct CompleteRequest {
    /// At least one; each gets `settings.n` answers.
    pub prompts: Vec<TextInput>,
    pub add_special_tokens: bool,
    pub echo: bool,
    /// Whether only the prompt is returned.
    pub echo_only: bool,
    /// How to answer; without messages.
    pub settings: ChatRequest,
}

impl CompletionRequest {
    /// Reads a request from any serde format.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self> {
        Ok(CompletionRequest { fields: Fields::read(deserializer)? })
    }

    /// Checks every field and returns the plain request.
    ///
    /// # Errors
    /// [`crate::Error::InvalidRequest`] names the first field that is unsupported or out of range, what was
    /// found and what was expected.
    pub fn validate(self) -> Result<CompleteRequest> {
        let mut fields = self.fields;
        let model = fields.take("model")?;
        let prompt = fields.take("prompt")?;
        let echo = fields.take("echo")?.unwrap_or(false);
        let max_tokens = fields.take("max_tokens")?;
        let logprobs: Option<i64> = fields.take("logprobs")?;
        let best_of: Option<i64> = fields.take("best_of")?;
        let add_special_tokens = fields.take("add_special_tokens")?.unwrap_or(true);
        let shared = fields.split_off(&SHARED_FIELDS);
        refuse_unsupported("", &fields.into_map(), neutral::REQUEST)?;
        let prompts = Input::read(prompt, "prompt", MAX_CHOICES, "a text to continue")?;
        if let Some(count) = logprobs.filter(|count| !(0..=MAX_LOGPROBS).contains(count)) {
            return Err(invalid("logprobs", count, "0 to 5"));
        }
        let echo_only = echo && max_tokens == Some(0);
        let max_tokens = match echo_only {
            // The log-probabilities of a prompt need a request that generates at least one token.
            true => 1,
            false => max_tokens.unwrap_or(MAX_TOKENS),
        };
        let settings = ChatCompletionRequest {
            model,
            logprobs: Some(logprobs.is_some()),
            top_logprobs: logprobs,
            max_tokens: Some(max_tokens),
            ..ChatCompletionRequest::from_fields(shared)?
        };
        let settings = settings.settings()?;
        let n = settings.n;
        if let Some(best_of) = best_of.filter(|best_of| *best_of != n as i64) {
            return Err(invalid("best_of", best_of, "the same as n, or none"));
        }
        if prompts.len() * n > MAX_CHOICES {
            let found = format!("{} texts for {n} answers each", prompts.len());
            return Err(invalid("prompt", found, "at most 128 answers in all"));
        }
        Ok(CompleteRequest { prompts, add_special_tokens, echo, echo_only, settings })
    }
}

/// Answers to a request for text completions: all of them, or the next piece of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Completion {
    /// The same in all chunks of an answer.
    pub id: String,
    /// Always `text_completion`.
    pub object: &'static str,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
    /// `n` per prompt, in the order of the prompts; one in a chunk, none in the chunk with the usage.
    pub choices: Vec<CompletionChoice>,
    /// Left out of streams unless the request asks for it; then null in all chunks but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
}

/// An answer, or the next piece of it, inside a [`Completion`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CompletionChoice {
    pub index: u32,
    pub text: String,
    /// Null unless requested.
    pub logprobs: Option<CompletionLogprobs>,
    /// Null in all chunks but the last.
    pub finish_reason: Option<FinishReason>,
    /// The token of `stop_token_ids` that ended the answer, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<u32>,
    /// If requested: null for the first token of the prompt, then one entry per token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<Vec<Option<TokenLogprob>>>,
    /// In a chunk: whether all its tokens are accepted draft tokens. Left out if false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub drafted: bool,
}

impl CompletionChoice {
    /// Adds the next piece of the same answer.
    pub fn extend(&mut self, next: CompletionChoice) {
        self.text.push_str(&next.text);
        if let Some(more) = next.logprobs {
            self.logprobs.get_or_insert_default().extend(more);
        }
        self.finish_reason = next.finish_reason.or(self.finish_reason);
        self.stop_reason = next.stop_reason.or(self.stop_reason);
        self.prompt_logprobs = next.prompt_logprobs.or(self.prompt_logprobs.take());
        self.drafted &= next.drafted;
    }
}

/// Log-probabilities of a text's tokens: lists with one entry per token.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CompletionLogprobs {
    /// The tokens' texts; a token that is not valid UTF-8 is `bytes:` and each byte as `\x` and two
    /// hexadecimal digits.
    pub tokens: Vec<String>,
    /// Null for the first token of a prompt, which has no context.
    pub token_logprobs: Vec<Option<f32>>,
    /// The token itself and the most likely ones at its position.
    pub top_logprobs: Vec<Option<BTreeMap<String, f32>>>,
    /// Where each token starts in the text, in characters.
    pub text_offset: Vec<usize>,
}

impl CompletionLogprobs {
    /// Appends the tokens of the next piece.
    pub fn extend(&mut self, next: CompletionLogprobs) {
        self.tokens.extend(next.tokens);
        self.token_logprobs.extend(next.token_logprobs);
        self.top_logprobs.extend(next.top_logprobs);
        self.text_offset.extend(next.text_offset);
    }

    /// The log-probabilities of the tokens that `text` was decoded from. `text` starts `before` characters
    /// into the whole text. `tokens` are pairs of a token's bytes and its log-probability; a token
    /// without text, such as a special token, is allowed. At most `top` alternatives are listed.
    pub fn new<'a>(
        text: &str,
        before: usize,
        top: usize,
        tokens: impl IntoIterator<Item = (Vec<u8>, Option<&'a TokenLogprob>)>,
    ) -> CompletionLogprobs {
        let mut lists = CompletionLogprobs::default();
        let mut rest = text.as_bytes();
        for (bytes, logprob) in tokens {
            let begun = text.len() - rest.len();
            let lead = |byte: &&u8| **byte & 0xC0 != 0x80;
            let chars = text.as_bytes()[..begun].iter().filter(lead).count();
            // A token may start in the middle of a character's bytes.
            let within = rest.first().is_some_and(|byte| !lead(&byte));
            lists.text_offset.push(before + chars - usize::from(within));
            // The detokenizer may strip the space before the first word.
            let stripped = if begun == 0 { bytes.strip_prefix(b" ") } else { None };
            let shown = [Some(&bytes[..]), stripped].into_iter().flatten();
            rest = shown.filter_map(|bytes| rest.strip_prefix(bytes)).next().unwrap_or(rest);
            lists.tokens.push(name(&bytes));
            lists.token_logprobs.push(logprob.map(|logprob| logprob.chosen.logprob));
            lists.top_logprobs.push(logprob.map(|TokenLogprob { chosen, top_logprobs }| {
                let top = top_logprobs.iter().take(top);
                let entry = |token: &TopLogprob| (name(&token.bytes), token.logprob);
                [chosen].into_iter().chain(top).map(entry).collect()
            }));
        }
        lists
    }
}

fn name(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.iter().fold("bytes:".into(), |name, byte| format!("{name}\\x{byte:02x}")),
    }
}

/// A piece of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Chunk {
    Chat(ChatCompletionChunk),
    Text(Completion),
}

impl From<ChatCompletionChunk> for Chunk {
    fn from(chunk: ChatCompletionChunk) -> Chunk {
        Chunk::Chat(chunk)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::error::Error;

    fn check(request: Value) -> Result<CompleteRequest> {
        CompletionRequest::read(&request)?.validate()
    }

    #[test]
    fn a_full_request_is_read() {
        let request = check(json!({
            "model": "m", "prompt": ["a", "b"], "echo": true, "max_tokens": 7, "logprobs": 2,
            "n": 3, "best_of": 3, "suffix": "", "stream": true, "temperature": 0.5, "seed": 4,
            "stop": ["x"], "stream_options": { "include_usage": true }, "user": "me",
            "logit_bias": null, "add_special_tokens": false,
        }))
        .unwrap();
        let text = |text: &str| TextInput::Text(text.into());
        assert_eq!(request.prompts, [text("a"), text("b")]);
        assert!(request.echo && !request.echo_only && !request.add_special_tokens);
        let settings = request.settings;
        assert_eq!((settings.n, settings.max_tokens), (3, Some(7)));
        assert_eq!(settings.model.as_deref(), Some("m"));
        assert!(settings.conversation.messages.is_empty());
        assert!(settings.stream && settings.include_usage);
        assert_eq!((settings.sampling.logprobs, settings.sampling.seed), (Some(2), Some(4)));
        assert_eq!(settings.text.stop, ["x"]);
    }

    #[test]
    fn a_short_request_gets_openai_s_defaults() {
        let request = check(json!({ "prompt": [1, 2] })).unwrap();
        assert_eq!(request.prompts, [TextInput::Tokens(vec![1, 2])]);
        assert!(!request.echo && request.add_special_tokens && !request.settings.stream);
        assert_eq!((request.settings.max_tokens, request.settings.n), (Some(16), 1));
        assert_eq!(request.settings.sampling.logprobs, None);
        let request = check(json!({ "prompt": "a", "echo": true, "max_tokens": 0 })).unwrap();
        assert!(request.echo_only);
    }

    #[test]
    fn unsupported_and_out_of_range_fields_are_refused_by_name() {
        for (field, param, found) in [
            (json!({ "prompt": null }), "prompt", "nothing"),
            (json!({ "prompt": "" }), "prompt", "an empty text"),
            (json!({ "prompt": [] }), "prompt", "0 texts"),
            (json!({ "prompt": ["a", ""] }), "prompt[1]", "an empty text"),
            (json!({ "prompt": vec!["a"; 65], "n": 2 }), "prompt", "65 texts for 2"),
            (json!({ "logprobs": 6 }), "logprobs", "6"),
            (json!({ "logprobs": true }), "logprobs", "true"),
            (json!({ "max_tokens": 0 }), "max_tokens", "0"),
            (json!({ "best_of": 2 }), "best_of", "2"),
            (json!({ "suffix": "end" }), "suffix", "not supported"),
            (json!({ "temperature": 3 }), "temperature", "3.0"),
            (json!({ "temperature": "hot" }), "temperature", "hot"),
            (json!({ "messages": [] }), "messages", "not supported"),
            (json!({ "top_logprobs": 2 }), "top_logprobs", "not supported"),
            (json!({ "max_completion_tokens": 2 }), "max_completion_tokens", "not supported"),
            (json!({ "tools": [] }), "tools", "not supported"),
        ] {
            let mut request = json!({ "prompt": "a" });
            request.as_object_mut().unwrap().extend(field.as_object().unwrap().clone());
            match check(request) {
                Err(Error::InvalidRequest { param: at, message }) => {
                    assert_eq!(at, param, "{message}");
                    assert!(message.contains(found), "{param}: {message}");
                }
                other => panic!("{field}: {other:?}"),
            }
        }
    }

    #[test]
    fn offsets_count_characters_whatever_the_tokens() {
        // A special token, a word whose space is stripped, a character in two tokens, a comma.
        let tokens: [&[u8]; 5] = [b"<s>", b" caf", b"\xc3", b"\xa9", b", ok"];
        let known = TokenLogprob {
            chosen: TopLogprob::new(b"x".into(), -1.0),
            top_logprobs: vec![TopLogprob::new(b"y".into(), -0.5), TopLogprob::default()],
        };
        let items = tokens.iter().map(|bytes| (bytes.to_vec(), Some(&known)));
        let lists = CompletionLogprobs::new("café, ok", 10, 1, items);
        assert_eq!(lists.text_offset, [10, 10, 13, 13, 14]);
        assert_eq!(lists.tokens, ["<s>", " caf", "bytes:\\xc3", "bytes:\\xa9", ", ok"]);
        assert_eq!(lists.token_logprobs, [Some(-1.0); 5]);
        let top = BTreeMap::from([("x".into(), -1.0), ("y".into(), -0.5)]);
        assert_eq!(lists.top_logprobs[4], Some(top));
    }

    #[test]
    fn pieces_add_up_in_openai_s_shape() {
        let piece = |text: &str, offset, finish_reason| CompletionChoice {
            text: text.into(),
            logprobs: Some(CompletionLogprobs::new(text, offset, 0, [(text.into(), None)])),
            finish_reason,
            ..Default::default()
        };
        let mut choice = piece("a", 0, None);
        choice.extend(piece("b", 1, Some(FinishReason::Length)));
        let completion =
            Completion { object: "text_completion", choices: vec![choice], ..Default::default() };
        assert_eq!(
            serde_json::to_value(completion).unwrap(),
            json!({
                "id": "", "object": "text_completion", "created": 0, "model": "",
                "choices": [{
                    "index": 0, "text": "ab", "finish_reason": "length",
                    "logprobs": {
                        "tokens": ["a", "b"], "token_logprobs": [null, null],
                        "top_logprobs": [null, null], "text_offset": [0, 1],
                    },
                }],
            })
        );
    }
}
