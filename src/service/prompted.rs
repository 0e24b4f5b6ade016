//! Requests and their prompts: tokenising a long text takes longer than a step may be delayed, so it can be
//! done in pieces before a request is submitted.

use futures::{FutureExt, future::LocalBoxFuture};

use super::{Service, embeddings, request::Prompted, tokens};
use crate::{
    Result,
    api::{ChatRequest, CompleteRequest, EmbedRequest, TextInput, ToTokenize, TokenizeResponse},
    step::Executor,
    text::{PIECE_BYTES, Prompt, pause},
};

/// What was prepared for a call.
pub trait Prompts {
    /// The tokens of the first prompt that is answered; none if nothing is generated.
    fn prompt(&self) -> &[u32] {
        &[]
    }
}

impl Prompts for Prompted<ChatRequest, Prompt> {
    fn prompt(&self) -> &[u32] {
        &self.prompt.ids
    }
}

impl Prompts for Prompted<CompleteRequest> {
    fn prompt(&self) -> &[u32] {
        self.prompt.first().map_or(&[], |prompt| prompt)
    }
}

impl Prompts for Prompted<EmbedRequest> {}

impl Prompts for TokenizeResponse {}

/// Work that pauses now and then, and waits for nothing else: each time it is polled it does a piece.
type Pieces<T> = LocalBoxFuture<'static, Result<T>>;

impl<E: Executor> Service<E> {
    /// Makes the prompt of a request, for [`Service::submit_prompted`], in pieces; `now` is in seconds since
    /// 1970.
    ///
    /// # Errors
    /// Those of [`Chat::prompt`](crate::text::Chat::prompt).
    pub fn prompt_chat(
        &self,
        request: ChatRequest,
        now: u64,
    ) -> Pieces<Prompted<ChatRequest, Prompt>> {
        let chat = self.chat.clone();
        async move {
            let now = Some(now.cast_signed());
            let prompt = chat.prompt_in_pieces(&request.conversation, now).await?;
            Ok(Prompted { request, prompt })
        }
        .boxed_local()
    }

    /// Makes the prompts of a request, for [`Service::complete_prompted`], in pieces.
    pub fn prompt_completion(&self, request: CompleteRequest) -> Pieces<Prompted<CompleteRequest>> {
        let tokenizer = self.chat.tokenizer().clone();
        async move {
            let inputs = request.prompts.clone();
            let add_special = request.add_special_tokens;
            let prompt = each(inputs, async |_, input| match input {
                TextInput::Text(text) => tokenizer.raw_ids(&text, add_special).await,
                TextInput::Tokens(tokens) => Ok(tokens),
            });
            let prompt = prompt.await?;
            Ok(Prompted { request, prompt })
        }
        .boxed_local()
    }

    /// Makes the prompts of a request, for [`Service::embed_prompted`], in pieces.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`](crate::Error::InvalidRequest) names an input without tokens.
    pub fn prompt_embedding(&self, mut request: EmbedRequest) -> Pieces<Prompted<EmbedRequest>> {
        let tokenizer = self.chat.tokenizer().clone();
        async move {
            let inputs = std::mem::take(&mut request.inputs);
            let prompt =
                each(inputs, async |i, input| embeddings::prompt(&tokenizer, i, input).await);
            let prompt = prompt.await?;
            Ok(Prompted { request, prompt })
        }
        .boxed_local()
    }

    /// As [`Service::tokenize`], in pieces.
    pub fn tokenize_in_pieces(&self, request: ToTokenize, now: u64) -> Pieces<TokenizeResponse> {
        let (chat, longest) = (self.chat.clone(), self.capacity.longest());
        async move { tokens::tokenize(&chat, longest, &request, now).await }.boxed_local()
    }
}

/// The tokens of each input, with pauses between as many as make up a piece.
async fn each(
    inputs: Vec<TextInput>,
    tokens: impl AsyncFn(usize, TextInput) -> Result<Vec<u32>>,
) -> Result<Vec<Vec<u32>>> {
    let mut prompts = Vec::new();
    let mut bytes = 0;
    for (i, input) in inputs.into_iter().enumerate() {
        if bytes >= PIECE_BYTES {
            pause().await;
            bytes = 0;
        }
        if let TextInput::Text(text) = &input {
            bytes += text.len();
        }
        prompts.push(tokens(i, input).await?);
    }
    Ok(prompts)
}
