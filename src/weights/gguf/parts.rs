//! Models that are split into several GGUF files.

use super::Metadata;
use super::cursor::malformed;
use crate::error::Result;
use serde_json::Value;

/// The files that follow the first part of a model, and their numbers from 0 on; none if the file
/// is the whole model.
pub(in crate::weights) fn other_parts(
    file: &str,
    metadata: &Metadata,
) -> Result<Vec<(u64, String)>> {
    let count = match metadata.get("split.count") {
        None => return Ok(Vec::new()),
        Some(count) => count.as_u64().unwrap_or(0),
    };
    if count == 1 {
        return Ok(Vec::new());
    }
    expect_part(file, metadata, 0)?;
    let first = format!("-00001-of-{count:05}.gguf");
    let stem = file.strip_suffix(&first).filter(|_| (2..=99_999).contains(&count));
    let stem = stem.ok_or_else(|| {
        malformed(
            file,
            format!("its split.count is {count}, but its name does not end with {first}"),
        )
    })?;
    Ok((1..count).map(|i| (i, format!("{stem}-{:05}-of-{count:05}.gguf", i + 1))).collect())
}

/// Refuses a file that is not part `number` of a model.
pub(in crate::weights) fn expect_part(file: &str, metadata: &Metadata, number: u64) -> Result<()> {
    let found = metadata.get("split.no").unwrap_or(&Value::Null);
    match found.as_u64() == Some(number) {
        true => Ok(()),
        false => Err(malformed(file, format!("its split.no is {found}, expected {number}"))),
    }
}
