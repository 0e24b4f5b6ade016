{#- The numbers of quantised blocks, which begin at any byte. -#}
{% if from in ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"] %}
fn byte(at: u32) -> u32 { return (staged[at / 4u] >> (8u * (at % 4u))) & 255u; }

fn half_bits_at(at: u32) -> u32 { return byte(at) | (byte(at + 1u) << 8u); }

fn half_at(at: u32) -> f32 { return half_value(half_bits_at(at)); }
{% endif %}
{%- if from in ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "IQ4_XS", "MXFP4"] %}
// Element j of 32 nibbles in 16 bytes: the first half in the low nibbles, the second in the high.
fn nibble(at: u32, j: u32) -> u32 { return (byte(at + j % 16u) >> (4u * (j / 16u))) & 15u; }
{% endif %}
{%- if from in ["Q5_0", "Q5_1"] %}
// Element j of 32 fifth bits in 4 bytes, and the nibbles behind them.
fn five_bits(at: u32, j: u32) -> f32 {
    return f32(nibble(at + 4u, j) | (((byte(at + j / 8u) >> (j % 8u)) & 1u) << 4u));
}
{% endif %}
{%- if from in ["Q8_0", "Q6_K"] %}
fn signed_byte(at: u32) -> f32 { return f32(bitcast<i32>(byte(at) << 24u) >> 24u); }
{% endif %}
{%- if from in ["Q4_K", "Q5_K"] %}
// Scale and min of a group of 32: integers of six bits times two halves.
fn scale_and_min(block: u32, group: u32) -> vec2<f32> {
    let at = block + 4u;
    var factors = vec2(byte(at + group % 4u), byte(at + 4u + group % 4u));
    if group < 4u {
        factors &= vec2(63u);
    } else {
        let low = byte(at + 4u + group);
        factors = vec2(low & 15u, low >> 4u) | ((factors >> vec2(6u)) << vec2(4u));
    }
    return vec2<f32>(factors) * vec2(half_at(block), half_at(block + 2u));
}
{% endif %}
{%- if from in ["IQ4_NL", "IQ4_XS", "MXFP4"] %}
// An entry of a table of 16 signed bytes.
fn looked_up(i: u32) -> f32 {
{%- if from == "MXFP4" %}
    let table = vec4<u32>(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);
{%- else %}
    let table = vec4<u32>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
{%- endif %}
    return f32(bitcast<i32>(table[i / 4u] << (24u - 8u * (i % 4u))) >> 24u);
}
{% endif %}
{%- if from == "Q4_0" %}
fn number(i: u32) -> f32 {
    let block = i / 32u * 18u;
    return (f32(nibble(block + 2u, i % 32u)) - 8.0) * half_at(block);
}
{%- elif from == "Q4_1" %}
fn number(i: u32) -> f32 {
    let block = i / 32u * 20u;
    return f32(nibble(block + 4u, i % 32u)) * half_at(block) + half_at(block + 2u);
}
{%- elif from == "Q5_0" %}
fn number(i: u32) -> f32 {
    let block = i / 32u * 22u;
    return (five_bits(block + 2u, i % 32u) - 16.0) * half_at(block);
}
{%- elif from == "Q5_1" %}
fn number(i: u32) -> f32 {
    let block = i / 32u * 24u;
    return five_bits(block + 4u, i % 32u) * half_at(block) + half_at(block + 2u);
}
{%- elif from == "Q8_0" %}
fn number(i: u32) -> f32 {
    let block = i / 32u * 34u;
    return signed_byte(block + 2u + i % 32u) * half_at(block);
}
{%- elif from == "Q2_K" %}
fn number(i: u32) -> f32 {
    let block = i / 256u * 84u;
    let group = i % 256u / 16u;
    let bits = byte(block + 16u + group / 8u * 32u + group % 2u * 16u + i % 16u);
    let q = (bits >> (group % 8u / 2u * 2u)) & 3u;
    let factors = byte(block + group);
    let scale = half_at(block + 80u) * f32(factors & 15u);
    return scale * f32(q) - half_at(block + 82u) * f32(factors >> 4u);
}
{%- elif from == "Q3_K" %}
fn number(i: u32) -> f32 {
    let block = i / 256u * 110u;
    let group = i % 256u / 16u;
    let column = group % 2u * 16u + i % 16u;
    let low = (byte(block + 32u + group / 8u * 32u + column) >> (group % 8u / 2u * 2u)) & 3u;
    let high = (byte(block + column) >> (group / 8u * 4u + group % 8u / 2u)) & 1u;
    let factor_low = (byte(block + 96u + group % 8u) >> (group / 8u * 4u)) & 15u;
    let factor_high = (byte(block + 104u + group % 4u) >> (group / 4u * 2u)) & 3u;
    let scale = half_at(block + 108u) * (f32(factor_low | (factor_high << 4u)) - 32.0);
    return scale * (f32(low | (high << 2u)) - 4.0);
}
{%- elif from == "Q4_K" %}
fn number(i: u32) -> f32 {
    let block = i / 256u * 144u;
    let group = i % 256u / 32u;
    let q = (byte(block + 16u + group / 2u * 32u + i % 32u) >> (group % 2u * 4u)) & 15u;
    let pair = scale_and_min(block, group);
    return pair.x * f32(q) - pair.y;
}
{%- elif from == "Q5_K" %}
fn number(i: u32) -> f32 {
    let block = i / 256u * 176u;
    let group = i % 256u / 32u;
    let low = (byte(block + 48u + group / 2u * 32u + i % 32u) >> (group % 2u * 4u)) & 15u;
    let high = (byte(block + 16u + i % 32u) >> group) & 1u;
    let pair = scale_and_min(block, group);
    return pair.x * f32(low | (high << 4u)) - pair.y;
}
{%- elif from == "Q6_K" %}
fn number(i: u32) -> f32 {
    let block = i / 256u * 210u;
    // A half of the block is four runs of 32; two of them share the bytes of low nibbles.
    let part = i % 256u / 128u;
    let run = i % 128u / 32u;
    let low = byte(block + part * 64u + run % 2u * 32u + i % 32u) >> (run / 2u * 4u);
    let high = byte(block + 128u + part * 32u + i % 32u) >> (run * 2u);
    let scale = half_at(block + 208u) * signed_byte(block + 192u + i % 256u / 16u);
    return scale * (f32((low & 15u) | ((high & 3u) << 4u)) - 32.0);
}
{%- elif from == "IQ4_NL" %}
fn number(i: u32) -> f32 {
    let block = i / 32u * 18u;
    return half_at(block) * looked_up(nibble(block + 2u, i % 32u));
}
{%- elif from == "IQ4_XS" %}
fn number(i: u32) -> f32 {
    let block = i / 256u * 136u;
    let group = i % 256u / 32u;
    let low = (byte(block + 4u + group / 2u) >> (group % 2u * 4u)) & 15u;
    let high = (half_bits_at(block + 2u) >> (group * 2u)) & 3u;
    let scale = half_at(block) * (f32(low | (high << 4u)) - 32.0);
    return scale * looked_up(nibble(block + 8u + group * 16u, i % 32u));
}
{%- elif from == "MXFP4" %}
fn number(i: u32) -> f32 {
    let block = i / 32u * 17u;
    let exponent = byte(block);
    let scale = select((exponent - 1u) << 23u, 0x00200000u << exponent, exponent < 2u);
    return bitcast<f32>(scale) * looked_up(nibble(block + 1u, i % 32u));
}
{%- endif %}
