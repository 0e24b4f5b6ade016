// repack: rows of a checkpoint tensor as rows of words, padded with zeros, in the layout {{ to }}.
// in   job    which rows
//      staged [rows][columns] numbers{% if less_one %} less one{% endif %}, {{ from }}
// out  words  [rows][stride]
// grid one thread per word of the rows, workgroups of 64 folded to two dimensions
@group(0) @binding(0) var<storage, read> job: Rows;
@group(0) @binding(1) var<storage, read> staged: array<u32>;
@group(0) @binding(2) var<storage, read_write> words: array<u32>;

{% include "include/staged.wgsl" %}
{% include "include/blocks.wgsl" %}
{%- if to == "f32" %}
fn word_of(row: u32, i: u32) -> u32 {
    let at = row * job.columns + min(i, job.columns - 1u);
    return select(0u, bitcast<u32>(number(at){% if less_one %} + 1.0{% endif %}), i < job.columns);
}
{%- else %}
fn bits_of(at: u32) -> u32 {
{%- if from == to %}
    return (staged[at / 2u] >> (16u * (at % 2u))) & 0xffffu;
{%- elif to == "f16" %}
    return half_bits(number(at));
{%- else %}
    return brain_bits(number(at));
{%- endif %}
}

fn word_of(row: u32, i: u32) -> u32 {
    let column = 2u * i + vec2(0u, 1u);
    let at = row * job.columns + min(column, vec2(job.columns - 1u));
    let bits = select(vec2(0u), vec2(bits_of(at.x), bits_of(at.y)), column < vec2(job.columns));
    return bits.x | (bits.y << 16u);
}
{%- endif %}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * groups.x) * 64u + thread;
    if i < job.rows * job.stride {
        words[job.row * job.stride + i] = word_of(staged_row(i / job.stride), i % job.stride);
    }
}
