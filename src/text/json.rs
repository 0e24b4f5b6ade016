//! The JSON files of a model folder.

use serde::de::{Deserialize, DeserializeOwned};
use serde_json::Value;

use crate::api::typed;
use crate::error::{Error, Result};

/// Reads a small JSON file; `file` is its name for error messages.
pub fn parse<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T> {
    let value: Value = parse_large(file, bytes)?;
    fit(file, &value)
}

/// Reads what `value`, of this file, says.
pub fn fit<'a, T: Deserialize<'a>>(file: &str, value: &'a Value) -> Result<T> {
    typed(value).map_err(|(path, message)| {
        malformed(file, path.map_or(message.clone(), |path| format!("{path}: {message}")))
    })
}

/// Reads a JSON file; an error tells the line and the column instead of the path.
pub fn parse_large<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let found = match bytes.trim_ascii_start().first() {
            Some(b'<') => "it begins like an HTML page. Check the address".into(),
            Some(b'v') if bytes.starts_with(b"version https://git-lfs") => {
                "it is a Git LFS pointer. Fetch the file it stands for".into()
            }
            _ => error.to_string(),
        };
        malformed(file, found)
    })
}

fn malformed(file: &str, found: String) -> Error {
    Error::Malformed { what: file.into(), expected: "file of its kind".into(), found }
}
