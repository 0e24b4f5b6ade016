//! The canonical layouts in which weight matrices lie in memory, on the GPU and on the host alike.
//!
//! A matrix W\[n\]\[k\] is stored row by row in an array of u32 words. A row
//! has [`row_stride`]`(k)` columns, of which the last ones may be padding, and
//! takes [`Layout::row_words`]`(k)` words; row `r` starts at word
//! `r · row_words(k)`. Column `c` of a row lies
//!
//! | layout | in word | at bit | as |
//! |---|---|---|---|
//! | F32 | c | 0 | IEEE binary32 |
//! | F16, BF16 | c / 2 | 16·(c mod 2) | IEEE binary16, bfloat16 |
//! | W8 | c / 4 | 8·(c mod 4) | q, a signed byte in two's complement |
//! | W4 | c / 8 | 4·(c mod 8) | q, an unsigned nibble |
//!
//! The quantised layouts have a second array of u32 words, `scales`, with
//! [`Layout::row_groups`]`(k)` = ⌈row_stride(k) / group⌉ words a row: word
//! `r · row_groups(k) + c / group` belongs to column `c` of row `r`. Its low
//! half is the scale, its high half the min, both binary16, as
//! `unpack2x16float` reads them. The weight is **scale·q + min** in f32; W8 has
//! min 0. The last group of a row is shorter where group does not divide
//! row_stride(k).
//!
//! Padding is zero words and zero nibbles. A padded W4 column therefore reads
//! as its group's min, not as 0: products rely on the padding of the
//! *activations* being zero. The parts of a fused matrix (query, key and value
//! rows) lie one after the other in the same arrays.

mod block;
pub(crate) mod quantise;

pub use block::BlockType;

use half::{bf16, f16};

/// Columns are padded to a multiple of this, so that every row of every layout ends on a whole word.
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
    /// Signed bytes with one scale per `group` columns.
    W8 {
        group: usize,
    },
    /// Unsigned nibbles with one (scale, min) per `group` columns: 32, 64 or 128.
    W4 {
        group: usize,
    },
}

impl Layout {
    /// Columns that share a word.
    pub const fn columns_per_word(self) -> usize {
        match self {
            Layout::F32 => 1,
            Layout::F16 | Layout::Bf16 => 2,
            Layout::W8 { .. } => 4,
            Layout::W4 { .. } => 8,
        }
    }

    /// Columns that share a scale, in the quantised layouts.
    pub const fn group(self) -> Option<usize> {
        match self {
            Layout::W8 { group } | Layout::W4 { group } => Some(group),
            _ => None,
        }
    }

    /// Words of a row of `k` columns.
    pub const fn row_words(self, k: usize) -> usize {
        row_stride(k) / self.columns_per_word()
    }

    /// Words of a row of `k` columns in the array of scales; 0 in the float layouts.
    pub const fn row_groups(self, k: usize) -> usize {
        match self.group() {
            Some(group) => row_stride(k).div_ceil(group),
            None => 0,
        }
    }

    /// Bytes of an `n` by `k` matrix, scales included.
    pub const fn bytes(self, n: usize, k: usize) -> u64 {
        4 * n as u64 * (self.row_words(k) + self.row_groups(k)) as u64
    }
}

/// A weight matrix in host memory, bit for bit as it lies on the GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct HostMatrix {
    pub layout: Layout,
    pub n: usize,
    pub k: usize,
    /// `[n][layout.row_words(k)]`
    pub words: Vec<u32>,
    /// `[n][layout.row_groups(k)]`
    pub scales: Vec<u32>,
}

impl HostMatrix {
    /// Makes a matrix whose words are all zero.
    pub fn zeroed(layout: Layout, n: usize, k: usize) -> HostMatrix {
        let words = vec![0; n * layout.row_words(k)];
        let scales = vec![0; n * layout.row_groups(k)];
        HostMatrix { layout, n, k, words, scales }
    }

    /// Packs `values`, `[n][k]`, rounding to nearest.
    pub fn pack(layout: Layout, n: usize, k: usize, values: &[f32]) -> HostMatrix {
        assert_eq!(values.len(), n * k, "values are [n][k]");
        let mut matrix = HostMatrix::zeroed(layout, n, k);
        for (row, values) in values.chunks_exact(k).enumerate() {
            matrix.pack_row(row, values);
        }
        matrix
    }

