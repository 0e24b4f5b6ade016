//! Nibbles that choose from a table: IQ4_NL, IQ4_XS, MXFP4.

use super::{half_at, nibble};

/// Of IQ4_NL and IQ4_XS.
const NON_LINEAR: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// Twice the numbers that have two bits of exponent and one of mantissa.
const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

pub(super) fn iq4_nl(block: &[u8], out: &mut [f32]) {
    look_up(&NON_LINEAR, half_at(block, 0), &block[2..], out);
}

/// 8 groups of 32, each with a scale of six bits.
pub(super) fn iq4_xs(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    let high_bits = u16::from_le_bytes([block[2], block[3]]);
    for (group, out) in out.chunks_mut(32).enumerate() {
        let low = block[4 + group / 2] >> (group % 2 * 4) & 15;
        let high = (high_bits >> (group * 2) & 3) as u8;
        let scale = scale * (f32::from(low | high << 4) - 32.0);
        look_up(&NON_LINEAR, scale, &block[8 + group * 16..], out);
    }
}

/// The scale is a power of two by its exponent; half of it makes up for the doubled table.
pub(super) fn mxfp4(block: &[u8], out: &mut [f32]) {
    let exponent = u32::from(block[0]);
    let bits = if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 };
    look_up(&E2M1, f32::from_bits(bits), &block[1..], out);
}

fn look_up(table: &[i8; 16], scale: f32, nibbles: &[u8], out: &mut [f32]) {
    for (j, value) in out.iter_mut().enumerate() {
        *value = scale * f32::from(table[usize::from(nibble(nibbles, j))]);
    }
}
