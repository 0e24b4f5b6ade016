//! Counter-based random numbers: the CPU version of `shaders/include/noise.wgsl`.

/// Philox4x32 with 10 rounds: four random words from a counter and a key.
///
/// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut x, mut y, mut z, mut w], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let (a, b) = (0xD251_1F53 * u64::from(x), 0xCD9E_8D57 * u64::from(z));
        [x, y, z, w] = [(b >> 32) as u32 ^ y ^ k0, b as u32, (a >> 32) as u32 ^ w ^ k1, a as u32];
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    [x, y, z, w]
}

/// Gumbel noise from 32 random bits: the argmax of log-probabilities plus Gumbel noise is a sample.
pub fn gumbel(bits: u32) -> f32 {
    -exponential(bits).ln()
}

/// −ln(1 − u) for u = (bits + ½) / 2³², accurate for small u and never 0 or infinite.
fn exponential(bits: u32) -> f32 {
    const UNIT: f32 = 1.0 / 4_294_967_296.0;
    if bits >= 1 << 31 {
        return -((!bits as f32 + 0.5) * UNIT).ln();
    }
    // -ln(1 - u) = 2 artanh(z)
    let u = (bits as f32 + 0.5) * UNIT;
    let z = u / (2.0 - u);
    let s = z * z;
    let tail = 1.0 / 5.0 + s * (1.0 / 7.0 + s * (1.0 / 9.0 + s / 11.0));
    2.0 * z * (1.0 + s * (1.0 / 3.0 + s * tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the known-answer file of the authors' Random123 library.
    #[test]
    fn philox_gives_the_published_words() {
        let answers = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([!0; 4], [!0; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, words) in answers {
            assert_eq!(philox(counter, key), words);
        }
    }

    #[test]
    fn gumbel_noise_is_accurate_and_finite_at_every_end() {
        let edges = [0, 1, 2, 1 << 20, (1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX];
        let middle = (0..1000).map(|i| i * 4_294_967);
        for bits in edges.into_iter().chain(middle) {
            let u = (f64::from(bits) + 0.5) / 4_294_967_296.0;
            let exact = -(-(-u).ln_1p()).ln();
            let found = f64::from(gumbel(bits));
            assert!((found - exact).abs() < 2e-6 * exact.abs().max(1.0), "{bits}: {found} {exact}");
        }
    }
}
