//! The canonical layouts of weight matrices in memory, the same on the GPU and on the host.
//!
//! A matrix W\[n\]\[k\] is stored row by row in an array of u32 words. A row has [`row_stride`]`(k)`
//! columns, of which the last ones may be padding, and [`Layout::row_words`]`(k)` words; row `r` starts
//! at word `r · row_words(k)`. Place of column `c` of a row:
//!
//! | layout | in word | at bit | as |
//! |---|---|---|---|
//! | F32 | c | 0 | IEEE binary32 |
//! | F16, BF16 | c / 2 | 16·(c mod 2) | IEEE binary16, bfloat16 |
//! | F8 | c / 4 | 8·(c mod 4) | E4M3: four bits of exponent, three of mantissa |
//! | W8 | c / 4 | 8·(c mod 4) | q, a signed byte in two's complement |
//! | W4, Codebook | c / 8 | 4·(c mod 8) | q, an unsigned nibble |
//! | W5, W6 | c / 8 | 4·(c mod 8) | the low four bits of q, unsigned |
//! | W2, W3 | c / 16 | 2·(c mod 16) | the low two bits of q, unsigned |
//!
//! Layouts with scales have a second array of u32 words, `scales`, with [`Layout::row_scales`]`(k)`
//! words per row. It contains, one after the other:
//!
//! | layout | for each | words | weight |
//! |---|---|---|---|
//! | F8, W8, W4 | group | (scale, min) | scale·q + min |
//! | Codebook | two groups | (scale, scale) | scale·codebook\[q\] |
//! | W5 | 32 columns | (scale, min), 32 high bits | scale·q + min |
//! | W2 | 256 columns | (d, m), 16 bytes | d·(byte mod 16)·q − m·(byte / 16) |
//! | W3 | 256 columns | (d, 0), 16 bytes, 256 high bits | d·byte·(q − 4) |
//! | W6 | 256 columns | (d, 0), 16 bytes, 256 high pairs of bits | d·byte·(q − 32) |
//!
//! Here (a, b) is a word of two f16, as `unpack2x16float` reads it, a in the low half; the scales of
//! [`Codebook::E2m1`] are bfloat16, whose exponent range covers its own. Each byte belongs to 16
//! columns and is signed in W3 and W6. High bits are the bits above the low ones, column after column
//! from bit 0 up. All sums and products are in f32. W8 and F8 have min 0 unless the checkpoint says
//! otherwise. The last group of a row is shorter if the group size does not divide row_stride(k); W2,
//! W3 and W6 are for multiples of 256 columns.
//!
//! Padding is zero words and zero nibbles. A padded W4 column therefore reads as its group's min, not
//! as 0: products rely on the padding of the *activations* being zero. The parts of a fused matrix
//! (query, key and value rows) are consecutive in the same arrays, or each in its own if their layouts
//! differ.

mod block;
mod codebook;
mod matrix;
pub mod quantise;
mod stored;

pub use block::BlockType;
pub use codebook::Codebook;
pub use matrix::HostMatrix;
pub use stored::{FloatType, Grid, Mins, Number, Packing};

use half::f16;

/// Columns are padded to a multiple of this, so every row of every layout ends on a whole word.
pub const COLUMN_UNIT: usize = 32;

/// Columns of a stored row: `k` rounded up to [`COLUMN_UNIT`]; activations use the same stride.
pub const fn row_stride(k: usize) -> usize {
    k.next_multiple_of(COLUMN_UNIT)
}

/// How a weight matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    F32,
    F16,
    Bf16,
    /// 8-bit floats with one scale per `group` columns.
    F8 {
        group: usize,
    },
    /// Signed bytes with one scale per `group` columns.
    W8 {
        group: usize,
    },
    /// Six bits, for blocks of 256 columns.
    W6,
    /// Five bits with one (scale, min) per 32 columns.
    W5,
    /// Unsigned nibbles with one (scale, min) per `group` columns: 32, 64 or 128.
    W4 {
        group: usize,
    },
    /// Nibbles that index a codebook, with one scale per `group` columns: 32 or 64.
    Codebook {
        codebook: Codebook,
        group: usize,
    },
    /// Three bits, for blocks of 256 columns.
    W3,
    /// Two bits, for blocks of 256 columns.
    W2,
}

/// Columns of a block of W2, W3 and W6.
pub(crate) const BLOCK: usize = 256;

impl Layout {
    /// Columns that share a word.
    pub const fn columns_per_word(self) -> usize {
        match self {
            Layout::F32 => 1,
            Layout::F16 | Layout::Bf16 => 2,
            Layout::F8 { .. } | Layout::W8 { .. } => 4,
            Layout::W6 | Layout::W5 | Layout::W4 { .. } | Layout::Codebook { .. } => 8,
            Layout::W3 | Layout::W2 => 16,
        }
    }

