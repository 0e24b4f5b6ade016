//! Round to nearest, with the codes of compressed-tensors.

use half::{bf16, f16};
use rayon::prelude::*;
use tabloom::layout::{FloatType, HostMatrix, Layout, pack_halves, quantise, unpack_halves};

use super::dense::Dense;

/// The format of codes q: a weight is scale · (q − zero), with a scale and optional zero per group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// 4 or 8.
    pub bits: usize,
    /// Columns that share a scale: 32, 64 or 128.
    pub group: usize,
    /// Whether the zero is constant: 8 for nibbles, 0 for bytes.
    pub symmetric: bool,
    /// Number type of the scales in the file.
    pub scales: FloatType,
}

/// Scale and zero of a group of columns in a row.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// (scale, −zero · scale) as in [`tabloom::layout`].
    pub pair: u32,
    scale: f32,
    min: f32,
    inverse: f32,
    bits: usize,
}

impl Format {
    /// Tabloom's layout of these codes.
    pub fn layout(&self) -> Layout {
        match self.bits {
            8 => Layout::W8 { group: self.group },
            _ => Layout::W4 { group: self.group },
        }
    }

    /// Whether groups have zeros.
    pub fn has_zeros(&self) -> bool {
        self.bits == 4 && !self.symmetric
    }

    /// Bits per weight, scales and zeros included.
    pub fn bits_per_weight(&self) -> f64 {
        let zero = if self.has_zeros() { 4 } else { 0 };
        self.bits as f64 + (8 * self.scales.bytes() + zero) as f64 / self.group as f64
    }

    /// Chooses scale and zero for the values of a group, as quantisation at load time does.
    pub fn fit(&self, values: &[f32]) -> Group {
        let pair = if self.bits == 8 {
            let scale = self.round(quantise::byte_scale(values));
            pack_halves(f16::from_f32(scale), f16::ZERO)
        } else if self.symmetric {
            let [low, high] = quantise::range(values);
            let peak = high.max(-low);
            quantise::search(values, [-peak, peak], |scale, _| self.pair(scale, 8.0))
        } else {
            // 0 must have an exact code, so the range must include it.
            let [low, high] = quantise::range(values);
            quantise::search(values, [low.min(0.0), high.max(0.0)], |scale, min| {
                let zero = (-min * quantise::inverse(scale)).round_ties_even();
                self.pair(scale, zero.clamp(0.0, 15.0))
            })
        };
        let [scale, min] = unpack_halves(pair);
        Group { pair, scale, min, inverse: quantise::inverse(scale), bits: self.bits }
    }

    /// The packed pair of a rounded scale and a zero, for nibbles.
    fn pair(&self, scale: f32, zero: f32) -> u32 {
        let scale = self.round(scale);
        // The memory layout has −0 for the zero 0; clamping may return either.
        pack_halves(f16::from_f32(scale), f16::from_f32(-zero.abs() * scale))
    }

    /// Rounds a scale to a value that both the file and the memory layout can store.
    fn round(&self, scale: f32) -> f32 {
        let half = f16::from_f32(scale).to_f32();
        match self.scales {
            FloatType::Bf16 => bf16::from_f32(half).to_f32(),
            FloatType::F16 | FloatType::F32 => half,
        }
    }
}

impl Group {
    /// The nearest code to a value, as bits in a word, and its value.
    pub fn round(&self, value: f32) -> (u32, f32) {
        let q = match self.bits {
            8 => quantise::byte(value, self.inverse),
            _ => quantise::nibble(value, self.inverse, self.min),
        };
        let bits = if self.bits == 8 { u32::from(q as i8 as u8) } else { q as u32 };
        (bits, self.scale * q + self.min)
    }

    /// The code of the value 0.
    pub fn zero(pair: u32) -> u32 {
        let [scale, min] = unpack_halves(pair);
        (-min * quantise::inverse(scale)).round_ties_even() as u32
    }
}

/// Rounds each weight to the nearest code of its group.
pub fn quantise(format: &Format, matrix: &Dense) -> HostMatrix {
    let mut rounded = HostMatrix::zeroed(format.layout(), matrix.n, matrix.k);
    let rows = rows_mut(&mut rounded, 1).zip(matrix.values.par_chunks_exact(matrix.k));
    rows.for_each(|((words, scales), values)| {
        for (i, (scale, values)) in scales.iter_mut().zip(values.chunks(format.group)).enumerate() {
            let group = format.fit(values);
            *scale = group.pair;
            for (column, value) in (i * format.group..).zip(values) {
                put(words, format.bits, column, group.round(*value).0);
            }
        }
    });
    rounded
}

/// Words and scales of a matrix in chunks of rows.
pub fn rows_mut(
    matrix: &mut HostMatrix,
    rows: usize,
) -> impl IndexedParallelIterator<Item = (&mut [u32], &mut [u32])> {
    let (words, scales) = (matrix.layout.row_words(matrix.k), matrix.layout.row_scales(matrix.k));
    matrix.words.par_chunks_mut(rows * words).zip(matrix.scales.par_chunks_mut(rows * scales))
}

/// Sets the code of a column in a row; its bits must be 0 before.
pub fn put(words: &mut [u32], bits: usize, column: usize, code: u32) {
    words[column * bits / 32] |= code << (column * bits % 32);
}
