//! Text to tokens and back, in vLLM's shapes.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::request::{ChatCompletionRequest, read};
use super::validate::{ChatRequest, invalid, refuse_unsupported};
use crate::error::Result;

/// A request for the tokens of a text or a conversation as it comes over the wire, not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TokenizeRequest {
    pub model: Option<String>,
    /// A text; or else there are messages.
    pub prompt: Option<String>,
    /// Whether a text gets the tokens that the tokenizer frames it with; true by default.
    pub add_special_tokens: Option<bool>,
    /// Whether a conversation ends with the beginning of the assistant's turn; true by default.
    pub add_generation_prompt: Option<bool>,
    /// Whether each token's text is told as well.
    pub return_token_strs: Option<bool>,
    /// Messages, and what else a chat says about its prompt.
    #[serde(flatten)]
    pub chat: Map<String, Value>,
}

/// What to tokenise, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ToTokenize {
    pub source: TokenSource,
    pub return_token_strs: bool,
}

/// Where tokens come from.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenSource {
    Text { text: String, add_special_tokens: bool },
    Chat { request: Box<ChatRequest>, add_generation_prompt: bool },
}

impl TokenizeRequest {
    /// Reads a request from any serde format; a wrong type is reported with the parameter's path.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self> {
        read(deserializer)
    }

    /// Checks every field and returns the plain request.
    ///
    /// # Errors
    /// [`crate::Error::InvalidRequest`] names the first field that is unsupported or out of range, what was
    /// found and what was expected.
    pub fn validate(self) -> Result<ToTokenize> {
        let Self { prompt, add_special_tokens, add_generation_prompt, chat, .. } = self;
        let source = match prompt {
            Some(text) => {
                refuse_unsupported("", &chat.into_iter().collect(), &[])?;
                if add_generation_prompt.is_some() {
                    return Err(invalid("add_generation_prompt", "it", "none beside a prompt"));
                }
                TokenSource::Text { text, add_special_tokens: add_special_tokens.unwrap_or(true) }
            }
            None => {
                if add_special_tokens == Some(true) {
                    return Err(invalid("add_special_tokens", true, "none beside messages"));
                }
                let request = ChatCompletionRequest::read(Value::Object(chat))?.validate()?;
                TokenSource::Chat {
                    request: Box::new(request),
                    add_generation_prompt: add_generation_prompt.unwrap_or(true),
                }
            }
        };
        let return_token_strs = self.return_token_strs.unwrap_or(false);
        Ok(ToTokenize { source, return_token_strs })
    }
}

/// The tokens of a text or a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TokenizeResponse {
    pub count: usize,
    /// Most tokens of a conversation.
    pub max_model_len: usize,
    pub tokens: Vec<u32>,
    /// Each token's text, special tokens by their names; null unless asked for.
    pub token_strs: Option<Vec<String>>,
}

/// A request for the text of tokens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetokenizeRequest {
    #[serde(default)]
    pub model: Option<String>,
    pub tokens: Vec<u32>,
}

impl DetokenizeRequest {
    /// Reads a request from any serde format; a wrong type is reported with the parameter's path.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self> {
        read(deserializer)
    }
}

/// The text of tokens, in which special ones show by their names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DetokenizeResponse {
    pub prompt: String,
}
