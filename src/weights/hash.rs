//! Digests of bytes as they come by.

use blake3::Hasher;
use sha2::{Digest as _, Sha256};

use super::Chunk;
use crate::manifest::Digest;

/// Digests a chunk of a file, and with it the whole file, as far as either is wanted.
///
/// BLAKE3 for the chunk, which is checked on every load: with WebAssembly's SIMD it is twice as fast
/// as SHA-256, in which repositories say what their files are and which is needed once.
#[derive(Clone, Debug, Default)]
pub struct Hash {
    pub chunk: Option<Box<Hasher>>,
    /// Has digested what comes before the chunk.
    pub whole: Option<Sha256>,
}

impl Hash {
    /// Takes in the next bytes.
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
