//! The header of a GGUF file, read from a stream and checked before it causes allocations.
//!
//! Memory grows only as bytes arrive, offsets are 64-bit everywhere (a wasm `usize` is not), and the
//! header has at most [`MAX_HEADER`] bytes.
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

mod blocks;
mod cursor;
mod parts;
mod types;

use super::header::{Elements, Header, TensorInfo};
use super::reader::Reader;
use super::source::{ByteStream, Length};
use crate::error::{Error, Result};
use crate::sniff::impostor;
use cursor::{Cursor, malformed};
use serde_json::{Map, Number, Value};
use std::collections::HashSet;

pub use cursor::MAX_HEADER;
pub(super) use parts::{expect_part, other_parts};

/// Most tensors of a file.
pub const MAX_TENSORS: u64 = 100_000;
/// Most keys of the metadata.
pub const MAX_KEYS: u64 = 10_000;
/// Most elements of all lists of the metadata together.
pub const MAX_ELEMENTS: u64 = 1 << 21;
/// Most bytes of a key, by the format.
const MAX_KEY_BYTES: usize = 65_535;
/// Most bytes of a tensor's name, by the format.
const MAX_NAME_BYTES: usize = 63;
const MAX_DIMENSIONS: u32 = 4;
const DEFAULT_ALIGNMENT: u64 = 32;
const MAX_ALIGNMENT: u64 = 1 << 16;
const ALIGNMENT: &str = "general.alignment";

/// The metadata by key. Numbers that JSON does not support (NaN, infinity) are strings.
pub type Metadata = Map<String, Value>;

/// Reads the header from the start of a file and leaves the reader after it.
///
/// Tensors are sorted by position. If the stream knows the file's length, it is compared with the end
/// of the last tensor; bytes after that are ignored.
pub async fn read(file: &str, reader: &mut Reader<impl ByteStream>) -> Result<(Metadata, Header)> {
    let length = reader.length();
    let mut parser = Parser { cursor: Cursor::new(file, reader), elements: 0 };
    let (tensor_count, key_count) = parser.start().await?;
    let (metadata, alignment) = parser.metadata(key_count).await?;
    let mut tensors = Vec::new();
    let mut names = HashSet::new();
    for _ in 0..tensor_count {
        let tensor = parser.tensor().await?;
        if !names.insert(tensor.name.clone()) {
            return Err(malformed(file, format!("two tensors are named {:?}", tensor.name)));
        }
        tensors.push(tensor);
    }
    let header_end = parser.cursor.finish().await?;
    let header = place(tensors, header_end, alignment).map_err(|found| malformed(file, found))?;
    match length {
        Some(found) if found < header.end => {
            Err(Error::Truncated { what: file.into(), expected: header.end, found })
        }
        _ => {
            reader.expect(Length::AtLeast(header.end));
            Ok((metadata, header))
        }
    }
}

/// Sorts tensors whose `start` is an offset in the data and converts it to a position in the file.
/// Between tensors there may be only alignment; a file without tensors may end with its header.
fn place(mut tensors: Vec<TensorInfo>, header_end: u64, alignment: u64) -> Result<Header, String> {
    tensors.sort_by_key(|tensor| tensor.start);
    let mut expected = 0;
    let mut end = header_end;
    let data_start = header_end.next_multiple_of(alignment);
    for TensorInfo { name, start, bytes, .. } in &mut tensors {
        if *start != expected {
            return Err(format!(
                "tensor {name:?} lies at offset {start}, but the one before ends so that \
                 {expected} is next"
            ));
        }
        let place =
            data_start.checked_add(*start).and_then(|at| Some((at, at.checked_add(*bytes)?)));
        let next =
            start.checked_add(*bytes).and_then(|end| end.checked_next_multiple_of(alignment));
        let (Some((at, tensor_end)), Some(next)) = (place, next) else {
            return Err(format!("tensor {name:?} ends beyond byte 2^64"));
        };
        (*start, end, expected) = (at, tensor_end, next);
    }
    Ok(Header { tensors, end })
}

struct Parser<'a, S> {
    cursor: Cursor<'a, S>,
    /// List elements so far.
    elements: u64,
}

