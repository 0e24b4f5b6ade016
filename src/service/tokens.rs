//! Tokenises texts and conversations, detokenises, and renders the chat template.

use super::{Service, request::check_ids};
use crate::{
    Result,
    api::{DetokenizeRequest, DetokenizeResponse, ToTokenize, TokenSource, TokenizeResponse},
    error::Error,
    step::Executor,
    text::{Chat, Detokenizer, at_once},
};

impl<E: Executor> Service<E> {
    /// The tokens of a text, or of the prompt for a conversation. `now` is in seconds since 1970, for
    /// templates that print a date.
    ///
    /// Control tokens are parsed in a text, but not in a message.
    ///
    /// # Errors
    /// Those of [`Chat::tokens`](crate::text::Chat::tokens).
    pub fn tokenize(&self, request: &ToTokenize, now: u64) -> Result<TokenizeResponse> {
        at_once(tokenize(&self.chat, self.capacity.longest(), request, now))
    }

    /// Decodes tokens.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for token ids beyond the vocabulary.
    pub fn detokenize(&self, request: &DetokenizeRequest) -> Result<DetokenizeResponse> {
        let mut detokenizer = Detokenizer::new(self.chat.tokenizer().clone(), true);
        let vocab = self.capacity.vocab;
        let mut prompt = String::new();
        for (i, token) in request.tokens.iter().enumerate() {
            check_ids(&format!("tokens[{i}]"), &[*token], vocab)?;
            prompt += &detokenizer.push(*token)?;
        }
        prompt += &detokenizer.finish();
        Ok(DetokenizeResponse { prompt })
    }

    /// The text of a conversation, as the template renders it.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if it is no conversation, or if the template raises an exception.
    pub fn apply_chat_template(&self, request: &ToTokenize, now: u64) -> Result<String> {
        match &request.source {
            TokenSource::Text { .. } => Err(Error::InvalidRequest {
                param: "prompt".into(),
                message: "found a text, expected messages".into(),
            }),
            TokenSource::Chat { request, add_generation_prompt } => {
                let now = Some(now.cast_signed());
                self.chat.text(&request.conversation, now, *add_generation_prompt)
            }
        }
    }
}

/// As [`Service::tokenize`], for a model whose prompts have at most `longest` tokens; with pauses.
pub async fn tokenize(
    chat: &Chat,
    longest: usize,
    request: &ToTokenize,
    now: u64,
) -> Result<TokenizeResponse> {
    let tokenizer = chat.tokenizer();
    let tokens = match &request.source {
        TokenSource::Text { text, add_special_tokens } => {
            tokenizer.raw_ids(text, *add_special_tokens).await?
        }
        TokenSource::Chat { request, add_generation_prompt } => {
            let now = Some(now.cast_signed());
            chat.tokens(&request.conversation, now, *add_generation_prompt).await?
        }
    };
    let name = |token: &u32| {
        tokenizer.spell(*token).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let token_strs = request.return_token_strs.then(|| tokens.iter().map(name).collect());
    Ok(TokenizeResponse {
        count: tokens.len(),
        max_model_len: longest,
        token_strs: token_strs.transpose()?,
        tokens,
    })
}
