//! Errors that refuse a request: the parameter, what was found, what was expected.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::Value;

use super::neutral::Table;
use crate::error::{Error, Result};

/// Refuses the first of these fields that is not null and not neutral.
pub(crate) fn refuse_unsupported(
    prefix: &str,
    fields: &BTreeMap<String, Value>,
    neutral: &Table,
) -> Result<()> {
    let harmless = |name: &str, value: &Value| {
        value.is_null()
            || neutral.iter().any(|(known, neutral)| *known == name && neutral.covers(value))
    };
    match fields.iter().find(|(name, value)| !harmless(name, value)) {
        None => Ok(()),
        Some((name, value)) => Err(Error::InvalidRequest {
            param: format!("{prefix}{name}"),
            message: format!(
                "found {}, but this parameter is not supported; leave it out",
                brief(value)
            ),
        }),
    }
}

pub(crate) fn invalid(param: impl Into<String>, found: impl Display, expected: &str) -> Error {
    let message = format!("found {found}, expected {expected}");
    Error::InvalidRequest { param: param.into(), message }
}

/// A value, shortened for an error message.
pub(super) fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
