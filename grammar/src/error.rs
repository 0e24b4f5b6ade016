//! The error of a form or an answer.

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
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { path: String::new(), message: message.into() }
    }

    pub(crate) fn found(found: impl std::fmt::Display, expected: &str) -> Error {
        Error::new(format!("found {found}, expected {expected}"))
    }

    /// The same error with a path one level further up.
    pub(crate) fn below(mut self, name: &str) -> Error {
        self.path = format!(".{name}{}", self.path);
        self
    }
}

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
