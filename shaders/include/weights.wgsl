// Reading weight matrices in their canonical layouts (layout.rs). The row of a matrix is a run of
// units of four words; a unit holds PIECES pieces of four neighbouring columns.
// The matrix is `words` [n][UNITS] and, where it has scales, `scales` [n][ROW_SCALES].
const UNITS = {{ weights.units }}u;
const PIECES = {{ weights.pieces }}u;
{%- if weights.scaled %}
const ROW_SCALES = {{ weights.row_scales }}u;
{%- endif %}
{%- if weights.layout == "w4" %}
alias Scale = vec2<f32>;

// A nibble left in its place in a half word is 1, 16, 256 or 4096 times its value. Saves the shift.
const IN_PLACE = vec4(0xfu, 0xf0u, 0xf00u, 0xf000u);
const SHRINK = vec4(1.0, 0.0625, 0.00390625, 0.000244140625);

fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    let half_word = vec4(unit[piece / 2u] >> (16u * (piece % 2u)));
    return vec4<f32>(vec4<i32>(half_word & IN_PLACE)) * (scale.x * SHRINK) + scale.y;
}
{%- elif weights.layout == "w8" %}
alias Scale = vec2<f32>;

fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    let bytes = vec4<i32>(vec4(unit[piece]) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u);
    return vec4<f32>(bytes) * scale.x + scale.y;
}
{%- elif weights.layout == "f8" %}
alias Scale = vec2<f32>;

// As f16 bits, a number is 2^-8 of its value.
fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    let pairs = vec2(unit[piece], unit[piece] >> 16u);
    let halves = ((pairs & vec2(0x80u)) << vec2(8u)) | ((pairs & vec2(0x7fu)) << vec2(7u))
        | ((pairs & vec2(0x8000u)) << vec2(16u)) | ((pairs & vec2(0x7f00u)) << vec2(15u));
    let values = vec4(unpack2x16float(halves.x), unpack2x16float(halves.y));
    return values * (256.0 * scale.x) + scale.y;
}
{%- elif weights.layout == "codebook" %}
alias Scale = f32;

{% if weights.codebook == "E2m1" -%}
// Doubled magnitudes fit into nibbles, and the list of them into a word.
fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    let q = vec4(unit[piece / 2u] >> (16u * (piece % 2u))) >> vec4(0u, 4u, 8u, 12u);
    let doubled = (vec4(0xc8643210u) >> ((q & vec4(7u)) * 4u)) & vec4(15u);
    let sign = 1.0 - vec4<f32>((q >> vec4(2u)) & vec4(2u));
    return vec4<f32>(doubled) * sign * (0.5 * scale);
}
{%- else -%}
const CODEBOOK = array<f32, 16>({{ weights.values | join(", ") }});

fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    let q = (vec4(unit[piece / 2u] >> (16u * (piece % 2u))) >> vec4(0u, 4u, 8u, 12u)) & vec4(15u);
    return vec4(CODEBOOK[q.x], CODEBOOK[q.y], CODEBOOK[q.z], CODEBOOK[q.w]) * scale;
}
{%- endif %}
{%- elif weights.layout == "w5" %}
struct Scale { scale: f32, min: f32, high: u32 }

fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    let low = (vec4(unit[piece / 2u] >> (16u * (piece % 2u))) >> vec4(0u, 4u, 8u, 12u)) & vec4(15u);
    let high = (vec4((scale.high >> (4u * piece)) << 4u) >> vec4(0u, 1u, 2u, 3u)) & vec4(16u);
    return vec4<f32>(low | high) * scale.scale + scale.min;
}
{%- elif weights.layout == "w6" %}
// One scale per half of the unit.
struct Scale { scales: vec2<f32>, high: vec2<u32> }

fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    let low = (vec4(unit[piece / 2u] >> (16u * (piece % 2u))) >> vec4(0u, 4u, 8u, 12u)) & vec4(15u);
    let pairs = vec4(scale.high[piece / 4u] >> (8u * (piece % 4u))) >> vec4(0u, 2u, 4u, 6u);
    let q = low | ((pairs & vec4(3u)) << vec4(4u));
    return (vec4<f32>(q) - 32.0) * scale.scales[piece / 4u];
}
{%- elif weights.layout == "w3" %}
// One scale per quarter of the unit.
struct Scale { scales: vec4<f32>, high: vec2<u32> }

fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    let low = (vec4(unit[piece / 4u] >> (8u * (piece % 4u))) >> vec4(0u, 2u, 4u, 6u)) & vec4(3u);
    let bits = vec4((scale.high[piece / 8u] >> (4u * (piece % 8u))) << 2u);
    let q = low | ((bits >> vec4(0u, 1u, 2u, 3u)) & vec4(4u));
    return (vec4<f32>(q) - 4.0) * scale.scales[piece / 4u];
}
{%- elif weights.layout == "w2" %}
// One scale and one min per quarter of the unit.
struct Scale { scales: vec4<f32>, mins: vec4<f32> }

fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    let q = (vec4(unit[piece / 4u] >> (8u * (piece % 4u))) >> vec4(0u, 2u, 4u, 6u)) & vec4(3u);
    return vec4<f32>(q) * scale.scales[piece / 4u] - scale.mins[piece / 4u];
}
{%- elif weights.layout == "f16" %}
alias Scale = f32;

fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    return vec4(unpack2x16float(unit[2u * piece]), unpack2x16float(unit[2u * piece + 1u]));
}
{%- elif weights.layout == "bf16" %}
alias Scale = f32;

fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    let pairs = vec2(unit[2u * piece], unit[2u * piece + 1u]).xxyy;
    return bitcast<vec4<f32>>((pairs << vec4(16u, 0u, 16u, 0u)) & vec4(0xffff0000u));
}
{%- else %}
alias Scale = f32;

fn weights_of(unit: vec4<u32>, piece: u32, scale: Scale) -> vec4<f32> {
    return bitcast<vec4<f32>>(unit);
}
{%- endif %}

// The scales and mins of a unit; the float layouts have none.
fn scale_of(row: u32, unit: u32) -> Scale {
{%- if weights.layout == "w5" %}
    let at = row * ROW_SCALES + 2u * unit;
    let pair = unpack2x16float(scales[at]);
    return Scale(pair.x, pair.y, scales[at + 1u]);
{%- elif weights.layout == "w6" %}
    let at = row * ROW_SCALES + unit / 8u * {{ weights.record }}u;
    let u = unit % 8u;
    let bytes = vec2(scales[at + 1u + u / 2u] >> (16u * (u % 2u)));
    let factors = vec2<f32>(vec2<i32>(bytes << vec2(24u, 16u)) >> vec2(24u));
    let high = vec2(scales[at + 5u + 2u * u], scales[at + 6u + 2u * u]);
    return Scale(unpack2x16float(scales[at]).x * factors, high);
{%- elif weights.layout in ["w3", "w2"] %}
    let at = row * ROW_SCALES + unit / 4u * {{ weights.record }}u;
    let u = unit % 4u;
    let halves = unpack2x16float(scales[at]);
    let bytes = vec4(scales[at + 1u + u]);
{%- if weights.layout == "w3" %}
    let factors = vec4<f32>(vec4<i32>(bytes << vec4(24u, 16u, 8u, 0u)) >> vec4(24u));
    return Scale(halves.x * factors, vec2(scales[at + 5u + 2u * u], scales[at + 6u + 2u * u]));
{%- else %}
    let factors = vec4<f32>((bytes >> vec4(0u, 8u, 16u, 24u)) & vec4(15u));
    let offsets = vec4<f32>((bytes >> vec4(4u, 12u, 20u, 28u)) & vec4(15u));
    return Scale(halves.x * factors, halves.y * offsets);
{%- endif %}
{%- elif weights.layout == "codebook" %}
    let group = unit / {{ weights.group_units }}u;
    let bits = scales[row * ROW_SCALES + group / 2u] >> (16u * (group % 2u));
{%- if weights.codebook == "E2m1" %}
    return bitcast<f32>(bits << 16u);
{%- else %}
    return unpack2x16float(bits).x;
{%- endif %}
{%- elif weights.scaled %}
    return unpack2x16float(scales[row * ROW_SCALES + unit / {{ weights.group_units }}u]);
{%- else %}
    return 1.0;
{%- endif %}
}

// Columns 4·quad .. 4·quad + 3 of a row.
fn weights_at(row: u32, quad: u32) -> vec4<f32> {
    let unit = quad / PIECES;
    return weights_of(words[row * UNITS + unit], quad % PIECES, scale_of(row, unit));
}
