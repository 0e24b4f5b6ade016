//! Structured output: which tokens may come next in a constrained answer.
//!
//! A [`Grammar`] is compiled from a [`Form`] for the [`Vocabulary`] of one model. The crate depends on
//! neither model nor engine, so that a browser can load it separately, on first use.

#[cfg(feature = "compile")]
mod adapt;
mod check;
mod endless;
#[cfg(feature = "compile")]
mod grammar;
mod schema;
#[cfg(feature = "compile")]
mod vocabulary;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "compile")]
pub use grammar::Grammar;
#[cfg(feature = "compile")]
pub use vocabulary::{Strip, Vocabulary};

/// The constraint on an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Any JSON object.
    JsonObject,
    /// JSON that is valid under a schema.
    JsonSchema(Value),
    /// Text that a regular expression matches completely, in the syntax of Rust's `regex`.
    Regex(String),
    /// Text that matches a grammar in llguidance's dialect of Lark.
    Grammar(String),
    /// One of these texts.
    Choice(Vec<String>),
}

impl Form {
    /// Quick checks that need no vocabulary.
    ///
    /// # Errors
    /// The form is malformed or exceeds the limits.
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

/// Why a form was refused, or an answer cannot continue.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Path in the form, such as `.properties.age.minimum`; empty for the whole.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
}

impl Error {
    fn new(message: impl Into<String>) -> Error {
        Error { path: String::new(), message: message.into() }
    }

    fn found(found: impl std::fmt::Display, expected: &str) -> Error {
        Error::new(format!("found {found}, expected {expected}"))
    }

    /// The same error with a path one level further up.
    fn below(mut self, name: &str) -> Error {
        self.path = format!(".{name}{}", self.path);
        self
    }
}

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
