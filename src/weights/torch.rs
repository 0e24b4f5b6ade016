//! Finds the tensors of a PyTorch file: a zip archive of uncompressed entries, one with a pickle that
//! describes the tensors, the others with their bytes.
//!
//! Zip: <https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>.

use super::header::{Elements, Header, TensorInfo};
use super::pickle;
use super::reader::Reader;
use super::source::{Source, missing};
use crate::error::{Error, Result};
use crate::sniff::impostor;
use std::collections::{BTreeMap, HashMap};

/// Most bytes of the list of entries; an entry takes about 60.
const MOST_DIRECTORY: u64 = 1 << 20;

/// Most bytes of the pickle; a tensor takes about 200.
const MOST_PICKLE: u64 = 16 << 20;

/// Over longer distances, the file is opened again instead of read through.
const FAR: u64 = 1 << 20;

/// Bytes of an entry's local header, before its name.
const LOCAL: usize = 30;

/// What has been read of a file.
pub(super) struct Archive {
    /// Ends where the list of entries begins.
    pub header: Header,
    /// The list of entries, at the end of the file.
    pub directory: Vec<u8>,
}

/// An entry of the archive.
#[derive(Clone, Copy)]
struct Entry {
    /// Position of its local header.
    at: u64,
    bytes: u64,
}

/// Finds the tensors of a file that is open at its first byte.
pub(super) async fn read<S: Source>(source: &S, file: &str, stream: S::Stream) -> Result<Archive> {
    let malformed = |found: String| Error::Malformed {
        what: file.into(),
        expected: "PyTorch file of tensors".into(),
        found,
    };
    let (length, end) = read_end(source, file, Reader::new(stream), &malformed).await?;
    let (entries, directory) = directory(length, &end).map_err(malformed)?;
    let directory_at = length - directory.len() as u64;

    let (name, described) = entries
        .iter()
        .find(|(name, _)| name.ends_with("/data.pkl"))
        .ok_or_else(|| malformed("it has no entry data.pkl".into()))?;
    let root = name.strip_suffix("data.pkl").unwrap_or_default();
    // "little"
    if entries.get(&format!("{root}byteorder")).is_some_and(|order| order.bytes != 6) {
        return Err(malformed("its numbers are big-endian".into()));
    }
    if described.bytes > MOST_PICKLE {
        let found = format!("its pickle has {} bytes, more than {MOST_PICKLE}", described.bytes);
        return Err(malformed(found));
    }
    let mut walk = Walk { source, file, reader: None };
    let start = walk.start(*described, &malformed).await?;
    let pickle = walk.reader(start).await?.take(file, described.bytes).await?;
    let described = pickle::tensors(&pickle).map_err(malformed)?;

    let mut storages = BTreeMap::new();
    for tensor in &described {
        let name = format!("{root}data/{}", tensor.storage);
        let entry =
            entries.get(&name).ok_or_else(|| malformed(format!("it has no entry {name}")))?;
        storages.insert(entry.at, (tensor.storage, *entry));
    }
    let mut starts = HashMap::new();
    for (storage, entry) in storages.into_values() {
        let start = walk.start(entry, &malformed).await?;
        if start.checked_add(entry.bytes).is_none_or(|end| end > directory_at) {
            return Err(malformed(format!("storage {storage} lies beyond its end")));
        }
        starts.insert(storage, (start, entry.bytes));
    }

    let place = |tensor: &pickle::Tensor| {
        let &(storage, held) = starts.get(tensor.storage)?;
        let elements =
            tensor.shape.iter().try_fold(1u64, |elements, n| elements.checked_mul(*n))?;
        let width = tensor.dtype.bits() / 8;
        let (first, bytes) = (tensor.offset.checked_mul(width)?, elements.checked_mul(width)?);
        let fits = first.checked_add(bytes)? <= held && is_contiguous(tensor);
        fits.then(|| TensorInfo {
            name: tensor.name.into(),
            elements: Elements::Plain(tensor.dtype),
            shape: tensor.shape.clone(),
            start: storage + first,
            bytes,
        })
    };
    let mut tensors = Vec::with_capacity(described.len());
    for tensor in &described {
        tensors.push(place(tensor).ok_or_else(|| {
            malformed(format!(
                "tensor {:?} {:?} does not lie in one piece in its storage",
                tensor.name, tensor.shape
            ))
        })?);
    }
    tensors.sort_by_key(|tensor| (tensor.start, tensor.bytes));
    // Medusa repeats a block in each head: one tensor with several names.
    let overlaps = |pair: &&[TensorInfo]| {
        pair[0].start + pair[0].bytes > pair[1].start && !pair[0].is_alias(&pair[1])
    };
    if let Some([a, b]) = tensors.windows(2).find(overlaps) {
        let found = format!("{:?} and {:?} share bytes. Convert it to safetensors", a.name, b.name);
        return Err(malformed(found));
    }
    Ok(Archive { header: Header { tensors, end: directory_at }, directory: directory.into() })
}

