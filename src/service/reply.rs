//! The replies of a service.

use crate::{
    api::{ChatCompletion, ChatCompletionChunk, Completion, EmbeddingResponse},
    error::Error,
};

/// A reply to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The next piece of a stream.
    Chunk {
        value: ChatCompletionChunk,
        /// The tokens of this chunk's text and log-probabilities, in order.
        tokens: Vec<u32>,
        /// In the chunk with the finish reason: the answer's token count, as in `usage`.
        ended: Option<usize>,
    },
    /// The stream is over.
    End,
    /// The whole answer, if not streamed.
    Completion(ChatCompletion),
    /// The next piece of a stream of text completions; fields as in [`Reply::Chunk`].
    TextChunk { value: Completion, tokens: Vec<u32>, ended: Option<usize> },
    /// All text completions at once, if not streamed.
    TextCompletion(Completion),
    /// The vectors of a request for embeddings; nothing follows.
    Embeddings(EmbeddingResponse),
    /// The request failed; nothing follows.
    Error(Error),
}

impl Reply {
    /// A chunk without tokens.
    pub(super) fn plain(value: ChatCompletionChunk) -> Reply {
        Reply::Chunk { value, tokens: Vec::new(), ended: None }
    }
}
