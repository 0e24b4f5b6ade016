//! Reads a byte stream in pieces of any length.

use super::Chunk;
use super::source::{ByteStream, Length};
use crate::error::{Error, Result};

/// A byte stream with a position.
pub struct Reader<S> {
    stream: S,
    /// The rest of the stream's last chunk.
    pending: Option<Chunk>,
    /// Position of the next byte in the file.
    position: u64,
}

impl<S: ByteStream> Reader<S> {
    /// Starts at the stream's first byte.
    pub fn new(stream: S) -> Reader<S> {
        Reader::starting_at(stream, 0)
    }

    /// For a stream that starts at byte `position` of the file.
    pub fn starting_at(stream: S, position: u64) -> Reader<S> {
        Reader { stream, pending: None, position }
    }

    /// Length of the whole file, if known.
    pub fn length(&self) -> Option<u64> {
        self.stream.length()
    }

    /// Sets the length of the file, which the stream may not know.
    pub fn expect(&mut self, length: Length) {
        self.stream.expect(length);
    }

    /// Position of the next byte in the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next bytes, at least one, without consuming them; `None` at the end.
    pub async fn peek(&mut self) -> Result<Option<&Chunk>> {
        while self.pending.as_ref().is_none_or(Chunk::is_empty) {
            match self.stream.next().await? {
                Some(chunk) => self.pending = Some(chunk),
                None => return Ok(None),
            }
        }
        Ok(self.pending.as_ref())
    }

    /// Returns the next bytes, at least one and at most `limit`; `None` at the end, or if `limit` is 0.
    pub async fn next(&mut self, limit: u64) -> Result<Option<Chunk>> {
        if limit == 0 || self.peek().await?.is_none() {
            return Ok(None);
        }
        let Some(mut chunk) = self.pending.take() else { return Ok(None) };
        let length = chunk.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
        if length < chunk.len() {
            self.pending = Some(chunk.slice(length..chunk.len()));
            chunk = chunk.slice(0..length);
        }
        self.position += length as u64;
        Ok(Some(chunk))
    }

    /// Skips to byte `position` of the file; `file` is for the error if the stream ends early.
    pub async fn skip_to(&mut self, file: &str, position: u64) -> Result<()> {
        while self.position < position {
            if self.next(position - self.position).await?.is_none() {
                let found = self.position;
                return Err(Error::Truncated { what: file.into(), expected: position, found });
            }
        }
        Ok(())
    }

    /// Returns the next `length` bytes; `file` is for the error if the stream ends early. Memory grows
    /// as they arrive.
    pub async fn take(&mut self, file: &str, length: u64) -> Result<Vec<u8>> {
        let expected = self.position + length;
        let mut bytes = Vec::new();
        while self.position < expected {
            let Some(chunk) = self.next(expected - self.position).await? else {
                return Err(Error::Truncated { what: file.into(), expected, found: self.position });
            };
            let start = bytes.len();
            bytes.resize(start + chunk.len(), 0);
            chunk.copy_to(&mut bytes[start..]);
        }
        Ok(bytes)
    }

    /// Fills `out` with the next bytes; `file` is for the error if the stream ends early.
    pub async fn fill(&mut self, file: &str, out: &mut [u8]) -> Result<()> {
        let expected = self.position + out.len() as u64;
        let mut rest = out;
        while !rest.is_empty() {
            let Some(chunk) = self.next(rest.len() as u64).await? else {
                return Err(Error::Truncated { what: file.into(), expected, found: self.position });
            };
            let (head, tail) = rest.split_at_mut(chunk.len());
            chunk.copy_to(head);
            rest = tail;
        }
        Ok(())
    }
}
