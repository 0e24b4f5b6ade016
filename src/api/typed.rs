//! Deserialises JSON values; errors carry the path of the value that does not fit.

use serde::de::{Deserialize, Deserializer};

/// The path of the value that does not fit its type (`None`: the whole value), and the reason.
pub(crate) type Misfit = (Option<String>, String);

/// Reads a type from a value.
///
/// Error paths generate code for every pair of type and input format, so keep the formats few: a value
/// or a map of values.
pub(crate) fn typed<'de, T: Deserialize<'de>>(value: impl Deserializer<'de>) -> Result<T, Misfit> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        (Some(path).filter(|path| path != "."), error.inner().to_string())
    })
}