impl<S: ByteStream> Parser<'_, S> {
    fn malformed(&self, found: String) -> Error {
        malformed(self.cursor.file, found)
    }

    /// Reads magic and version; returns the numbers of tensors and keys.
    async fn start(&mut self) -> Result<(u64, u64)> {
        let start: [u8; 8] = self.cursor.array().await?;
        let [magic, version] = [0, 4].map(|at| [0, 1, 2, 3].map(|i| start[at + i]));
        if magic != *b"GGUF" {
            return Err(self.malformed(match impostor(&start) {
                Some(found) => found.into(),
                None => format!("it begins with the bytes {magic:02x?} instead of \"GGUF\""),
            }));
        }
        match u32::from_le_bytes(version) {
            2 | 3 => {}
            version if version & 0xffff == 0 => {
                let found = "it is big-endian. Convert it to little-endian";
                return Err(self.malformed(found.into()));
            }
            version => {
                let found = format!("it has version {version}, expected 2 or 3. Convert it anew");
                return Err(self.malformed(found));
            }
        }
        let (tensors, keys) = (self.cursor.u64().await?, self.cursor.u64().await?);
        for (count, most, what) in [(tensors, MAX_TENSORS, "tensors"), (keys, MAX_KEYS, "keys")] {
            if count > most {
                return Err(self.malformed(format!("it announces {count} {what}, at most {most}")));
            }
        }
        Ok((tensors, keys))
    }

    /// Reads all keys with their values, and the alignment of tensors.
    async fn metadata(&mut self, count: u64) -> Result<(Metadata, u64)> {
        let mut metadata = Metadata::new();
        let mut alignment = DEFAULT_ALIGNMENT;
        for _ in 0..count {
            let key = self.cursor.text("a key").await?;
            if key.is_empty() || key.len() > MAX_KEY_BYTES {
                let length = key.len();
                return Err(self.malformed(format!("a key has {length} bytes, not 1 to 65535")));
            }
            let kind = self.cursor.u32().await?;
            let value = self.value(&key, kind).await?;
            if key == ALIGNMENT {
                let number = value
                    .as_u64()
                    .filter(|n| kind == UINT32 && n.is_power_of_two() && *n <= MAX_ALIGNMENT);
                alignment = number.ok_or_else(|| {
                    self.malformed(format!("{ALIGNMENT} is {value}, expected a power of two (u32)"))
                })?;
            }
            if metadata.contains_key(&key) {
                return Err(self.malformed(format!("the key {key:?} occurs twice")));
            }
            metadata.insert(key, value);
        }
        Ok((metadata, alignment))
    }

    async fn value(&mut self, key: &str, kind: u32) -> Result<Value> {
        if kind != ARRAY {
            return self.scalar(key, kind).await;
        }
        let kind = self.cursor.u32().await?;
        let count = self.cursor.u64().await?;
        if kind == ARRAY {
            return Err(self.malformed(format!("{key:?} is a list of lists")));
        }
        if count > MAX_ELEMENTS - self.elements {
            let found = format!("{key:?} has {count} elements, all lists at most {MAX_ELEMENTS}");
            return Err(self.malformed(found));
        }
        self.elements += count;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(self.scalar(key, kind).await?);
        }
        if count == 0 && kind > FLOAT64 {
            return Err(self.unknown(key, kind));
        }
        Ok(Value::Array(list))
    }

    async fn scalar(&mut self, key: &str, kind: u32) -> Result<Value> {
        let cursor = &mut self.cursor;
        Ok(match kind {
            0 => u8::from_le_bytes(cursor.array().await?).into(),
            1 => i8::from_le_bytes(cursor.array().await?).into(),
            2 => u16::from_le_bytes(cursor.array().await?).into(),
            3 => i16::from_le_bytes(cursor.array().await?).into(),
            UINT32 => u32::from_le_bytes(cursor.array().await?).into(),
            5 => i32::from_le_bytes(cursor.array().await?).into(),
            6 => float(f32::from_le_bytes(cursor.array().await?).into()),
            7 => match cursor.array().await? {
                [0] => false.into(),
                [1] => true.into(),
                [other] => {
                    let found = format!("{key:?} is the truth value {other}, expected 0 or 1");
                    return Err(self.malformed(found));
                }
            },
            8 => cursor.text(key).await?.into(),
            10 => u64::from_le_bytes(cursor.array().await?).into(),
            11 => i64::from_le_bytes(cursor.array().await?).into(),
            FLOAT64 => float(f64::from_le_bytes(cursor.array().await?)),
            _ => return Err(self.unknown(key, kind)),
        })
    }

    fn unknown(&self, key: &str, kind: u32) -> Error {
        self.malformed(format!("{key:?} has the unknown type {kind}"))
    }

    /// Reads the description of a tensor; `start` is its offset in the data.
    async fn tensor(&mut self) -> Result<TensorInfo> {
        let name = self.cursor.text("a tensor's name").await?;
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let (length, most) = (name.len(), MAX_NAME_BYTES);
            return Err(
                self.malformed(format!("a tensor's name has {length} bytes, not 1 to {most}"))
            );
        }
        let dimensions = self.cursor.u32().await?;
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(self.malformed(format!(
                "tensor {name:?} has {dimensions} dimensions, expected 1 to {MAX_DIMENSIONS}"
            )));
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            shape.push(self.cursor.u64().await?);
        }
        // The file has the row length first.
        shape.reverse();
        let id = self.cursor.u32().await?;
        let start = self.cursor.u64().await?;
        let elements = Elements::from_ggml(id).ok_or_else(|| {
            self.malformed(format!("tensor {name:?} has the unknown type number {id}"))
        })?;
        let bytes = size(elements, &shape).ok_or_else(|| {
            self.malformed(format!(
                "tensor {name:?}, {elements}, has the impossible shape {shape:?}"
            ))
        })?;
        Ok(TensorInfo { name, elements, shape, start, bytes })
    }
}

const UINT32: u32 = 4;
const ARRAY: u32 = 9;
const FLOAT64: u32 = 12;

fn float(value: f64) -> Value {
    Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number)
}

/// Bytes of a tensor; `None` if its rows are not whole blocks, or if it is empty or far too large.
fn size(elements: Elements, shape: &[u64]) -> Option<u64> {
    let (unit, unit_bytes) = elements.unit();
    let row = shape.last().filter(|row| row.is_multiple_of(unit))?;
    let count = shape.iter().try_fold(1u64, |count, n| count.checked_mul(*n))?;
    let known = count <= i64::MAX as u64 && count > 0;
    (known && *row > 0).then(|| (count / unit).checked_mul(unit_bytes)).flatten()
}

#[cfg(all(test, not(target_arch = "wasm32")))]
pub(super) mod tests;
