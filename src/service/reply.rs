//! What a service tells.

use crate::{
    api::{ChatCompletion, ChatCompletionChunk, Completion, EmbeddingResponse},
    error::Error,
};

/// Something to tell whoever asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The next piece of a stream.
    Chunk {
        value: ChatCompletionChunk,
        /// The tokens of the answer whose text, and whose log-probabilities, this chunk tells, in order.
        tokens: Vec<u32>,
        /// In the chunk with the finish reason: the answer's tokens as usage counts them.
        ended: Option<usize>,
    },
    /// The stream is over.
    End,
    /// The whole answer, where no stream was asked for.
    Completion(ChatCompletion),
    /// The next piece of a stream of text completions; the fields are those of a chunk.
    TextChunk { value: Completion, tokens: Vec<u32>, ended: Option<usize> },
    /// All text completions at once, where no stream was asked for.
    TextCompletion(Completion),
    /// The vectors of a request for embeddings; nothing follows.
    Embeddings(EmbeddingResponse),
    /// The request failed; nothing follows.
    Error(Error),
}

impl Reply {
    /// A chunk that tells no tokens.
    pub(super) fn plain(value: ChatCompletionChunk) -> Reply {
        Reply::Chunk { value, tokens: Vec::new(), ended: None }
    }
}
