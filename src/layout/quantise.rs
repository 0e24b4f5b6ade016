//! Round-to-nearest quantisation of one group of columns.

use super::{pack_halves, unpack_halves};
use half::f16;

/// Number of ranges tried for a group, in steps of [`STEP`].
pub const CANDIDATES: usize = 9;
/// Each range is narrower than the one before by this share of the full range.
pub const STEP: f32 = 0.025;

/// Packs a group into `words` of eight nibbles; returns the (scale, min) word from [`search`].
pub fn nibbles(values: &[f32], words: &mut [u32]) -> u32 {
    let halves = |scale, min| pack_halves(f16::from_f32(scale), f16::from_f32(min));
    let pair = search(values, range(values), halves);
    let [scale, min] = unpack_halves(pair);
    let inverse = inverse(scale);
    for (word, values) in words.iter_mut().zip(values.chunks(8)) {
        *word = (0..)
            .zip(values)
            .fold(0, |word, (i, value)| word | (nibble(*value, inverse, min) as u32) << (4 * i));
    }
    pair
}

/// The smallest and the largest value.
pub fn range(values: &[f32]) -> [f32; 2] {
    let low = values.iter().copied().fold(f32::INFINITY, f32::min);
    let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    [low, high]
}

/// The (scale, min) word for nibbles with the least squared error.
///
/// Tries the range low .. high and ever narrower ranges around the same middle, each first made a word
/// of two halves by `round`; of equals, the widest wins. Candidate i has scale = (high − low)·(1 −
/// i·STEP) / 15 and min = low + (high − low)·i·STEP / 2.
pub fn search(values: &[f32], [low, high]: [f32; 2], round: impl Fn(f32, f32) -> u32) -> u32 {
    let range = high - low;
    let mut best = (f32::INFINITY, 0);
    for i in 0..CANDIDATES {
        let cut = i as f32 * STEP;
        let pair = round(range * (1.0 - cut) / 15.0, low + range * cut / 2.0);
        let error = squared_error(values, pair);
        if i == 0 || error < best.0 {
            best = (error, pair);
        }
    }
    best.1
}

/// Packs a group into `words` of four signed bytes; returns its (scale, 0) word.
///
/// The scale is the largest magnitude / 127, rounded to f16.
pub fn bytes(values: &[f32], words: &mut [u32]) -> u32 {
    let scale = f16::from_f32(byte_scale(values));
    let inverse = inverse(scale.to_f32());
    for (word, values) in words.iter_mut().zip(values.chunks(4)) {
        *word = (0..).zip(values).fold(0, |word, (i, value)| {
            word | u32::from(byte(*value, inverse) as i8 as u8) << (8 * i)
        });
    }
    pack_halves(scale, f16::ZERO)
}

/// The scale that maps the largest magnitude to 127.
pub fn byte_scale(values: &[f32]) -> f32 {
    values.iter().fold(0f32, |peak, value| peak.max(value.abs())) / 127.0
}

/// The q of a value, a signed byte, given 1 / scale.
pub fn byte(value: f32, inverse: f32) -> f32 {
    (value * inverse).round_ties_even().clamp(-127.0, 127.0)
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

/// The q of a value, an unsigned nibble, given 1 / scale.
pub fn nibble(value: f32, inverse: f32, min: f32) -> f32 {
    ((value - min) * inverse).round_ties_even().clamp(0.0, 15.0)
}

/// 1 / scale; 0 for scale 0, so that its group quantises to q = 0.
pub fn inverse(scale: f32) -> f32 {
    if scale > 0.0 { 1.0 / scale } else { 0.0 }
}
