//! A request as it is asked and answered.

use crate::{Error, step::Sampling};

/// What a caller asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The tokens to continue, at least one.
    pub prompt: Vec<u32>,
    pub sampling: Sampling,
    /// Tokens that end the answer without being part of it. Empty: none does.
    pub end_tokens: Vec<u32>,
    /// The most tokens to generate, at least 1. None: as many as the context holds.
    pub max_tokens: Option<usize>,
}

/// Names a request for as long as its engine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Something that happened to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The next token of the answer.
    Token { id: RequestId, token: u32 },
    /// The last event of a request.
    Finished { id: RequestId, reason: FinishReason, usage: Usage },
}

/// Why a request ended.
#[derive(Clone, Debug, PartialEq)]
pub enum FinishReason {
    /// The model produced an end token, or the caller called the answer complete.
    Stop,
    /// The token limit or the context length is reached.
    Length,
    /// The caller gave it up.
    Cancelled,
    Error(Error),
}

/// Tokens that a request cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: usize,
    /// Tokens generated, including the end token.
    pub completion_tokens: usize,
}
