//! Tokenize and detokenize requests, in vLLM's shapes.

use serde::{Deserializer, Serialize};

use super::fields::Fields;
use super::neutral;
use super::refusal::{invalid, refuse_unsupported};
use super::request::ChatCompletionRequest;
use super::sampling::token_ids;
use super::validate::ChatRequest;
use crate::error::Result;

/// A request to tokenise a text or a conversation as it comes over the wire, not yet checked.
///
/// Its fields are `model`, `return_token_strs` (whether to return each token's text) and either
/// - `prompt` and `add_special_tokens` (whether the tokenizer adds its begin and end tokens; default
///   true), or
/// - `messages`, the other fields of a chat request that change its prompt, and
///   `add_generation_prompt` (whether to append the start of the assistant's turn; default true).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenizeRequest {
    pub fields: Fields,
}

/// What to tokenise, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ToTokenize {
    /// The model's name as the client gave it.
    pub model: Option<String>,
    pub source: TokenSource,
    pub return_token_strs: bool,
}

/// The text or conversation to tokenise.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenSource {
    Text { text: String, add_special_tokens: bool },
    Chat { request: Box<ChatRequest>, add_generation_prompt: bool },
}

impl TokenizeRequest {
    /// Reads a request from any serde format.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self> {
        Ok(TokenizeRequest { fields: Fields::read(deserializer)? })
    }

    /// Checks every field and returns the plain request.
    ///
    /// # Errors
    /// [`crate::Error::InvalidRequest`] names the first field that is unsupported or out of range, what was
    /// found and what was expected.
    pub fn validate(self) -> Result<ToTokenize> {
        let mut fields = self.fields;
        let model = fields.take("model")?;
        let add_special_tokens: Option<bool> = fields.take("add_special_tokens")?;
        let add_generation_prompt: Option<bool> = fields.take("add_generation_prompt")?;
        let return_token_strs = fields.take("return_token_strs")?.unwrap_or(false);
        let source = match fields.take("prompt")? {
            Some(text) => {
                refuse_unsupported("", &fields.into_map(), neutral::REQUEST)?;
                if add_generation_prompt.is_some() {
                    return Err(invalid("add_generation_prompt", "it", "none beside a prompt"));
                }
                TokenSource::Text { text, add_special_tokens: add_special_tokens.unwrap_or(true) }
            }
            None => {
                if add_special_tokens == Some(true) {
                    return Err(invalid("add_special_tokens", true, "none beside messages"));
                }
                TokenSource::Chat {
                    request: Box::new(ChatCompletionRequest::from_fields(fields)?.validate()?),
                    add_generation_prompt: add_generation_prompt.unwrap_or(true),
                }
            }
        };
        Ok(ToTokenize { model, source, return_token_strs })
    }
}

/// The tokens of a text or a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TokenizeResponse {
    pub count: usize,
    /// Longest sequence in tokens: prompt and answer together.
    pub max_model_len: usize,
    pub tokens: Vec<u32>,
    /// Each token's text, special tokens by name; null unless requested.
    pub token_strs: Option<Vec<String>>,
}

/// A request to detokenise token ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetokenizeRequest {
    /// The model's name as the client gave it.
    pub model: Option<String>,
    pub tokens: Vec<u32>,
}

impl DetokenizeRequest {
    /// Reads a request from any serde format.
    ///
    /// # Errors
    /// [`crate::Error::InvalidRequest`] names the field that is unsupported or of the wrong type.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self> {
        let mut fields = Fields::read(deserializer)?;
        let model = fields.take("model")?;
        let tokens: Option<Vec<i64>> = fields.take("tokens")?;
        refuse_unsupported("", &fields.into_map(), neutral::REQUEST)?;
        let tokens = tokens.ok_or_else(|| invalid("tokens", "nothing", "a list of token ids"))?;
        Ok(DetokenizeRequest { model, tokens: token_ids("tokens", &tokens)? })
    }
}

/// The text of the tokens; special tokens appear by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DetokenizeResponse {
    pub prompt: String,
}
