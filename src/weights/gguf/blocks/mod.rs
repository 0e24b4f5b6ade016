//! Quantised blocks on the CPU: their values, and their lossless layouts.

mod unpack;

use crate::layout::{BlockType, Layout, pack_halves, unpack_halves};
use half::f16;
use unpack::{Scales, unpack};

/// Most elements of a supported block.
const LONGEST: usize = 256;

impl BlockType {
    /// Writes the values of whole blocks, bit for bit as ggml computes them; does nothing for
    /// unsupported types.
    pub fn dequantise(self, blocks: &[u8], out: &mut [f32]) {
        let mut codes = [0; LONGEST];
        for (block, out) in blocks.chunks(self.bytes()).zip(out.chunks_mut(self.elements())) {
            let Some(scales) = unpack(self, block, &mut codes) else { return };
            let numbers = out.iter_mut().zip(codes).enumerate();
            match scales {
                Scales::Pairs(pairs) => numbers.for_each(|(j, (out, q))| {
                    let (scale, min) = pairs[j / 32];
                    *out = match self {
                        BlockType::Q4_0 | BlockType::Q5_0 | BlockType::Q8_0 => {
                            scale * self.centred(q)
                        }
                        _ => scale * f32::from(q) + min,
                    };
                }),
                Scales::Codebook(codebook, scales) => {
                    let values = codebook.values();
                    numbers
                        .for_each(|(j, (out, q))| *out = scales[j / 32] * values[usize::from(q)]);
                }
                Scales::Bytes { halves, bytes } => {
                    let [d, m] = unpack_halves(halves);
                    numbers.for_each(|(j, (out, q))| {
                        let byte = bytes[j / 16];
                        *out = match self {
                            BlockType::Q2_K => {
                                d * f32::from(byte & 15) * f32::from(q) - m * f32::from(byte >> 4)
                            }
                            _ => d * f32::from(byte as i8) * self.centred(q),
                        };
                    });
                }
            }
        }
    }

    /// The value of a code of a symmetric type.
    fn centred(self, code: u8) -> f32 {
        match self {
            BlockType::Q8_0 => f32::from(code as i8),
            BlockType::Q3_K => f32::from(code) - 4.0,
            BlockType::Q4_0 => f32::from(code) - 8.0,
            BlockType::Q5_0 => f32::from(code) - 16.0,
            BlockType::Q6_K => f32::from(code) - 32.0,
            _ => f32::from(code),
        }
    }

    /// Converts a row of blocks to words and scale words of [`BlockType::layout`]; does nothing for
    /// types without one.
    pub fn repack(self, row: &[u8], words: &mut [u32], scales: &mut [u32]) {
        let Some(layout) = self.layout() else { return };
        let low_bits = 32 / layout.columns_per_word();
        let (columns, record) = layout.record().unwrap_or((LONGEST, 0));
        let mut codes = [0; LONGEST];
        words.fill(0);
        scales.fill(0);
        for (i, block) in row.chunks(self.bytes()).enumerate() {
            let Some(taken_apart) = unpack(self, block, &mut codes) else { return };
            let first = i * self.elements();
            let codes = &codes[..self.elements()];
            for (c, q) in (first..).zip(codes) {
                let low = u32::from(*q) & (u32::MAX >> (32 - low_bits));
                words[c * low_bits / 32] |= low << (c * low_bits % 32);
            }
            match taken_apart {
                Scales::Pairs(pairs) => {
                    for (group, (scale, min)) in (first / 32..).zip(&pairs[..codes.len() / 32]) {
                        scales[group * record] =
                            pack_halves(f16::from_f32(*scale), f16::from_f32(*min));
                    }
                }
                Scales::Codebook(codebook, factors) => {
                    for (group, factor) in (first / 32..).zip(&factors[..codes.len() / 32]) {
                        let bits = u32::from(codebook.scale_bits(*factor));
                        scales[group / 2] |= bits << (group % 2 * 16);
                    }
                }
                Scales::Bytes { halves, bytes } => {
                    let record = &mut scales[i * record..];
                    record[0] = halves;
                    for (word, bytes) in record[1..].iter_mut().zip(bytes.as_chunks().0) {
                        *word = u32::from_le_bytes(*bytes);
                    }
                }
            }
            let (at, high_bits) = match layout {
                Layout::W5 => (1, 1),
                Layout::W6 => (5, 2),
                Layout::W3 => (5, 1),
                _ => continue,
            };
            for (c, q) in (first..).zip(codes) {
                let high = u32::from(*q) >> low_bits;
                let bit = c % columns * high_bits;
                scales[c / columns * record + at + bit / 32] |= high << (bit % 32);
            }
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
