//! The JSON files of a model folder.

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Reads a JSON file; `file` is its name for error messages.
pub fn parse<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| Error::Malformed {
        what: file.into(),
        expected: "JSON file of its kind".into(),
        found: match bytes.trim_ascii_start().first() {
            Some(b'<') => "it begins like an HTML page. Check the address".into(),
            Some(b'v') if bytes.starts_with(b"version https://git-lfs") => {
                "it is a Git LFS pointer. Fetch the file it stands for".into()
            }
            _ => match error.path().to_string().as_str() {
                "." => error.inner().to_string(),
                path => format!("{path}: {}", error.inner()),
            },
        },
    })
}
