// Reading weight matrices in their canonical layouts (layout.rs). The row of a matrix is a run of
// units of four words; a unit holds PIECES pieces of four neighbouring columns, all of one group.
// The matrix is `words` [n][UNITS] and, where quantised, `scales` [n][GROUPS].
const UNITS = {{ weights.units }}u;
const PIECES = {{ weights.pieces }}u;
{%- if weights.layout == "w4" %}

// A nibble left in its place in a half word is 1, 16, 256 or 4096 times its value: shifting is saved.
const IN_PLACE = vec4(0xfu, 0xf0u, 0xf00u, 0xf000u);
const SHRINK = vec4(1.0, 0.0625, 0.00390625, 0.000244140625);

fn weights_of(unit: vec4<u32>, piece: u32, scale: vec2<f32>) -> vec4<f32> {
    let half_word = vec4(unit[piece / 2u] >> (16u * (piece % 2u)));
    return vec4<f32>(vec4<i32>(half_word & IN_PLACE)) * (scale.x * SHRINK) + scale.y;
}
{%- elif weights.layout == "w8" %}

fn weights_of(unit: vec4<u32>, piece: u32, scale: vec2<f32>) -> vec4<f32> {
    let bytes = vec4<i32>(vec4(unit[piece]) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u);
    return vec4<f32>(bytes) * scale.x + scale.y;
}
{%- elif weights.layout == "f16" %}

fn weights_of(unit: vec4<u32>, piece: u32, scale: vec2<f32>) -> vec4<f32> {
    return vec4(unpack2x16float(unit[2u * piece]), unpack2x16float(unit[2u * piece + 1u]));
}
{%- elif weights.layout == "bf16" %}

fn weights_of(unit: vec4<u32>, piece: u32, scale: vec2<f32>) -> vec4<f32> {
    let pairs = vec2(unit[2u * piece], unit[2u * piece + 1u]).xxyy;
    return bitcast<vec4<f32>>((pairs << vec4(16u, 0u, 16u, 0u)) & vec4(0xffff0000u));
}
{%- else %}

fn weights_of(unit: vec4<u32>, piece: u32, scale: vec2<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(unit);
}
{%- endif %}

// (scale, min) of a unit; the float layouts have none.
fn scale_of(row: u32, unit: u32) -> vec2<f32> {
{%- if weights.quantised %}
    return unpack2x16float(scales[row * {{ weights.groups }}u + unit / {{ weights.group_units }}u]);
{%- else %}
    return vec2(1.0, 0.0);
{%- endif %}
}

// Columns 4·quad .. 4·quad + 3 of a row.
fn weights_at(row: u32, quad: u32) -> vec4<f32> {
    let unit = quad / PIECES;
    return weights_of(words[row * UNITS + unit], quad % PIECES, scale_of(row, unit));
}
