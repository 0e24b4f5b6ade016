//! Blocks to the layouts that keep them, group by group of 32 columns.

use super::{k::scale_and_min, nibble};
use crate::layout::{BlockType, pack_halves};
use half::f16;

impl BlockType {
    /// Turns a row of blocks into the words and scale words of [`BlockType::layout`]; does nothing
    /// for types without one.
    pub fn repack(self, row: &[u8], words: &mut [u32], scales: &mut [u32]) {
        let half = |block: &[u8], at| f16::from_le_bytes([block[at], block[at + 1]]);
        let blocks = row.chunks(self.bytes());
        match self {
            BlockType::Q4_0 => {
                for ((block, words), scale) in blocks.zip(words.chunks_mut(4)).zip(scales) {
                    let factor = half(block, 0);
                    *scale = pack_halves(factor, f16::from_f32(-8.0 * factor.to_f32()));
                    pack_nibbles(words, |j| nibble(&block[2..], j));
                }
            }
            BlockType::Q4_1 => {
                for ((block, words), scale) in blocks.zip(words.chunks_mut(4)).zip(scales) {
                    *scale = pack_halves(half(block, 0), half(block, 2));
                    pack_nibbles(words, |j| nibble(&block[4..], j));
                }
            }
            BlockType::Q4_K => {
                let groups = blocks.flat_map(|block| (0..8).map(move |group| (block, group)));
                for (((block, group), words), scale) in groups.zip(words.chunks_mut(4)).zip(scales)
                {
                    let (factor, min) = scale_and_min(block, group);
                    *scale = pack_halves(f16::from_f32(factor), f16::from_f32(-min));
                    let bytes = &block[16 + group / 2 * 32..];
                    pack_nibbles(words, |j| bytes[j] >> (group % 2 * 4) & 15);
                }
            }
            BlockType::Q8_0 => {
                for ((block, words), scale) in blocks.zip(words.chunks_mut(8)).zip(scales) {
                    *scale = pack_halves(half(block, 0), f16::ZERO);
                    for (word, bytes) in words.iter_mut().zip(block[2..].as_chunks().0) {
                        *word = u32::from_le_bytes(*bytes);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Fills four words with 32 nibbles.
fn pack_nibbles(words: &mut [u32], nibble: impl Fn(usize) -> u8) {
    for (i, word) in words.iter_mut().enumerate() {
        *word = (0..8).fold(0, |word, j| word | u32::from(nibble(8 * i + j)) << (4 * j));
    }
}