    /// Replaces one row by `values`, `[k]`, rounding to nearest.
    pub fn pack_row(&mut self, row: usize, values: &[f32]) {
        assert_eq!(values.len(), self.k, "a row has k values");
        let row_words = self.layout.row_words(self.k);
        let words = &mut self.words[row * row_words..][..row_words];
        match self.layout {
            Layout::F32 => {
                for (word, value) in words.iter_mut().zip(values) {
                    *word = value.to_bits();
                }
            }
            Layout::F16 => pack_pairs(words, values, |value| f16::from_f32(value).to_bits()),
            Layout::Bf16 => pack_pairs(words, values, |value| bf16::from_f32(value).to_bits()),
            Layout::W8 { group } | Layout::W4 { group } => {
                let quantise = match self.layout {
                    Layout::W8 { .. } => quantise::bytes,
                    _ => quantise::nibbles,
                };
                let row_groups = self.layout.row_groups(self.k);
                let scales = &mut self.scales[row * row_groups..][..row_groups];
                let words = words.chunks_mut(group / self.layout.columns_per_word());
                for ((scale, words), values) in
                    scales.iter_mut().zip(words).zip(values.chunks(group))
                {
                    *scale = quantise(values, words);
                }
            }
        }
    }

    /// Writes the `k` weights of a row to `out`.
    pub fn dequantise_row(&self, row: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.k, "a row has k values");
        let row_words = self.layout.row_words(self.k);
        let words = &self.words[row * row_words..][..row_words];
        let per_word = self.layout.columns_per_word();
        match self.layout {
            Layout::F32 => {
                for (value, word) in out.iter_mut().zip(words) {
                    *value = f32::from_bits(*word);
                }
            }
            Layout::F16 => {
                for (values, word) in out.chunks_mut(per_word).zip(words) {
                    for (i, value) in values.iter_mut().enumerate() {
                        *value = f16::from_bits((word >> (16 * i)) as u16).to_f32();
                    }
                }
            }
            Layout::Bf16 => {
                for (values, word) in out.chunks_mut(per_word).zip(words) {
                    for (i, value) in values.iter_mut().enumerate() {
                        *value = bf16::from_bits((word >> (16 * i)) as u16).to_f32();
                    }
                }
            }
            Layout::W8 { group } | Layout::W4 { group } => {
                let row_groups = self.layout.row_groups(self.k);
                let scales = &self.scales[row * row_groups..][..row_groups];
                let words = words.chunks(group / per_word);
                for ((scale, words), values) in scales.iter().zip(words).zip(out.chunks_mut(group))
                {
                    let [scale, min] = unpack_halves(*scale);
                    for (word, values) in words.iter().zip(values.chunks_mut(per_word)) {
                        for (i, value) in values.iter_mut().enumerate() {
                            let q = match self.layout {
                                Layout::W8 { .. } => (word >> (8 * i)) as i8 as f32,
                                _ => (word >> (4 * i) & 15) as f32,
                            };
                            *value = scale * q + min;
                        }
                    }
                }
            }
        }
    }
}

/// Puts two binary16 numbers in a word, the first in the low half.
pub fn pack_halves(low: f16, high: f16) -> u32 {
    u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16
}

/// Reads the two binary16 numbers of a word, the low half first.
pub fn unpack_halves(word: u32) -> [f32; 2] {
    [f16::from_bits(word as u16).to_f32(), f16::from_bits((word >> 16) as u16).to_f32()]
}

fn pack_pairs(words: &mut [u32], values: &[f32], bits: impl Fn(f32) -> u16) {
    for (word, pair) in words.iter_mut().zip(values.chunks(2)) {
        let high = pair.get(1).map_or(0, |value| bits(*value));
        *word = u32::from(bits(pair[0])) | u32::from(high) << 16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(rng: &mut fastrand::Rng, count: usize) -> Vec<f32> {
        (0..count).map(|_| (rng.f32() - 0.5) * 0.2 + rng.f32().powi(6) * 0.3).collect()
    }

    fn round_trip(layout: Layout, n: usize, k: usize, values: &[f32]) -> (HostMatrix, Vec<f32>) {
        let matrix = HostMatrix::pack(layout, n, k, values);
        assert_eq!(matrix.words.len(), n * layout.row_words(k));
        assert_eq!(matrix.scales.len(), n * layout.row_groups(k));
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
    fn words_lie_where_the_contract_says() {
        // Two rows of 33 columns: a stride of 64, the second group all padding but one column.
        let (n, k) = (2, 33);
        let ramp: Vec<f32> = (0..n * k).map(|i| i as f32).collect();
        let (f16s, _) = round_trip(Layout::F16, n, k, &ramp);
        assert_eq!(f16s.words[32], 0x5040_5020, "33 and 34");
        assert_eq!(f16s.words[32 + 16] >> 16, 0, "column 33 is padding");

        // Multiples of a power of two on a grid of the group's own: exact in W8 and W4.
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
        // NMSE on normally distributed weights, computed by other means.
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
                // A scale below the smallest half, 2^-24, is lost.
                let bound = value.abs() / 254.0 + 127.0 / (1 << 25) as f32;
                assert!(back.iter().all(|x| (x - value).abs() <= bound), "{value} {layout:?}");
            }
        }
    }
}
