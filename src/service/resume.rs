//! Streams that go on where another service left off.

use serde::Deserialize;

/// How far an answer had come whose stream was cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumed {
    /// The tokens that its chunks brought, in order.
    pub tokens: Vec<u32>,
    /// Whether it had any chunk.
    pub started: bool,
    /// What its last chunk said of its tokens, if it came to an end.
    pub ended: Option<usize>,
}
