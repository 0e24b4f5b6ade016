//! Reads the JSON files of a checkpoint.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::{Misfit, typed};
use crate::error::{Error, Result};

const JSON: &str = "JSON file of its kind";

/// Reads a small JSON file; `file` is its name in error messages.
pub fn parse<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T> {
    let value: Value = parse_large(file, bytes)?;
    typed(&value).map_err(|misfit| misfitting(file, JSON, misfit))
}

/// The error for a file with a value that does not fit `expected`.
pub fn misfitting(file: &str, expected: &str, (path, message): Misfit) -> Error {
    let found = path.map_or(message.clone(), |path| format!("{path}: {message}"));
    Error::Malformed { what: file.into(), expected: expected.into(), found }
}

/// Reads a large JSON file; errors name line and column instead of the path.
pub fn parse_large<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let found = match bytes.trim_ascii_start().first() {
            Some(b'<') => "it begins like an HTML page. Check the address".into(),
            Some(b'v') if bytes.starts_with(b"version https://git-lfs") => {
                "it is a Git LFS pointer. Fetch the file it stands for".into()
            }
            _ => error.to_string(),
        };
        Error::Malformed { what: file.into(), expected: JSON.into(), found }
    })
}
