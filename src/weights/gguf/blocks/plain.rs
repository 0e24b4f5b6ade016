//! 32 elements with one scale, and at most one min: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

use super::{half_at, nibble};

pub(super) fn q4_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    for (j, value) in out.iter_mut().enumerate() {
        *value = (f32::from(nibble(&block[2..], j)) - 8.0) * scale;
    }
}

pub(super) fn q4_1(block: &[u8], out: &mut [f32]) {
    let (scale, min) = (half_at(block, 0), half_at(block, 2));
    for (j, value) in out.iter_mut().enumerate() {
        *value = f32::from(nibble(&block[4..], j)) * scale + min;
    }
}

pub(super) fn q5_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    for (j, value) in out.iter_mut().enumerate() {
        *value = (f32::from(five_bits(&block[2..], j)) - 16.0) * scale;
    }
}

pub(super) fn q5_1(block: &[u8], out: &mut [f32]) {
    let (scale, min) = (half_at(block, 0), half_at(block, 2));
    for (j, value) in out.iter_mut().enumerate() {
        *value = f32::from(five_bits(&block[4..], j)) * scale + min;
    }
}

pub(super) fn q8_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    for (value, q) in out.iter_mut().zip(&block[2..]) {
        *value = f32::from(*q as i8) * scale;
    }
}

/// Element `j` of 32 fifth bits in 4 bytes, and the nibbles behind them.
fn five_bits(bytes: &[u8], j: usize) -> u8 {
    nibble(&bytes[4..], j) | (bytes[j / 8] >> (j % 8) & 1) << 4
}
