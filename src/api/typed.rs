//! From JSON values to types, with the path of what does not fit.

use serde::de::{Deserialize, Deserializer};

/// Where a value does not fit its type, `None` if as a whole; and why.
pub(crate) type Misfit = (Option<String>, String);

/// Reads a type from a value.
///
/// Paths cost code for every pair of a type and a format, so let formats be few: a value, or a map of
/// values.
pub(crate) fn typed<'de, T: Deserialize<'de>>(value: impl Deserializer<'de>) -> Result<T, Misfit> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        (Some(path).filter(|path| path != "."), error.inner().to_string())
    })
}
