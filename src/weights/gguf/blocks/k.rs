//! 256 elements in groups, whose scales are small integers times a half: Q2_K to Q6_K.

use super::half_at;

/// 16 groups of 16: scale and min in the nibbles of a byte. Bits 2s and 2s + 1 of 32 bytes are 32
/// elements, s counting up.
pub(super) fn q2(block: &[u8], out: &mut [f32]) {
    let (scales, quants) = (&block[..16], &block[16..80]);
    let (scale, min) = (half_at(block, 80), half_at(block, 82));
    for (group, out) in out.chunks_mut(16).enumerate() {
        let quants = &quants[group / 8 * 32 + group % 2 * 16..];
        let shift = group % 8 / 2 * 2;
        let scale = scale * f32::from(scales[group] & 15);
        let min = min * f32::from(scales[group] >> 4);
        for (value, q) in out.iter_mut().zip(quants) {
            *value = scale * f32::from(q >> shift & 3) - min;
        }
    }
}

/// 16 groups of 16 like those of [`q2`], each with a scale of six bits. The third bit of an element
/// is in a mask; where it is missing, 4 is to be subtracted.
pub(super) fn q3(block: &[u8], out: &mut [f32]) {
    let (mask, quants, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let scale = half_at(block, 108);
    for (group, out) in out.chunks_mut(16).enumerate() {
        let low = if group < 8 { scales[group] & 15 } else { scales[group - 8] >> 4 };
        let high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
        let scale = scale * (f32::from(low | high << 4) - 32.0);
        let quants = &quants[group / 8 * 32 + group % 2 * 16..];
        let shift = group % 8 / 2 * 2;
        let bit = group / 8 * 4 + group % 8 / 2;
        for ((value, q), mask) in out.iter_mut().zip(quants).zip(&mask[group % 2 * 16..]) {
            let third = mask >> bit & 1;
            *value = scale * (f32::from(q >> shift & 3 | third << 2) - 4.0);
        }
    }
}

/// 8 groups of 32, of which two share 32 bytes.
pub(super) fn q4(block: &[u8], out: &mut [f32]) {
    for (group, out) in out.chunks_mut(32).enumerate() {
        let (scale, min) = scale_and_min(block, group);
        for (value, q) in out.iter_mut().zip(&block[16 + group / 2 * 32..]) {
            *value = scale * f32::from(q >> (group % 2 * 4) & 15) - min;
        }
    }
}

/// Like [`q4`], with fifth bits before the nibbles.
pub(super) fn q5(block: &[u8], out: &mut [f32]) {
    for (group, out) in out.chunks_mut(32).enumerate() {
        let (scale, min) = scale_and_min(block, group);
        let nibbles = &block[48 + group / 2 * 32..];
        for ((value, q), fifth) in out.iter_mut().zip(nibbles).zip(&block[16..48]) {
            let q = q >> (group % 2 * 4) & 15 | (fifth >> group & 1) << 4;
            *value = scale * f32::from(q) - min;
        }
    }
}

/// 16 groups of 16, each with a signed byte as its scale.
pub(super) fn q6(block: &[u8], out: &mut [f32]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let scale = half_at(block, 208);
    for (group, out) in out.chunks_mut(16).enumerate() {
        // A half of the block is four runs of 32; two of them share the bytes of `low`.
        let (half, run) = (group / 8, group % 8 / 2);
        let at = group % 2 * 16;
        let low = &low[half * 64 + run % 2 * 32 + at..];
        let high = &high[half * 32 + at..];
        let scale = scale * f32::from(scales[group] as i8);
        for ((value, low), high) in out.iter_mut().zip(low).zip(high) {
            let q = low >> (run / 2 * 4) & 15 | (high >> (run * 2) & 3) << 4;
            *value = scale * (f32::from(q) - 32.0);
        }
    }
}

/// Scale and min of a group of [`q4`] and [`q5`]: integers of six bits times two halves.
pub(super) fn scale_and_min(block: &[u8], group: usize) -> (f32, f32) {
    let packed = &block[4..16];
    let (scale, min) = if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        let (scale, min) = (packed[group - 4] >> 6, packed[group] >> 6);
        (packed[group + 4] & 15 | scale << 4, packed[group + 4] >> 4 | min << 4)
    };
    (half_at(block, 0) * f32::from(scale), half_at(block, 2) * f32::from(min))
}
