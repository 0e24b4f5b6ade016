// rescale: the {{ part }} of quantised weights.
// in   job    which rows, and of which stored groups
//      staged {% if packing %}words of nibbles packed as weights/sink.rs says: {{ packing }}{% else %}numbers, {{ from }}, {% if transposed %}[groups][rows]{% else %}[rows][groups]{% endif %}{% endif %}
// out  scales [rows][stride]
{%- if row_span > 1 %}
//      {{ row_span }} rows share their numbers
{%- endif %}
{%- if group_span > 1 %}
//      {{ group_span }} groups share a number
{%- endif %}
// grid one thread per scale word, workgroups of 64 folded to two dimensions
@group(0) @binding(0) var<storage, read> job: Rows;
@group(0) @binding(1) var<storage, read> staged: array<u32>;
@group(0) @binding(2) var<storage, read_write> scales: array<u32>;

{% include "include/staged.wgsl" %}
{% include "include/packing.wgsl" %}
{%- if not packing %}
// The number of a row and a stored group of the piece.
fn number_at(row: u32, column: u32) -> f32 {
{%- if transposed %}
    return number(column * job.staged + row);
{%- else %}
    return number(row / {{ row_span }}u * job.columns + column);
{%- endif %}
}
{%- endif %}

// What the word becomes by the stored group of the piece{% if codebook %}, for its half{% endif %}.
fn rescaled(word: u32, row: u32, column: u32{% if codebook %}, half: u32{% endif %}) -> u32 {
{%- if part == "scales" %}
    let scale = number_at(row, column){% if by_127 %} * 0.007874015748{% endif %};
{%- if codebook %}
    let bits = {% if codebook == "E2m1" %}brain_bits(scale){% else %}half_bits(scale){% endif %};
    return (word & ~(0xffffu << (16u * half))) | (bits << (16u * half));
{%- elif zero is none %}
    return (word & 0xffff0000u) | half_bits(scale);
{%- elif zero == 0 %}
    return half_bits(scale);
{%- else %}
    let bits = half_bits(scale);
    return bits | (half_bits(-{{ zero }}.0 * half_value(bits)) << 16u);
{%- endif %}
{%- else %}
    let min = {% if packing %}f32(packed_nibble(row, column)){% else %}number_at(row, column){% endif %};
    return (word & 0xffffu) | (half_bits(min) << 16u);
{%- endif %}
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * groups.x) * 64u + thread;
    if i >= job.rows * job.stride { return; }
    let at = job.row * job.stride + i;
    let row = staged_row(i / job.stride);
{%- if codebook %}
    for (var half = 0u; half < 2u; half++) {
        let column = (i % job.stride * 2u + half) / {{ group_span }}u - job.first_column;
        if column < job.columns { scales[at] = rescaled(scales[at], row, column, half); }
    }
{%- else %}
    // Wraps around where the group lies before the piece.
    let column = i % job.stride / {{ group_span }}u - job.first_column;
    if column < job.columns { scales[at] = rescaled(scales[at], row, column); }
{%- endif %}
}
