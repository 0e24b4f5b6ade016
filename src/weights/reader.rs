//! Reads a byte stream in pieces of the reader's choosing.

use super::Chunk;
use super::source::ByteStream;
use crate::error::{Error, Result};

/// A byte stream with a position.
pub struct Reader<S> {
    stream: S,
    /// What is left of the stream's last chunk.
    pending: Option<Chunk>,
    /// Bytes handed out so far.
    position: u64,
}

impl<S: ByteStream> Reader<S> {
    /// Starts at the stream's first byte.
    pub fn new(stream: S) -> Reader<S> {
        Reader { stream, pending: None, position: 0 }
    }

    /// Length of the whole stream, if it is known.
    pub fn length(&self) -> Option<u64> {
        self.stream.length()
    }

    /// Bytes handed out so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next bytes, at least one and at most `limit`; `None` at the end.
    pub async fn next(&mut self, limit: u64) -> Result<Option<Chunk>> {
        let mut chunk = match self.pending.take() {
            Some(chunk) => chunk,
            None => loop {
                match self.stream.next().await? {
                    Some(chunk) if chunk.is_empty() => continue,
                    Some(chunk) => break chunk,
                    None => return Ok(None),
                }
            },
        };
        let length = chunk.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
        if length < chunk.len() {
            self.pending = Some(chunk.slice(length..chunk.len()));
            chunk = chunk.slice(0..length);
        }
        self.position += length as u64;
        Ok(Some(chunk))
    }

    /// Fills `out` with the next bytes; `file` names the stream in the error of one that ends early.
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
