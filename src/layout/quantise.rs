//! Round-to-nearest quantisation of one group of columns.

use super::{pack_halves, unpack_halves};
use half::f16;

/// Widths tried for a group, as shares of its range in steps of [`STEP`].
pub const CANDIDATES: usize = 9;
pub const STEP: f32 = 0.025;

/// Packs a group into `words` of eight nibbles; returns its (scale, min) word.
///
/// Tries the range of the values and ranges ever narrower about the same
/// middle, each rounded to halves first, and keeps the one with the least
/// squared error; of equals, the widest. Candidate i has
/// scale = (high − low)·(1 − i·STEP) / 15 and min = low + (high − low)·i·STEP / 2.
pub fn nibbles(values: &[f32], words: &mut [u32]) -> u32 {
    let low = values.iter().copied().fold(f32::INFINITY, f32::min);
    let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let range = high - low;
    let mut best = (f32::INFINITY, 0);
    for i in 0..CANDIDATES {
        let cut = i as f32 * STEP;
        let scale = f16::from_f32(range * (1.0 - cut) / 15.0);
        let min = f16::from_f32(low + range * cut / 2.0);
        let pair = pack_halves(scale, min);
        let error = squared_error(values, pair);
        if i == 0 || error < best.0 {
            best = (error, pair);
        }
    }
    let [scale, min] = unpack_halves(best.1);
    let inverse = inverse(scale);
    for (word, values) in words.iter_mut().zip(values.chunks(8)) {
        *word = (0..)
            .zip(values)
            .fold(0, |word, (i, value)| word | (nibble(*value, inverse, min) as u32) << (4 * i));
    }
    best.1
}

/// Packs a group into `words` of four signed bytes; returns its (scale, 0) word.
///
/// The scale is the greatest magnitude / 127, rounded to a half.
pub fn bytes(values: &[f32], words: &mut [u32]) -> u32 {
    let peak = values.iter().fold(0f32, |peak, value| peak.max(value.abs()));
    let scale = f16::from_f32(peak / 127.0);
    let inverse = inverse(scale.to_f32());
    for (word, values) in words.iter_mut().zip(values.chunks(4)) {
        *word = (0..).zip(values).fold(0, |word, (i, value)| {
            let q = (value * inverse).round_ties_even().clamp(-127.0, 127.0) as i8;
            word | u32::from(q as u8) << (8 * i)
        });
    }
    pack_halves(scale, f16::ZERO)
}

fn squared_error(values: &[f32], pair: u32) -> f32 {
    let [scale, min] = unpack_halves(pair);
    let inverse = inverse(scale);
    values
        .iter()
        .map(|value| {
            let error = value - (scale * nibble(*value, inverse, min) + min);
            error * error
        })
        .sum()
}

fn nibble(value: f32, inverse: f32, min: f32) -> f32 {
    ((value - min) * inverse).round_ties_even().clamp(0.0, 15.0)
}

/// 1 / scale; 0 where a scale is 0, so that its group quantises to q = 0.
fn inverse(scale: f32) -> f32 {
    if scale > 0.0 { 1.0 / scale } else { 0.0 }
}
