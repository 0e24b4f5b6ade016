{#- The numbers of quantised blocks of {{ block.bytes }} bytes, which begin at any byte. -#}
{% if block %}
const ELEMENTS = {{ block.elements }}u;
const BYTES = {{ block.bytes }}u;

fn byte(at: u32) -> u32 { return (staged[at / 4u] >> (8u * (at % 4u))) & 255u; }

fn half_bits_at(at: u32) -> u32 { return byte(at) | (byte(at + 1u) << 8u); }

fn half_at(at: u32) -> f32 { return half_value(half_bits_at(at)); }

// Element j of 32 nibbles in 16 bytes: the low nibbles are the first half, the high ones the second.
fn nibble(at: u32, j: u32) -> u32 { return (byte(at + j % 16u) >> (4u * (j / 16u))) & 15u; }

// The lowest byte as a signed number.
fn signed(bits: u32) -> f32 { return f32(bitcast<i32>(bits << 24u) >> 24u); }

{%- set legacy = {"Q4_0": 2, "Q4_1": 4, "Q5_0": 2, "Q5_1": 4, "IQ4_NL": 2, "MXFP4": 1} %}

// The code of element j of a block.
fn code(block: u32, j: u32) -> u32 {
{%- if from in ["Q4_0", "Q4_1", "IQ4_NL", "MXFP4"] %}
    return nibble(block + {{ legacy[from] }}u, j);
{%- elif from in ["Q5_0", "Q5_1"] %}
    let fifths = block + {{ legacy[from] }}u;
    return nibble(fifths + 4u, j) | (((byte(fifths + j / 8u) >> (j % 8u)) & 1u) << 4u);
{%- elif from == "Q8_0" %}
    return byte(block + 2u + j);
{%- elif from == "IQ4_XS" %}
    return nibble(block + 8u + j / 32u * 16u, j % 32u);
{%- elif from in ["Q4_K", "Q5_K"] %}
    let low = byte(block + {{ block.bytes - 128 }}u + j / 64u * 32u + j % 32u);
    let q = (low >> (j / 32u % 2u * 4u)) & 15u;
{%- if from == "Q5_K" %}
    return q | (((byte(block + 16u + j % 32u) >> (j / 32u)) & 1u) << 4u);
{%- else %}
    return q;
{%- endif %}
{%- elif from == "Q6_K" %}
    // Half of the block is four runs of 32; two of them share the bytes of low nibbles.
    let part = j / 128u;
    let run = j / 32u % 4u;
    let low = byte(block + part * 64u + run % 2u * 32u + j % 32u) >> (run / 2u * 4u);
    let high = byte(block + 128u + part * 32u + j % 32u) >> (run * 2u);
    return (low & 15u) | ((high & 3u) << 4u);
{%- else %}
{%- set quants = 32 if from == "Q3_K" else 16 %}
    let low = byte(block + {{ quants }}u + j / 128u * 32u + j % 32u) >> (j / 32u % 4u * 2u);
{%- if from == "Q3_K" %}
    return (low & 3u) | (((byte(block + j % 32u) >> (j / 32u)) & 1u) << 2u);
{%- else %}
    return low & 3u;
{%- endif %}
{%- endif %}
}
{%- if block.halves %}

// Two f16 for the block, and the byte of each 16 elements.
fn halves_of(block: u32) -> u32 {
{%- if from == "Q2_K" %}
    return half_bits_at(block + 80u) | (half_bits_at(block + 82u) << 16u);
{%- else %}
    return half_bits_at(block + {{ block.halves }}u);
{%- endif %}
}

fn byte_of(block: u32, group: u32) -> u32 {
{%- if from == "Q2_K" %}
    return byte(block + group);
{%- elif from == "Q3_K" %}
    let low = (byte(block + 96u + group % 8u) >> (group / 8u * 4u)) & 15u;
    let high = (byte(block + 104u + group % 4u) >> (group / 4u * 2u)) & 3u;
    return ((low | (high << 4u)) - 32u) & 255u;
{%- else %}
    return byte(block + 192u + group);
{%- endif %}
}

fn number(i: u32) -> f32 {
    let block = i / ELEMENTS * BYTES;
    let j = i % ELEMENTS;
    let q = f32(code(block, j));
    let halves = unpack2x16float(halves_of(block));
    let factor = byte_of(block, j / 16u);
{%- if from == "Q2_K" %}
    return halves.x * f32(factor & 15u) * q - halves.y * f32(factor >> 4u);
{%- else %}
    return halves.x * signed(factor) * (q - {{ 4 if from == "Q3_K" else 32 }}.0);
{%- endif %}
}
{%- else %}

// Scale and min of 32 elements.
fn pair_of(block: u32, group: u32) -> vec2<f32> {
{%- if from in ["Q4_0", "Q5_0"] %}
    let scale = half_at(block);
    return vec2(scale, {{ -8 if from == "Q4_0" else -16 }}.0 * scale);
{%- elif from in ["Q4_1", "Q5_1"] %}
    return vec2(half_at(block), half_at(block + 2u));
{%- elif from in ["Q4_K", "Q5_K"] %}
    // Six-bit integers times two f16.
    let at = block + 4u;
    var factors = vec2(byte(at + group % 4u), byte(at + 4u + group % 4u));
    if group < 4u {
        factors &= vec2(63u);
    } else {
        let low = byte(at + 4u + group);
        factors = vec2(low & 15u, low >> 4u) | ((factors >> vec2(6u)) << vec2(4u));
    }
    return vec2<f32>(factors) * vec2(half_at(block), -half_at(block + 2u));
{%- elif from == "IQ4_XS" %}
    let low = (byte(block + 4u + group / 2u) >> (group % 2u * 4u)) & 15u;
    let high = (half_bits_at(block + 2u) >> (group * 2u)) & 3u;
    return vec2(half_at(block) * (f32(low | (high << 4u)) - 32.0), 0.0);
{%- elif from == "MXFP4" %}
    // A power of two from its exponent; the smallest one is subnormal.
    return vec2(bitcast<f32>(max(byte(block) << 23u, 1u << 22u)), 0.0);
{%- else %}
    return vec2(half_at(block), 0.0);
{%- endif %}
}
{%- if block.values %}

const CODEBOOK = array<f32, 16>({{ block.values | join(", ") }});
{%- endif %}

fn number(i: u32) -> f32 {
    let block = i / ELEMENTS * BYTES;
    let q = code(block, i % ELEMENTS);
    let pair = pair_of(block, i % ELEMENTS / 32u);
{%- if block.values %}
    return pair.x * CODEBOOK[q];
{%- elif from == "Q8_0" %}
    return pair.x * signed(q);
{%- else %}
    return pair.x * f32(q) + pair.y;
{%- endif %}
}
{%- endif %}
{% endif %}