    /// The codebook that nibbles index, if any.
    pub const fn codebook(self) -> Option<Codebook> {
        match self {
            Layout::Codebook { codebook, .. } => Some(codebook),
            _ => None,
        }
    }

    /// Columns per scale, in the layouts that numbers can be quantised to while they load.
    pub const fn quantised_group(self) -> Option<usize> {
        match self {
            Layout::W8 { group } | Layout::W4 { group } => Some(group),
            _ => None,
        }
    }

    /// Columns of a record, and its words of scales.
    pub const fn record(self) -> Option<(usize, usize)> {
        match self {
            Layout::F32 | Layout::F16 | Layout::Bf16 => None,
            Layout::F8 { group } | Layout::W8 { group } | Layout::W4 { group } => Some((group, 1)),
            Layout::Codebook { group, .. } => Some((2 * group, 1)),
            Layout::W5 => Some((32, 2)),
            Layout::W6 => Some((BLOCK, 5 + BLOCK * 2 / 32)),
            Layout::W3 => Some((BLOCK, 5 + BLOCK / 32)),
            Layout::W2 => Some((BLOCK, 5)),
        }
    }

    /// Groups whose scales share a word.
    pub const fn groups_per_word(self) -> usize {
        if matches!(self, Layout::Codebook { .. }) { 2 } else { 1 }
    }

    /// Columns per scale, in the layouts with one scale, and at most one min, per group.
    pub const fn group(self) -> Option<usize> {
        match self {
            Layout::F8 { group }
            | Layout::W8 { group }
            | Layout::W4 { group }
            | Layout::Codebook { group, .. } => Some(group),
            _ => None,
        }
    }

    /// Groups of a row of `k` columns, in those layouts; otherwise 0.
    pub const fn groups(self, k: usize) -> usize {
        match self.group() {
            Some(group) => row_stride(k).div_ceil(group),
            None => 0,
        }
    }

    /// Words of a row of `k` columns.
    pub const fn row_words(self, k: usize) -> usize {
        row_stride(k) / self.columns_per_word()
    }

    /// Words of a row of `k` columns in the array of scales; 0 in the float layouts.
    pub const fn row_scales(self, k: usize) -> usize {
        match self.record() {
            Some((columns, words)) => row_stride(k).div_ceil(columns) * words,
            None => 0,
        }
    }

    /// Bytes of an `n` by `k` matrix, scales included.
    pub const fn bytes(self, n: usize, k: usize) -> u64 {
        4 * n as u64 * (self.row_words(k) + self.row_scales(k)) as u64
    }
}

/// 2 to the power of an exponent stored with 127 added (E8M0); the smallest one is subnormal.
pub fn power_of_two(exponent: u8) -> f32 {
    f32::from_bits(if exponent == 0 { 1 << 22 } else { u32::from(exponent) << 23 })
}

/// Packs two f16 in a word, the first in the low half.
pub fn pack_halves(low: f16, high: f16) -> u32 {
    u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16
}

