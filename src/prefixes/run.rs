//! Runs of entries, and their files.

use std::ops::Range;

use blake3::Hasher;
use serde::{Deserialize, Serialize};

use crate::{manifest::Digest, step::EntryBlocks};

/// Bytes of the digest at the start of a file.
const DIGEST_BYTES: usize = 32;

/// Consecutive entries of a sequence's block table, stored in one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Number of its file.
    pub slot: u32,
    /// Digest of all tokens up to its end, and of what else its keys and values depend on.
    pub key: Digest,
    pub entries: Range<usize>,
    /// Bytes of its file; 0 until it is written.
    pub bytes: u64,
}

impl Run {
    /// The file of a run with these blocks: a digest, a byte for each place of a block, 1 where the file has
    /// it, and the words of these blocks, little-endian.
    pub fn encode(&self, blocks: &EntryBlocks) -> Vec<u8> {
        let mut file = vec![0; DIGEST_BYTES];
        file.extend(blocks.present.iter().map(|present| u8::from(*present)));
        file.extend_from_slice(bytemuck::cast_slice(&blocks.words));
        let digest = self.digest(&file[DIGEST_BYTES..]);
        file[..DIGEST_BYTES].copy_from_slice(&digest.0);
        file
    }

    /// The blocks in its file; `None` if that is not what was written.
    pub fn decode(&self, file: &[u8], groups: usize) -> Option<EntryBlocks> {
        let (digest, content) = file.split_at_checked(DIGEST_BYTES)?;
        if self.digest(content).0 != digest {
            return None;
        }
        let (present, words) = content.split_at_checked(self.entries.len() * groups)?;
        let mut blocks = EntryBlocks {
            first_entry: self.entries.start,
            present: present.iter().map(|present| *present == 1).collect(),
            words: vec![0; words.len() / 4],
        };
        bytemuck::cast_slice_mut(&mut blocks.words)
            .copy_from_slice(words.get(..words.len() / 4 * 4)?);
        Some(blocks)
    }

    fn digest(&self, content: &[u8]) -> Digest {
        Digest(Hasher::new_keyed(&self.key.0).update(content).finalize().into())
    }
}
