//! Unpacks blocks: the code of each element, and the scales that convert codes to values.

use crate::layout::{BlockType, Codebook, power_of_two};
use half::f16;

/// How the codes of a block are converted to values.
pub(super) enum Scales {
    /// (scale, min) of each 32 elements: scale·code + min. The codes of Q8_0 are signed.
    Pairs([(f32, f32); 8]),
    /// The scale of each 32 elements; codes are indices into the codebook.
    Codebook(Codebook, [f32; 8]),
    /// Two f16 for the whole block, and a byte for each 16 elements; see [`crate::layout`].
    Bytes { halves: u32, bytes: [u8; 16] },
}

/// Unpacks a block; `None` if its type is not supported.
pub(super) fn unpack(kind: BlockType, block: &[u8], codes: &mut [u8]) -> Option<Scales> {
    Some(match kind {
        BlockType::Q4_0 => {
            nibbles(&block[2..], codes);
            symmetric(half_at(block, 0), 8.0)
        }
        BlockType::Q4_1 => {
            nibbles(&block[4..], codes);
            one((half_at(block, 0), half_at(block, 2)))
        }
        BlockType::Q5_0 => {
            five_bits(&block[2..], codes);
            symmetric(half_at(block, 0), 16.0)
        }
        BlockType::Q5_1 => {
            five_bits(&block[4..], codes);
            one((half_at(block, 0), half_at(block, 2)))
        }
        BlockType::Q8_0 => {
            codes[..32].copy_from_slice(&block[2..34]);
            one((half_at(block, 0), 0.0))
        }
        BlockType::Q2_K => q2(block, codes),
        BlockType::Q3_K => q3(block, codes),
        BlockType::Q4_K => {
            nibbles_of_32(&block[16..], codes);
            Scales::Pairs(std::array::from_fn(|group| scale_and_min(block, group)))
        }
        BlockType::Q5_K => {
            nibbles_of_32(&block[48..], codes);
            for (j, code) in codes.iter_mut().enumerate() {
                *code |= (block[16 + j % 32] >> (j / 32) & 1) << 4;
            }
            Scales::Pairs(std::array::from_fn(|group| scale_and_min(block, group)))
        }
        BlockType::Q6_K => q6(block, codes),
        BlockType::IQ4_NL => {
            nibbles(&block[2..], codes);
            Scales::Codebook(Codebook::NonLinear, [half_at(block, 0); 8])
        }
        BlockType::IQ4_XS => iq4_xs(block, codes),
        BlockType::MXFP4 => {
            nibbles(&block[1..], codes);
            Scales::Codebook(Codebook::E2m1, [power_of_two(block[0]); 8])
        }
        _ => return None,
    })
}

/// The f16 at byte `at`.
fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

fn one(pair: (f32, f32)) -> Scales {
    Scales::Pairs([pair; 8])
}

/// scale·(code − middle)
fn symmetric(scale: f32, middle: f32) -> Scales {
    one((scale, -middle * scale))
}

/// 32 nibbles in 16 bytes: the low nibbles are the first half, the high ones the second.
fn nibbles(bytes: &[u8], codes: &mut [u8]) {
    for (j, byte) in bytes[..16].iter().enumerate() {
        (codes[j], codes[j + 16]) = (byte & 15, byte >> 4);
    }
}

/// 32 fifth bits in 4 bytes, then the nibbles.
fn five_bits(bytes: &[u8], codes: &mut [u8]) {
    nibbles(&bytes[4..], codes);
    for (j, code) in codes[..32].iter_mut().enumerate() {
        *code |= (bytes[j / 8] >> (j % 8) & 1) << 4;
    }
}

/// 256 nibbles: 32 bytes hold 32 low ones, then 32 high ones.
fn nibbles_of_32(bytes: &[u8], codes: &mut [u8]) {
    for (j, code) in codes.iter_mut().enumerate() {
        *code = bytes[j / 64 * 32 + j % 32] >> (j / 32 % 2 * 4) & 15;
    }
}

/// Scale and min of a group of 32 of Q4_K and Q5_K: six-bit integers times two f16.
fn scale_and_min(block: &[u8], group: usize) -> (f32, f32) {
    let packed = &block[4..16];
    let (scale, min) = if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        let (scale, min) = (packed[group - 4] >> 6, packed[group] >> 6);
        (packed[group + 4] & 15 | scale << 4, packed[group + 4] >> 4 | min << 4)
    };
    (half_at(block, 0) * f32::from(scale), -(half_at(block, 2) * f32::from(min)))
}

/// The f16 at byte `at`, in the low half of a word.
fn half_bits(block: &[u8], at: usize) -> u32 {
    u32::from(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Bits 2s and 2s + 1 of 32 bytes are 32 elements, s counting up; then the next 32 bytes.
fn two_bits(bytes: &[u8], codes: &mut [u8]) {
    for (j, code) in codes.iter_mut().enumerate() {
        *code = bytes[j / 128 * 32 + j % 32] >> (j / 32 % 4 * 2) & 3;
    }
}

/// Scale and min of a group are the nibbles of a byte.
fn q2(block: &[u8], codes: &mut [u8]) -> Scales {
    two_bits(&block[16..80], codes);
    Scales::Bytes {
        halves: half_bits(block, 80) | half_bits(block, 82) << 16,
        bytes: std::array::from_fn(|i| block[i]),
    }
}

/// The scale of a group has six bits. The third bit of an element is in a mask.
fn q3(block: &[u8], codes: &mut [u8]) -> Scales {
    let (mask, scales) = (&block[..32], &block[96..108]);
    two_bits(&block[32..96], codes);
    for (j, code) in codes.iter_mut().enumerate() {
        *code |= (mask[j % 32] >> (j / 32) & 1) << 2;
    }
    let bytes = std::array::from_fn(|group| {
        let low = scales[group % 8] >> (group / 8 * 4) & 15;
        let high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
        (low | high << 4).wrapping_sub(32)
    });
    Scales::Bytes { halves: half_bits(block, 108), bytes }
}

/// Half of the block is four runs of 32 elements; two of them share the bytes of low nibbles.
fn q6(block: &[u8], codes: &mut [u8]) -> Scales {
    for (j, code) in codes.iter_mut().enumerate() {
        let (part, run, at) = (j / 128, j / 32 % 4, j % 32);
        let low = block[part * 64 + run % 2 * 32 + at] >> (run / 2 * 4) & 15;
        let high = block[128 + part * 32 + at] >> (run * 2) & 3;
        *code = low | high << 4;
    }
    let bytes = std::array::from_fn(|group| block[192 + group]);
    Scales::Bytes { halves: half_bits(block, 208), bytes }
}

/// 8 groups of 32, each with a scale of six bits.
fn iq4_xs(block: &[u8], codes: &mut [u8]) -> Scales {
    for (group, codes) in codes.chunks_mut(32).enumerate() {
        nibbles(&block[8 + group * 16..], codes);
    }
    let high_bits = u16::from_le_bytes([block[2], block[3]]);
    let scales = std::array::from_fn(|group| {
        let low = block[4 + group / 2] >> (group % 2 * 4) & 15;
        let high = (high_bits >> (group * 2) & 3) as u8;
        half_at(block, 0) * (f32::from(low | high << 4) - 32.0)
    });
    Scales::Codebook(Codebook::NonLinear, scales)
}