/// Reads the last bytes of a file that is open at its first byte; also returns its length.
async fn read_end<S: Source>(
    source: &S,
    file: &str,
    mut reader: Reader<S::Stream>,
    malformed: &impl Fn(String) -> Error,
) -> Result<(u64, Vec<u8>)> {
    let mut magic = [0; 8];
    reader.fill(file, &mut magic).await?;
    if !magic.starts_with(b"PK\x03\x04") {
        let old =
            "it is no zip archive, as those of PyTorch 1.6 and later. Convert it to safetensors";
        return Err(malformed(impostor(&magic).unwrap_or(old).into()));
    }
    if let Some(length) = reader.length() {
        drop(reader);
        let start = length.saturating_sub(MOST_DIRECTORY);
        let opened = source.open_near(file, start).await?;
        let (stream, position) = opened.ok_or_else(|| missing(source, file))?;
        let mut reader = Reader::starting_at(stream, position);
        reader.skip_to(file, start).await?;
        return Ok((length, reader.take(file, length - start).await?));
    }
    let mut end = Vec::new();
    while let Some(chunk) = reader.next(MOST_DIRECTORY).await? {
        let had = end.len();
        end.resize(had + chunk.len(), 0);
        chunk.copy_to(&mut end[had..]);
        if end.len() > 2 * MOST_DIRECTORY as usize {
            end.drain(..end.len() - MOST_DIRECTORY as usize);
        }
    }
    Ok((reader.position(), end))
}

/// Reads a file from front to back, with jumps.
struct Walk<'a, S: Source> {
    source: &'a S,
    file: &'a str,
    reader: Option<Reader<S::Stream>>,
}

impl<S: Source> Walk<'_, S> {
    /// The reader, at byte `position`.
    async fn reader(&mut self, position: u64) -> Result<&mut Reader<S::Stream>> {
        let is_near = |reader: &Reader<_>| {
            position.checked_sub(reader.position()).is_some_and(|bytes| bytes <= FAR)
        };
        let reader = match self.reader.take().filter(is_near) {
            Some(reader) => reader,
            None => {
                let opened = self.source.open_near(self.file, position).await?;
                let (stream, start) = opened.ok_or_else(|| missing(self.source, self.file))?;
                Reader::starting_at(stream, start)
            }
        };
        let reader = self.reader.insert(reader);
        reader.skip_to(self.file, position).await?;
        Ok(reader)
    }

    /// Goes to the first byte of an entry, after its local header; returns its position.
    async fn start(&mut self, entry: Entry, malformed: &impl Fn(String) -> Error) -> Result<u64> {
        let file = self.file;
        let reader = self.reader(entry.at).await?;
        let mut header = [0; LOCAL];
        reader.fill(file, &mut header).await?;
        if !header.starts_with(b"PK\x03\x04") {
            return Err(malformed(format!("there is no entry at byte {}", entry.at)));
        }
        let more = u16_at(&header, 26) + u16_at(&header, 28);
        let start = reader.position() + more;
        reader.skip_to(file, start).await?;
        Ok(start)
    }
}

