// quantise: rows of a checkpoint tensor in the layout {{ to }} with groups of {{ group }}, rounded as
// layout/quantise.rs does.
// in   job    which rows; stride is in groups
//      staged {{ "[columns][rows]" if transposed else "[rows][columns]" }} numbers, {{ from }}
// out  words  [rows][row words], scales [rows][stride]
// grid one thread per group, workgroups of 64 folded to two dimensions
@group(0) @binding(0) var<storage, read> job: Rows;
@group(0) @binding(1) var<storage, read> staged: array<u32>;
@group(0) @binding(2) var<storage, read_write> words: array<u32>;
@group(0) @binding(3) var<storage, read_write> scales: array<u32>;

{% include "include/staged.wgsl" %}
{% include "include/blocks.wgsl" %}
const GROUP = {{ group }}u;
const PER_WORD = {{ per_word }}u;
const BITS = 32u / PER_WORD;

// A number by its row and column in the piece.
fn at(row: u32, column: u32) -> f32 {
{%- if transposed %}
    return number(column * job.staged + row);
{%- else %}
    return number(row * job.columns + column);
{%- endif %}
}

// 0 where a scale is 0, so that its group quantises to q = 0.
fn inverse_of(scale: f32) -> f32 { return select(0.0, 1.0 / scale, scale > 0.0); }
{% if to == "w4" %}
fn quantised(value: f32, inverse: f32, low: f32) -> f32 {
    return clamp(round((value - low) * inverse), 0.0, 15.0);
}

// (scale, min) halves: the least squared error of ever narrower ranges around the same middle.
fn choose(row: u32, first: u32, count: u32) -> u32 {
    var low = at(row, first);
    var high = low;
    for (var i = 1u; i < count; i++) {
        low = min(low, at(row, first + i));
        high = max(high, at(row, first + i));
    }
    let range = high - low;
    var best = 0u;
    var best_error = 0.0;
    for (var candidate = 0u; candidate < {{ candidates }}u; candidate++) {
        let cut = f32(candidate) * {{ step }};
        let halves = half_bits(range * (1.0 - cut) / 15.0) | (half_bits(low + range * cut / 2.0) << 16u);
        let scale = unpack2x16float(halves);
        let inverse = inverse_of(scale.x);
        var sum = 0.0;
        for (var i = 0u; i < count; i++) {
            let value = at(row, first + i);
            let error = value - (scale.x * quantised(value, inverse, scale.y) + scale.y);
            sum += error * error;
        }
        if candidate == 0u || sum < best_error {
            best = halves;
            best_error = sum;
        }
    }
    return best;
}
{% else %}
fn quantised(value: f32, inverse: f32, low: f32) -> f32 {
    return clamp(round(value * inverse), -127.0, 127.0);
}

// (scale, 0) halves: the greatest magnitude becomes 127.
fn choose(row: u32, first: u32, count: u32) -> u32 {
    var peak = 0.0;
    for (var i = 0u; i < count; i++) { peak = max(peak, abs(at(row, first + i))); }
    return half_bits(peak / 127.0);
}
{% endif %}
@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (workgroup.x + workgroup.y * workgroups.x) * 64u + thread;
{%- if transposed %}
    let groups = (job.columns + GROUP - 1u) / GROUP;
{%- else %}
    let groups = job.stride;
{%- endif %}
    if i >= job.rows * groups { return; }
    let row = job.row + i / groups;
    let stored = staged_row(i / groups);
    let first = i % groups * GROUP;
    let count = min(GROUP, job.columns - first);
    let halves = choose(stored, first, count);
    let column = job.first_column + first;
    scales[row * job.stride + column / GROUP] = halves;

    let scale = unpack2x16float(halves);
    let inverse = inverse_of(scale.x);
    let row_columns = (job.width + 31u) / 32u * 32u;
    let first_word = (row * row_columns + column) / PER_WORD;
    for (var w = 0u; w < min(GROUP, row_columns - column) / PER_WORD; w++) {
        var word = 0u;
        for (var j = 0u; j < PER_WORD; j++) {
            let inside = w * PER_WORD + j;
            if inside < count {
                let q = i32(quantised(at(stored, first + inside), inverse, scale.y));
                word |= (bitcast<u32>(q) & ((1u << BITS) - 1u)) << (BITS * j);
            }
        }
        words[first_word + w] = word;
    }
}
