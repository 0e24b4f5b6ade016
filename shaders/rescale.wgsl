// rescale: the (scale, min) words of nibbles from the scales and zero points of compressed-tensors.
{%- if part == "scales" %}
// in   staged [rows][columns] numbers, {{ from }}: sets scale{% if symmetric %}, and min = -8 scale{% endif %}
{%- elif part == "zero points" %}
// in   staged [ceil(rows / 8)][columns] words, row i in nibble i % 8: sets min to the zero point
{%- else %}
// Turns zero points into min = -zero point * scale.
{%- endif %}
// out  scales [rows][stride]; one column serves every group of a row
// grid one thread per scale word, workgroups of 64 folded to two dimensions
@group(0) @binding(0) var<storage, read> job: Rows;
{%- if part == "mins" %}
@group(0) @binding(1) var<storage, read_write> scales: array<u32>;
{%- else %}
@group(0) @binding(1) var<storage, read> staged: array<u32>;
@group(0) @binding(2) var<storage, read_write> scales: array<u32>;
{%- endif %}

{% include "include/staged.wgsl" %}
fn rescaled(word: u32, row: u32, column: u32) -> u32 {
{%- if part == "scales" %}
    let at = row * job.columns + column;
    let scale = half_bits(number(at));
{%- if symmetric %}
    return scale | (half_bits(-8.0 * half_value(scale)) << 16u);
{%- else %}
    return (word & 0xffff0000u) | scale;
{%- endif %}
{%- elif part == "zero points" %}
    let nibbles = staged[row / 8u * job.columns + column];
    let zero_point = (nibbles >> (4u * (row % 8u))) & 15u;
    return (word & 0xffffu) | (half_bits(f32(zero_point)) << 16u);
{%- else %}
    let halves = unpack2x16float(word);
    return (word & 0xffffu) | (half_bits(-halves.y * halves.x) << 16u);
{%- endif %}
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * groups.x) * 64u + thread;
    if i < job.rows * job.stride {
        let at = job.row * job.stride + i;
        let column = min(i % job.stride, job.columns - 1u);
        scales[at] = rescaled(scales[at], job.source + i / job.stride, column);
    }
}