/// Unpacks the two f16 of a word, the low half first.
pub fn unpack_halves(word: u32) -> [f32; 2] {
    [f16::from_bits(word as u16).to_f32(), f16::from_bits((word >> 16) as u16).to_f32()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    fn random(rng: &mut fastrand::Rng, count: usize) -> Vec<f32> {
        (0..count).map(|_| (rng.f32() - 0.5) * 0.2 + rng.f32().powi(6) * 0.3).collect()
    }

    fn round_trip(layout: Layout, n: usize, k: usize, values: &[f32]) -> (HostMatrix, Vec<f32>) {
        let matrix = HostMatrix::pack(layout, n, k, values);
        assert_eq!(matrix.words.len(), n * layout.row_words(k));
        assert_eq!(matrix.scales.len(), n * layout.row_scales(k));
        assert_eq!(layout.bytes(n, k), 4 * (matrix.words.len() + matrix.scales.len()) as u64);
        let mut back = vec![f32::NAN; n * k];
        for (row, out) in back.chunks_exact_mut(k).enumerate() {
            matrix.dequantise_row(row, out);
        }
        (matrix, back)
    }

    /// Σ(a−b)² / Σa²
    fn nmse(a: &[f32], b: &[f32]) -> f64 {
        let square = |x: f64| x * x;
        let error: f64 = a.iter().zip(b).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
        error / a.iter().map(|a| square(f64::from(*a))).sum::<f64>()
    }

    #[test]
    fn words_are_laid_out_as_documented() {
        // Two rows of 33 columns: a stride of 64; the second group is padding except for one column.
        let (n, k) = (2, 33);
        let ramp: Vec<f32> = (0..n * k).map(|i| i as f32).collect();
        let (f16s, _) = round_trip(Layout::F16, n, k, &ramp);
        assert_eq!(f16s.words[32], 0x5040_5020, "33 and 34");
        assert_eq!(f16s.words[32 + 16] >> 16, 0, "column 33 is padding");

        // Multiples of a power of two on the grid of the group: exact in W8 and W4.
        let mut bytes: Vec<f32> = (0..n * k).map(|i| (i as f32 - 127.0) / 4.0).collect();
        bytes[32] = 127.0 / 4.0;
        bytes[33] = 127.0 / 4.0;
        bytes[65] = -127.0 / 4.0;
        let (w8, back) = round_trip(Layout::W8 { group: 32 }, n, k, &bytes);
        assert_eq!(back, bytes);
        assert_eq!(w8.words[0], 0x8483_8281, "-127, -126, -125, -124, the first lowest");
        assert_eq!(w8.words[8], 127, "column 32, then padding");
        assert_eq!(w8.scales, [0x3400; 4], "scale 0.25, min 0");

        let nibbles: Vec<f32> = (0..n * k).map(|i| (i % k % 16) as f32 * 0.5 - 3.0).collect();
        let (w4, back) = round_trip(Layout::W4 { group: 32 }, n, k, &nibbles);
        assert_eq!(back, nibbles);
        assert_eq!(w4.words[..4], [0x7654_3210, 0xfedc_ba98, 0x7654_3210, 0xfedc_ba98]);
        assert_eq!(w4.words[4..8], [0; 4]);
        assert_eq!(w4.scales[0], 0xc200_3800, "scale 0.5, min -3");
        assert_eq!(w4.scales[1], 0xc200_0000, "one value: scale 0, min -3");
        assert_eq!(w4.words[8..12], w4.words[..4]);
    }

    #[test]
    fn float_layouts_keep_what_they_can_represent() {
        let rng = &mut fastrand::Rng::with_seed(1);
        for k in [1, 31, 32, 70] {
            let values = random(rng, 3 * k);
            assert_eq!(round_trip(Layout::F32, 3, k, &values).1, values);
            let halves: Vec<f32> = values.iter().map(|x| f16::from_f32(*x).to_f32()).collect();
            assert_eq!(round_trip(Layout::F16, 3, k, &values).1, halves);
            let brains: Vec<f32> = values.iter().map(|x| bf16::from_f32(*x).to_f32()).collect();
            assert_eq!(round_trip(Layout::Bf16, 3, k, &values).1, brains);
        }
    }

    #[test]
    fn quantisation_errors_are_those_of_the_format() {
        // NMSE on normally distributed weights, computed independently.
        let expected = [
            (Layout::W8 { group: 32 }, 2.78e-5),
            (Layout::W4 { group: 32 }, 0.00566),
            (Layout::W4 { group: 64 }, 0.00734),
            (Layout::W4 { group: 128 }, 0.00885),
        ];
        let rng = &mut fastrand::Rng::with_seed(2);
        let mut normal = || (0..12).map(|_| rng.f32()).sum::<f32>() - 6.0;
        let values: Vec<f32> = (0..256 * 512).map(|_| 0.02 * normal()).collect();
        for (layout, expected) in expected {
            let ratio = nmse(&values, &round_trip(layout, 256, 512, &values).1) / expected;
            assert!((0.95..1.05).contains(&ratio), "{layout:?}: {ratio} of what is expected");
        }
    }

    #[test]
    fn the_search_never_does_worse_than_the_plain_range() {
        let rng = &mut fastrand::Rng::with_seed(3);
        for _ in 0..200 {
            let values = random(rng, 32);
            let (_, back) = round_trip(Layout::W4 { group: 32 }, 1, 32, &values);
            let low = values.iter().copied().fold(f32::INFINITY, f32::min);
            let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let scale = f16::from_f32((high - low) / 15.0).to_f32();
            let min = f16::from_f32(low).to_f32();
            let plain: Vec<f32> = values
                .iter()
                .map(|x| scale * ((x - min) / scale).round_ties_even().clamp(0.0, 15.0) + min)
                .collect();
            assert!(nmse(&values, &back) <= nmse(&values, &plain) * 1.0001);
        }
    }

    #[test]
    fn degenerate_groups_stay_finite() {
        for value in [0.0, 1.0, -2.5, 1e-9, -1e-7] {
            for layout in [Layout::W8 { group: 32 }, Layout::W4 { group: 64 }] {
                let (_, back) = round_trip(layout, 1, 64, &[value; 64]);
                // A scale below the smallest f16, 2^-24, is lost.
                let bound = value.abs() / 254.0 + 127.0 / (1 << 25) as f32;
                assert!(back.iter().all(|x| (x - value).abs() <= bound), "{value} {layout:?}");
            }
        }
    }
}
