//! Reads consecutive little-endian values from a byte stream.

use crate::error::{Error, Result};
use crate::weights::reader::Reader;
use crate::weights::source::ByteStream;

/// Limit of the header; vocabularies of published files take some 20 million bytes.
pub const MAX_HEADER: u64 = 64 << 20;
/// Most bytes copied from the stream at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Reads the header of a file through a buffer, so that each small value does not cost a call.
pub(super) struct Cursor<'a, S> {
    pub file: &'a str,
    reader: &'a mut Reader<S>,
    /// The bytes from the reader's position on.
    buffer: Vec<u8>,
    /// How many of them have been read.
    used: usize,
}

impl<'a, S: ByteStream> Cursor<'a, S> {
    pub fn new(file: &'a str, reader: &'a mut Reader<S>) -> Cursor<'a, S> {
        Cursor { file, reader, buffer: Vec::new(), used: 0 }
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.reader.position() + self.used as u64
    }

    /// Ends reading: moves the reader to the byte after the last one read.
    pub async fn finish(self) -> Result<u64> {
        let end = self.position();
        self.reader.next(self.used as u64).await?;
        Ok(end)
    }

    /// The next bytes, at least one and at most `limit`.
    async fn next(&mut self, limit: usize, end: u64) -> Result<&[u8]> {
        if self.used == self.buffer.len() {
            self.reader.next(self.used as u64).await?;
            self.used = 0;
            self.buffer.clear();
            match self.reader.peek().await? {
                Some(chunk) => {
                    let chunk = chunk.slice(0..chunk.len().min(BUFFER_BYTES));
                    self.buffer.resize(chunk.len(), 0);
                    chunk.copy_to(&mut self.buffer);
                }
                None => {
                    let (what, found) = (self.file.into(), self.reader.position());
                    return Err(Error::Truncated { what, expected: end, found });
                }
            }
        }
        let start = self.used;
        self.used = self.buffer.len().min(start + limit);
        Ok(&self.buffer[start..self.used])
    }

    /// The next `length` bytes. Memory grows as they arrive.
    pub async fn bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        let start = self.position();
        let end = start.checked_add(length).filter(|end| *end <= MAX_HEADER).ok_or_else(|| {
            let most = format!("its header may have {MAX_HEADER}");
            malformed(self.file, format!("{length} bytes are announced at byte {start}; {most}"))
        })?;
        let known = self.reader.length();
        if let Some(found) = known.filter(|found| *found < end) {
            return Err(Error::Truncated { what: self.file.into(), expected: end, found });
        }
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            let missing = length as usize - bytes.len();
            bytes.extend_from_slice(self.next(missing, end).await?);
        }
        Ok(bytes)
    }

    pub async fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        if let Some(bytes) = self.buffer.get(self.used..).and_then(|rest| rest.first_chunk()) {
            let bytes = *bytes;
            self.used += N;
            return Ok(bytes);
        }
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes(N as u64).await?);
        Ok(array)
    }

    pub async fn u32(&mut self) -> Result<u32> {
        self.array().await.map(u32::from_le_bytes)
    }

    pub async fn u64(&mut self) -> Result<u64> {
        self.array().await.map(u64::from_le_bytes)
    }

    /// A string with its length before it; `what` is for error messages.
    pub async fn text(&mut self, what: &str) -> Result<String> {
        let length = self.u64().await?;
        let bytes = self.bytes(length).await?;
        String::from_utf8(bytes).map_err(|error| malformed(self.file, format!("{what} is {error}")))
    }
}

pub(super) fn malformed(file: &str, found: String) -> Error {
    Error::Malformed { what: file.into(), expected: "GGUF file".into(), found }
}
