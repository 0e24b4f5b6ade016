//! Weight matrices in host memory.

use super::{BLOCK, Codebook, Layout, quantise, unpack_halves};
use half::{bf16, f16};

/// A weight matrix in host memory, with the same bits as on the GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct HostMatrix {
    pub layout: Layout,
    pub n: usize,
    pub k: usize,
    /// `[n][layout.row_words(k)]`
    pub words: Vec<u32>,
    /// `[n][layout.row_scales(k)]`
    pub scales: Vec<u32>,
}

impl HostMatrix {
    /// Makes a matrix whose words are all zero.
    pub fn zeroed(layout: Layout, n: usize, k: usize) -> HostMatrix {
        let words = vec![0; n * layout.row_words(k)];
        let scales = vec![0; n * layout.row_scales(k)];
        HostMatrix { layout, n, k, words, scales }
    }

    /// Packs `values`, `[n][k]`, as [`HostMatrix::pack_row`] does.
    pub fn pack(layout: Layout, n: usize, k: usize, values: &[f32]) -> HostMatrix {
        assert_eq!(values.len(), n * k, "values are [n][k]");
        let mut matrix = HostMatrix::zeroed(layout, n, k);
        for (row, values) in values.chunks_exact(k).enumerate() {
            matrix.pack_row(row, values);
        }
        matrix
    }

    /// Replaces one row by `values`, `[k]`, rounding to nearest.
    ///
    /// # Panics
    /// In layouts that are neither floats nor [quantised to](Layout::quantised_group).
    pub fn pack_row(&mut self, row: usize, values: &[f32]) {
        assert_eq!(values.len(), self.k, "a row has k values");
        self.pack_columns(row, 0, values);
    }

    /// The same for the columns from `first` on, which must start a group and a word.
    pub fn pack_columns(&mut self, row: usize, first: usize, values: &[f32]) {
        let layout = self.layout;
        let (words, scales) = self.row_mut(row);
        let words = &mut words[first / layout.columns_per_word()..];
        let scales = &mut scales[layout.group().map_or(0, |group| first / group)..];
        let mut quantise = |group: usize, quantise: fn(&[f32], &mut [u32]) -> u32| {
            let words = words.chunks_mut(group / layout.columns_per_word());
            for ((scale, words), values) in scales.iter_mut().zip(words).zip(values.chunks(group)) {
                *scale = quantise(values, words);
            }
        };
        match layout {
            Layout::W8 { group } => quantise(group, quantise::bytes),
            Layout::W4 { group } => quantise(group, quantise::nibbles),
            Layout::F32 => {
                for (word, value) in words.iter_mut().zip(values) {
                    *word = value.to_bits();
                }
            }
            Layout::F16 => pack_pairs(words, values, |value| f16::from_f32(value).to_bits()),
            Layout::Bf16 => pack_pairs(words, values, |value| bf16::from_f32(value).to_bits()),
            _ => panic!("numbers are not quantised to {layout:?}"),
        }
    }

    /// Cuts off the rows from `row` on.
    pub fn split_off(&mut self, row: usize) -> HostMatrix {
        let HostMatrix { layout, n, k, .. } = *self;
        self.n = row;
        HostMatrix {
            layout,
            n: n - row,
            k,
            words: self.words.split_off(row * layout.row_words(k)),
            scales: self.scales.split_off(row * layout.row_scales(k)),
        }
    }

    /// The words and the scales of a row.
    pub fn row_mut(&mut self, row: usize) -> (&mut [u32], &mut [u32]) {
        let row_words = self.layout.row_words(self.k);
        let row_scales = self.layout.row_scales(self.k);
        (
            &mut self.words[row * row_words..][..row_words],
            &mut self.scales[row * row_scales..][..row_scales],
        )
    }

    /// Writes the `k` weights of a row to `out`.
    pub fn dequantise_row(&self, row: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.k, "a row has k values");
        let row_words = self.layout.row_words(self.k);
        let words = &self.words[row * row_words..][..row_words];
        let row_scales = self.layout.row_scales(self.k);
        let scales = &self.scales[row * row_scales..][..row_scales];
        match self.layout {
            Layout::F32 => {
                for (value, word) in out.iter_mut().zip(words) {
                    *value = f32::from_bits(*word);
                }
            }
            Layout::F16 => codes(words, out, 16, |bits| f16::from_bits(bits as u16).to_f32()),
            Layout::Bf16 => codes(words, out, 16, |bits| bf16::from_bits(bits as u16).to_f32()),
            Layout::F8 { group } => affine(words, scales, out, group, 8, e4m3),
            Layout::W8 { group } => affine(words, scales, out, group, 8, |q| f32::from(q as i8)),
            Layout::W4 { group } => affine(words, scales, out, group, 4, |q| (q & 15) as f32),
            Layout::Codebook { codebook, group } => looked_up(words, scales, out, codebook, group),
            Layout::W5 => five_bits(words, scales, out),
            Layout::W6 => blocks(words, scales, out, 4, 2, |byte, q| {
                (f32::from(byte as i8), q as f32 - 32.0, 0.0)
            }),
            Layout::W3 => blocks(words, scales, out, 2, 1, |byte, q| {
                (f32::from(byte as i8), q as f32 - 4.0, 0.0)
            }),
            Layout::W2 => blocks(words, scales, out, 2, 0, |byte, q| {
                (f32::from(byte & 15), q as f32, f32::from(byte >> 4))
            }),
        }
    }
}

