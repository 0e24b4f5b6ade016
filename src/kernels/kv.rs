//! Where keys and values lie in the paged cache.
//!
//! Each layer has one buffer of u32 words of two halves, dims 2d and 2d + 1:
//! `[block][K, then V][kv head][16 tokens][head_dim / 2]`. `shaders/include/kv.wgsl` says the same.

use half::{
    f16,
    slice::{HalfBitsSliceExt, HalfFloatSliceExt},
};

use crate::step::BLOCK_SIZE;

/// The shape of one layer's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvLayout {
    pub kv_heads: usize,
    /// A multiple of 8.
    pub head_dim: usize,
}

impl KvLayout {
    /// Words of a block: the keys and values of 16 tokens.
    pub const fn block_words(&self) -> usize {
        2 * self.kv_heads * BLOCK_SIZE * self.token_words()
    }

    /// Words of one token's key, or value, of one head.
    pub const fn token_words(&self) -> usize {
        self.head_dim / 2
    }

    /// First word of a token's key; `slot` is 16·block + offset, as in [`super::batch::Row`].
    pub const fn key(&self, slot: usize, kv_head: usize) -> usize {
        let (block, offset) = (slot / BLOCK_SIZE, slot % BLOCK_SIZE);
        let head = block * 2 * self.kv_heads + kv_head;
        (head * BLOCK_SIZE + offset) * self.token_words()
    }

    /// First word of a token's value.
    pub const fn value(&self, slot: usize, kv_head: usize) -> usize {
        self.key(slot, kv_head + self.kv_heads)
    }
}

/// Rounds to halves, two a word; what exceeds the range of a half becomes its largest.
pub fn pack(values: &[f32], words: &mut [u32]) {
    let half = |v: f32| u32::from(f16::from_f32(v.clamp(-65504.0, 65504.0)).to_bits());
    for (word, pair) in words.iter_mut().zip(values.chunks_exact(2)) {
        *word = half(pair[0]) | half(pair[1]) << 16;
    }
}

/// Reads the halves of `words` into `values`.
pub fn unpack(words: &[u32], values: &mut [f32]) {
    let halves: &[u16] = bytemuck::cast_slice(words);
    halves.reinterpret_cast::<f16>().convert_to_f32_slice(values);
}
