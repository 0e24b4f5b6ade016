//! Quantised blocks in plain Rust: their values, and the words of the layouts that keep them.

mod k;
mod lookup;
mod plain;
mod repack;

use crate::layout::BlockType;
use half::f16;

/// Writes the values of one block.
type Decoder = fn(&[u8], &mut [f32]);

impl BlockType {
    fn decoder(self) -> Option<Decoder> {
        Some(match self {
            BlockType::Q4_0 => plain::q4_0,
            BlockType::Q4_1 => plain::q4_1,
            BlockType::Q5_0 => plain::q5_0,
            BlockType::Q5_1 => plain::q5_1,
            BlockType::Q8_0 => plain::q8_0,
            BlockType::Q2_K => k::q2,
            BlockType::Q3_K => k::q3,
            BlockType::Q4_K => k::q4,
            BlockType::Q5_K => k::q5,
            BlockType::Q6_K => k::q6,
            BlockType::IQ4_NL => lookup::iq4_nl,
            BlockType::IQ4_XS => lookup::iq4_xs,
            BlockType::MXFP4 => lookup::mxfp4,
            _ => return None,
        })
    }

    /// Writes the values of whole blocks as ggml computes them, to the bit; of types that are not
    /// readable, nothing.
    pub fn dequantise(self, blocks: &[u8], out: &mut [f32]) {
        let Some(decode) = self.decoder() else { return };
        for (block, out) in blocks.chunks(self.bytes()).zip(out.chunks_mut(self.elements())) {
            decode(block, out);
        }
    }
}

/// The half at byte `at`.
fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Element `j` of 32 nibbles in 16 bytes: the first half in the low nibbles, the second in the high.
fn nibble(bytes: &[u8], j: usize) -> u8 {
    if j < 16 { bytes[j] & 15 } else { bytes[j - 16] >> 4 }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