/// Takes `bits` bits at a time from `words`; `decode` must ignore higher bits.
fn codes(words: &[u32], out: &mut [f32], bits: usize, decode: impl Fn(u32) -> f32) {
    for (word, values) in words.iter().zip(out.chunks_mut(32 / bits)) {
        for (i, value) in values.iter_mut().enumerate() {
            *value = decode(word >> (bits * i));
        }
    }
}

/// scale·q + min, group by group.
fn affine(
    words: &[u32],
    scales: &[u32],
    out: &mut [f32],
    group: usize,
    bits: usize,
    decode: impl Fn(u32) -> f32,
) {
    let words = words.chunks(group * bits / 32);
    for ((pair, words), values) in scales.iter().zip(words).zip(out.chunks_mut(group)) {
        let [scale, min] = unpack_halves(*pair);
        codes(words, values, bits, |q| scale * decode(q) + min);
    }
}

fn looked_up(words: &[u32], scales: &[u32], out: &mut [f32], codebook: Codebook, group: usize) {
    let values = codebook.values();
    let scales = scales.iter().flat_map(|word| [*word, word >> 16]);
    for ((scale, words), out) in scales.zip(words.chunks(group / 8)).zip(out.chunks_mut(group)) {
        let scale = codebook.scale(scale as u16);
        codes(words, out, 4, |q| scale * values[(q & 15) as usize]);
    }
}

fn five_bits(words: &[u32], scales: &[u32], out: &mut [f32]) {
    let records = scales.as_chunks::<2>().0.iter();
    for (([pair, high], words), values) in records.zip(words.chunks(4)).zip(out.chunks_mut(32)) {
        let [scale, min] = unpack_halves(*pair);
        for (c, value) in values.iter_mut().enumerate() {
            let q = words[c / 8] >> (c % 8 * 4) & 15 | (high >> c & 1) << 4;
            *value = scale * q as f32 + min;
        }
    }
}

/// d·factor·q − m·offset, where `decode` returns (factor, q, offset) for a byte and q.
fn blocks(
    words: &[u32],
    scales: &[u32],
    out: &mut [f32],
    low_bits: usize,
    high_bits: usize,
    decode: impl Fn(u8, u32) -> (f32, f32, f32),
) {
    let bits = |words: &[u32], bits: usize, c: usize| match bits {
        0 => 0,
        _ => words[c * bits / 32] >> (c * bits % 32) & ((1 << bits) - 1),
    };
    let words = words.chunks(BLOCK * low_bits / 32);
    let records = scales.chunks(5 + BLOCK * high_bits / 32);
    for ((record, words), values) in records.zip(words).zip(out.chunks_mut(BLOCK)) {
        let [d, m] = unpack_halves(record[0]);
        let (bytes, high) = record[1..].split_at(4);
        for (c, value) in values.iter_mut().enumerate() {
            let byte = bytes[c / 64] >> (c / 16 % 4 * 8);
            let q = bits(words, low_bits, c) | bits(high, high_bits, c) << low_bits;
            let (factor, q, offset) = decode(byte as u8, q);
            *value = d * factor * q - m * offset;
        }
    }
}

/// The value of the low byte of `bits` (E4M3): an f16 with an exponent that is 8 less.
fn e4m3(bits: u32) -> f32 {
    let half = (bits & 0x80) << 8 | (bits & 0x7f) << 7;
    f16::from_bits(half as u16).to_f32() * 256.0
}

fn pack_pairs(words: &mut [u32], values: &[f32], bits: impl Fn(f32) -> u16) {
    for (word, pair) in words.iter_mut().zip(values.chunks(2)) {
        let high = pair.get(1).map_or(0, |value| bits(*value));
        *word = u32::from(bits(pair[0])) | u32::from(high) << 16;
    }
}
