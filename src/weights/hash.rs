//! Digests of downloaded bytes.

use blake3::Hasher;
use sha2::{Digest as _, Sha256};

use super::Chunk;
use crate::manifest::Digest;

/// Computes the digest of a chunk, and that of the whole file, as far as they are needed.
///
/// BLAKE3 for chunks, which are checked on every load: with WebAssembly's SIMD it is twice as fast as
/// SHA-256. SHA-256 is what repositories publish, and is needed once.
#[derive(Clone, Debug, Default)]
pub struct Hash {
    pub chunk: Option<Box<Hasher>>,
    /// State after the bytes before the chunk.
    pub whole: Option<Sha256>,
}

impl Hash {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &Chunk) {
        if self.chunk.is_none() && self.whole.is_none() {
            return;
        }
        bytes.read(|bytes| {
            if let Some(chunk) = &mut self.chunk {
                chunk.update(bytes);
            }
            if let Some(whole) = &mut self.whole {
                whole.update(bytes);
            }
        });
    }

    /// The digest of the chunk.
    pub fn chunk(&self) -> Option<Digest> {
        self.chunk.as_ref().map(|chunk| Digest(chunk.finalize().into()))
    }
}

/// The digest of a whole file.
pub fn sha256(whole: Sha256) -> Digest {
    Digest(whole.finalize().into())
}