/// The entries by name, and the bytes from the list of entries on, for a file with this length and end.
fn directory(length: u64, end: &[u8]) -> Result<(HashMap<String, Entry>, &[u8]), String> {
    const BROKEN: &str = "its list of entries is broken";
    let ends = |at: &usize| end[*at..].starts_with(b"PK\x05\x06") && at + 22 <= end.len();
    let last = end.len().saturating_sub(22);
    let trailer = (0..=last).rev().find(ends).ok_or("it has no list of entries at its end")?;
    let trailer_bytes = &end[trailer..];
    let (mut count, mut at) = (u16_at(trailer_bytes, 10), u32_at(trailer_bytes, 16));
    let locator = trailer.checked_sub(20).map(|locator| &end[locator..trailer]);
    let before = length - end.len() as u64;
    let inside = |position: u64| {
        let at = position.checked_sub(before).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| end.get(at..)).ok_or("its list of entries is too long")
    };
    if let Some(locator) = locator.filter(|locator| locator.starts_with(b"PK\x06\x07")) {
        let large = inside(u64_at(locator, 8))?;
        let large = large.get(..56).ok_or(BROKEN)?;
        (count, at) = (u64_at(large, 32), u64_at(large, 48));
    }
    let list = inside(at)?;
    let mut entries = HashMap::new();
    let mut rest = list;
    for _ in 0..count {
        let (fixed, more) = rest.split_at_checked(46).ok_or(BROKEN)?;
        let [name, extra, comment] = [28, 30, 32].map(|at| u16_at(fixed, at) as usize);
        let (name, more) = more.split_at_checked(name).ok_or(BROKEN)?;
        let (extra, more) = more.split_at_checked(extra).ok_or(BROKEN)?;
        rest = more.get(comment..).ok_or(BROKEN)?;
        let name = str::from_utf8(name).map_err(|_| BROKEN)?;
        let (mut stored, mut bytes, mut at) =
            (u32_at(fixed, 20), u32_at(fixed, 24), u32_at(fixed, 42));
        let mut large = large_sizes(extra);
        for size in [&mut bytes, &mut stored, &mut at] {
            if *size == u64::from(u32::MAX) {
                *size = large.next().ok_or(BROKEN)?;
            }
        }
        if !fixed.starts_with(b"PK\x01\x02") || at > length {
            return Err(BROKEN.into());
        }
        if u16_at(fixed, 10) != 0 || stored != bytes {
            return Err(format!("its entry {name:?} is compressed"));
        }
        if entries.insert(name.to_owned(), Entry { at, bytes }).is_some() {
            return Err(format!("its entry {name:?} occurs twice"));
        }
    }
    Ok((entries, list))
}

/// Sizes and positions that do not fit into 32 bits.
fn large_sizes(mut extra: &[u8]) -> impl Iterator<Item = u64> {
    let mut sizes: &[u8] = &[];
    while let Some((head, rest)) = extra.split_at_checked(4) {
        let length = (u16_at(head, 2) as usize).min(rest.len());
        if u16_at(head, 0) == 1 {
            sizes = &rest[..length];
        }
        extra = &rest[length..];
    }
    sizes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
}

fn u16_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(bytes[at]) | u64::from(bytes[at + 1]) << 8
}

fn u32_at(bytes: &[u8], at: usize) -> u64 {
    u16_at(bytes, at) | u16_at(bytes, at + 2) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u32_at(bytes, at) | u32_at(bytes, at + 4) << 32
}

/// Whether the elements are contiguous, row length last.
fn is_contiguous(tensor: &pickle::Tensor) -> bool {
    let mut dims = tensor.shape.iter().zip(&tensor.strides).rev();
    let elements = dims.try_fold(1u64, |expected, (n, stride)| {
        let follows = *n <= 1 || *stride == expected;
        follows.then(|| expected.checked_mul(*n)).flatten()
    });
    tensor.shape.len() == tensor.strides.len() && elements.is_some()
}
