//! Layout of the paged KV cache.
//!
//! Each layer has one buffer of u32 words, `[block][K, then V][kv head]`, and for each head:
//!
//! | kind | words |
//! |---|---|
//! | f16 | `[16 tokens][head_dim / 2]` two f16, dims 2d and 2d + 1 |
//! | int8 | `[16 tokens][head_dim / 4]` four bytes, the first dim lowest; then `[16 tokens]` scales, f32 |
//!
//! `shaders/include/kv.wgsl` has the same layout. A token's words depend only on its own key and value,
//! not on batch or chunk.

use half::{
    f16,
    slice::{HalfBitsSliceExt, HalfFloatSliceExt},
};

use crate::step::BLOCK_SIZE;

/// Number format of keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvKind {
    /// f16; values beyond its range are clamped.
    #[default]
    F16,
    /// int8 from -127 to 127, with one scale per token and head.
    Int8,
}

/// Shape of one layer's KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvLayout {
    pub kind: KvKind,
    pub kv_heads: usize,
    /// A multiple of 8.
    pub head_dim: usize,
}

impl KvLayout {
    /// Words of a block: the keys and values of 16 tokens.
    pub const fn block_words(&self) -> usize {
        2 * self.kv_heads * self.head_words()
    }

    /// Words of one token's key, or value, of one head, without scale.
    pub const fn token_words(&self) -> usize {
        match self.kind {
            KvKind::F16 => self.head_dim / 2,
            KvKind::Int8 => self.head_dim / 4,
        }
    }

    /// Words of a block's keys, or values, of one head.
    const fn head_words(&self) -> usize {
        let scales = match self.kind {
            KvKind::F16 => 0,
            KvKind::Int8 => BLOCK_SIZE,
        };
        BLOCK_SIZE * self.token_words() + scales
    }

    /// First word of a head in the block of a token. Values follow the keys as if they were further KV
    /// heads. `slot` is 16·block + offset, as in [`super::batch::Row`].
    const fn head(&self, slot: usize, head: usize) -> usize {
        (slot / BLOCK_SIZE * 2 * self.kv_heads + head) * self.head_words()
    }

    /// First word of a token's key.
    pub const fn key(&self, slot: usize, kv_head: usize) -> usize {
        self.head(slot, kv_head) + slot % BLOCK_SIZE * self.token_words()
    }

    /// First word of a token's value.
    pub const fn value(&self, slot: usize, kv_head: usize) -> usize {
        self.key(slot, kv_head + self.kv_heads)
    }

    /// The word of the scale of a token's key, in int8; for its value use `kv_head` + `kv_heads`.
    pub const fn scale(&self, slot: usize, kv_head: usize) -> usize {
        self.head(slot, kv_head) + BLOCK_SIZE * self.token_words() + slot % BLOCK_SIZE
    }

    /// Writes a token's key; for its value use `kv_head` + `kv_heads`.
    pub fn store(&self, cache: &mut [u32], slot: usize, kv_head: usize, values: &[f32]) {
        let at = self.key(slot, kv_head);
        let words = &mut cache[at..at + self.token_words()];
        match self.kind {
            KvKind::F16 => pack(values, words),
            KvKind::Int8 => {
                let scale = quantise(values, words);
                cache[self.scale(slot, kv_head)] = scale.to_bits();
            }
        }
    }

    /// Reads a token's key; for its value use `kv_head` + `kv_heads`.
    pub fn load(&self, cache: &[u32], slot: usize, kv_head: usize, values: &mut [f32]) {
        let at = self.key(slot, kv_head);
        let words = &cache[at..at + self.token_words()];
        match self.kind {
            KvKind::F16 => unpack(words, values),
            KvKind::Int8 => {
                let scale = f32::from_bits(cache[self.scale(slot, kv_head)]);
                let bytes: &[i8] = bytemuck::cast_slice(words);
                for (value, byte) in values.iter_mut().zip(bytes) {
                    *value = scale * f32::from(*byte);
                }
            }
        }
    }
}

/// Rounds to f16, two per word.
fn pack(values: &[f32], words: &mut [u32]) {
    let half = |v: f32| u32::from(f16::from_f32(v.clamp(-65504.0, 65504.0)).to_bits());
    for (word, pair) in words.iter_mut().zip(values.chunks_exact(2)) {
        *word = half(pair[0]) | half(pair[1]) << 16;
    }
}

/// Reads the f16 of `words` into `values`.
fn unpack(words: &[u32], values: &mut [f32]) {
    let halves: &[u16] = bytemuck::cast_slice(words);
    halves.reinterpret_cast::<f16>().convert_to_f32_slice(values);
}

/// Rounds to multiples of a scale, ties away from zero, four per word; returns the scale.
fn quantise(values: &[f32], words: &mut [u32]) -> f32 {
    let largest = values.iter().fold(0.0, |most: f32, v| most.max(v.abs()));
    let scale = (largest / 127.0).max(1e-6);
    let byte = |v: &f32| (v / scale).clamp(-127.0, 127.0).round() as i8 as u8;
    for (word, four) in words.iter_mut().zip(values.chunks_exact(4)) {
        *word = u32::from_le_bytes([0, 1, 2, 3].map(|i| byte(&four[i])));
    }
    scale
}
