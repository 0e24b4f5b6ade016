// Counter-based random words: Philox4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011). The same counter and key always give the same words, on any device.

// High and low words of a * b.
fn wide_product(a: u32, b: u32) -> vec2<u32> {
    let a0 = a & 0xffffu;
    let a1 = a >> 16u;
    let b0 = b & 0xffffu;
    let b1 = b >> 16u;
    let mid = a1 * b0 + ((a0 * b0) >> 16u);
    let carry = (mid & 0xffffu) + a0 * b1;
    return vec2(a1 * b1 + (mid >> 16u) + (carry >> 16u), a * b);
}

fn philox(counter: vec4<u32>, seed: vec2<u32>) -> vec4<u32> {
    var c = counter;
    var key = seed;
    for (var round = 0u; round < 10u; round++) {
        let a = wide_product(0xd2511f53u, c.x);
        let b = wide_product(0xcd9e8d57u, c.z);
        c = vec4(b.x ^ c.y ^ key.x, b.y, a.x ^ c.w ^ key.y, a.y);
        key += vec2(0x9e3779b9u, 0xbb67ae85u);
    }
    return c;
}

// -ln(1 - u) for u = (bits + 1/2) / 2^32, to a relative error of about 1e-6 for every u: the smallest
// values decide which token wins, and the result is never 0 or infinite.
fn exponential(bits: u32) -> f32 {
    if (bits >= 0x80000000u) {
        return -log((f32(~bits) + 0.5) * 0x1p-32);
    }
    // -ln(1 - u) = 2 artanh(z)
    let u = (f32(bits) + 0.5) * 0x1p-32;
    let z = u / (2.0 - u);
    let s = z * z;
    return 2.0 * z * (1.0 + s * (1.0 / 3.0 + s * (1.0 / 5.0 + s * (1.0 / 7.0 + s * (1.0 / 9.0 + s / 11.0)))));
}

// Gumbel noise: the argmax of log-probabilities plus Gumbel noise is a sample.
fn gumbel(bits: u32) -> f32 {
    return -log(exponential(bits));
}
