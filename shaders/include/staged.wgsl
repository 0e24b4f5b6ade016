// Reads and writes the numbers of checkpoints. `staged` holds them as in the file, row after row
// without padding.
struct Rows {
    source: u32,
    row: u32,
    rows: u32,
    columns: u32,
    stride: u32,
    interleaved: u32,
    staged: u32,
    first_column: u32,
    width: u32,
}

// The staged index of output row i.
fn staged_row(i: u32) -> u32 {
    if job.interleaved == 0u { return job.source + i; }
    let half = job.interleaved / 2u;
    let in_head = i % job.interleaved;
    return job.source + i - in_head + in_head % half * 2u + in_head / half;
}
{% if from == "f32" %}
fn number(i: u32) -> f32 { return bitcast<f32>(staged[i]); }
{% elif from == "f16" %}
fn number(i: u32) -> f32 { return unpack2x16float(staged[i / 2u])[i % 2u]; }
{% elif from == "bf16" %}
fn number(i: u32) -> f32 { return bitcast<f32>((staged[i / 2u] >> (16u * (i % 2u))) << 16u); }
{% elif from == "exponents" %}
// A power of two from its exponent; the smallest one is subnormal.
fn number(i: u32) -> f32 {
    let exponent = (staged[i / 4u] >> (8u * (i % 4u))) & 255u;
    return bitcast<f32>(max(exponent << 23u, 1u << 22u));
}
{% endif %}
// The bits of a bfloat16, rounded to nearest, ties to even.
fn brain_bits(value: f32) -> u32 {
    let bits = bitcast<u32>(value);
    if (bits & 0x7fffffffu) > 0x7f800000u { return (bits >> 16u) | 0x40u; } // not a number
    return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}

// Rounded to nearest, ties to even; the adapter's own conversion may round otherwise.
fn half_bits(value: f32) -> u32 {
    let bits = bitcast<u32>(value);
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    if magnitude > 0x7f800000u { return sign | 0x7e00u; } // not a number
    if magnitude >= 0x477ff000u { return sign | 0x7c00u; } // past the greatest half: infinite
    if magnitude < 0x38800000u {
        // Subnormal: a multiple of 2^-24, which is the last bit of a float in 0.5 .. 1.
        return sign | (bitcast<u32>(bitcast<f32>(magnitude) + 0.5) - 0x3f000000u);
    }
    let odd = (magnitude >> 13u) & 1u;
    return sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13u);
}

fn half_value(bits: u32) -> f32 { return unpack2x16float(bits).x; }
