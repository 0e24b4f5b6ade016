//! The header of a safetensors file, read from a stream and checked like the `safetensors` crate checks
//! it.
//!
//! Unlike in the crate, offsets are 64-bit everywhere (a wasm `usize` is not), the header has at most
//! [`MAX_HEADER`] bytes and [`MAX_TENSORS`] tensors, and duplicate names are refused.
//! Format: <https://github.com/huggingface/safetensors#format>.

use super::header::{Dtype, Elements, Header, TensorInfo};
use super::reader::Reader;
use super::source::{ByteStream, Length};
use crate::error::{Error, Result};
use crate::sniff::impostor;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Most bytes of a header; the largest published ones are a few megabytes.
pub const MAX_HEADER: u64 = 16 << 20;

/// Most tensors of a file.
pub const MAX_TENSORS: usize = 100_000;

/// Reads the header at the start of a file and leaves the reader at the first tensor's byte.
///
/// If the stream knows the file's length, it is compared with the end of the last tensor.
pub async fn read(file: &str, reader: &mut Reader<impl ByteStream>) -> Result<Header> {
    let malformed = |found: String| Error::Malformed {
        what: file.into(),
        expected: "safetensors file".into(),
        found,
    };
    let mut start = [0; 8];
    reader.fill(file, &mut start).await?;
    let length = u64::from_le_bytes(start);
    if length > MAX_HEADER {
        return Err(malformed(impostor(&start).map_or_else(
            || format!("its header has {length} bytes, more than {MAX_HEADER}"),
            |found| found.into(),
        )));
    }
    let json = reader.take(file, length).await?;
    let header = parse(&json).map_err(malformed)?;
    let expected = header.end;
    match reader.length() {
        Some(found) if found < expected => {
            Err(Error::Truncated { what: file.into(), expected, found })
        }
        Some(found) if found > expected => {
            Err(malformed(format!("it has {found} bytes, but its tensors end at byte {expected}")))
        }
        _ => {
            reader.expect(Length::Exactly(expected));
            Ok(header)
        }
    }
}

/// Parses and checks the JSON of a header; an error says what was found.
pub fn parse(json: &[u8]) -> Result<Header, String> {
    let text = std::str::from_utf8(json).map_err(|error| format!("its header is {error}"))?;
    let mut entries: Entries =
        serde_json::from_str(text).map_err(|error| format!("its header: {error}"))?;
    entries.0.sort_by_key(|(_, entry)| entry.data_offsets);

    let data_start = 8 + json.len() as u64;
    let mut position = 0;
    let mut tensors = Vec::with_capacity(entries.0.len());
    for (name, Entry { dtype, shape, data_offsets: (begin, end) }) in entries.0 {
        if begin != position || end < begin {
            return Err(format!(
                "tensor {name:?} lies at bytes {begin}..{end}, but the one before ends at {position}"
            ));
        }
        let elements = shape.iter().try_fold(1u64, |elements, n| elements.checked_mul(*n));
        let bits = elements.and_then(|elements| elements.checked_mul(dtype.bits()));
        let bits =
            bits.ok_or_else(|| format!("tensor {name:?} has the impossible shape {shape:?}"))?;
        let bytes = end - begin;
        if Some(bits) != bytes.checked_mul(8) {
            return Err(format!(
                "tensor {name:?}, {dtype} {shape:?}, has {bytes} bytes instead of {bits} bits"
            ));
        }
        data_start.checked_add(end).ok_or("its tensors end beyond byte 2^64")?;
        position = end;
        let start = data_start + begin;
        tensors.push(TensorInfo { name, elements: Elements::Plain(dtype), shape, start, bytes });
    }
    Ok(Header { tensors, end: data_start + position })
}

#[derive(Deserialize)]
struct Entry {
    dtype: Dtype,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The tensors of a header in the order of the JSON.
struct Entries(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a map from names to tensors")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
        let mut names = HashSet::new();
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(M::Error::custom(format!("the name {name:?} occurs twice")));
            }
            if name == "__metadata__" {
                map.next_value::<Option<HashMap<String, String>>>()?;
                continue;
            }
            if entries.len() == MAX_TENSORS {
                return Err(M::Error::custom(format!("more than {MAX_TENSORS} tensors")));
            }
            entries.push((name, map.next_value()?));
        }
        Ok(Entries(entries))
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
