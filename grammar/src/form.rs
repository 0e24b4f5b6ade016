//! What can be asked of an answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Result, check};

/// What an answer must look like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Any JSON object.
    JsonObject,
    /// JSON that is valid under a schema.
    JsonSchema(Value),
    /// Text that matches a regular expression as a whole, in the syntax of Rust's `regex`.
    Regex(String),
    /// Text of a grammar in llguidance's dialect of Lark.
    Grammar(String),
    /// One of these texts.
    Choice(Vec<String>),
}

impl Form {
    /// Checks what can be told without a vocabulary, quickly.
    ///
    /// # Errors
    /// What is malformed or beyond the bounds.
    pub fn check(&self) -> Result<()> {
        match self {
            Form::JsonObject => Ok(()),
            Form::JsonSchema(schema) => check::json_schema(schema),
            Form::Regex(regex) => check::regex(regex),
            Form::Grammar(grammar) => check::grammar(grammar),
            Form::Choice(texts) => check::choice(texts),
        }
    }
}
