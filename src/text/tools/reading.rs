//! What to look for in an answer, and what its parts are.

use super::dialect::Dialect;
use crate::api::Tool;

/// Markers around reasoning.
pub const THINK: [&str; 2] = ["<think>", "</think>"];

/// How to parse an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The format of tool calls; `None` if there are none to find. gpt-oss's is one of all answers.
    pub dialect: Option<Dialect>,
    /// The tools that may be called.
    pub tools: Vec<Tool>,
    /// Whether only the first call counts.
    pub single: bool,
    pub thinking: Thinking,
    /// Special tokens that are markers: they appear in the text here, though not elsewhere.
    pub markers: Vec<(u32, &'static str)>,
    /// Whether the answer continues an existing text.
    pub continues: bool,
}

/// Whether an answer starts with reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    #[default]
    Never,
    /// If it starts with the marker.
    Possible,
    /// The prompt ends with the marker.
    Begun,
    /// The prompt ends in the middle of the reasoning.
    Amid,
}

/// A part of the text. All spans together, in order, are the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its length in bytes.
    pub len: usize,
    pub kind: Kind,
}

/// The kind of a span.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Text of this part of the answer.
    Text(Part),
    /// Text of an argument of the call with this index, for the inside of a JSON string.
    Escaped(usize),
    /// The span stands for this text.
    Instead(Part, String),
    /// The head of a call; `arguments` are those in the head, the others follow in later spans.
    Call { index: usize, name: String, arguments: String },
    /// Markers and the text between them: not shown.
    Silent,
}

/// A part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Content,
    Reasoning,
    /// Arguments of the call with this index.
    Arguments(usize),
}
