// blocks: rows of quantised blocks of the type {{ from }} in the layout that keeps them.
// in   job    which rows; stride is in groups
//      staged [rows][columns] elements in blocks of {{ bytes }} bytes
// out  words  [rows][row words], scales [rows][stride]
// grid one thread per group of 32, workgroups of 64 folded to two dimensions
@group(0) @binding(0) var<storage, read> job: Rows;
@group(0) @binding(1) var<storage, read> staged: array<u32>;
@group(0) @binding(2) var<storage, read_write> words: array<u32>;
@group(0) @binding(3) var<storage, read_write> scales: array<u32>;

{% include "include/staged.wgsl" %}
{% include "include/blocks.wgsl" %}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (workgroup.x + workgroup.y * workgroups.x) * 64u + thread;
    if i >= job.rows * job.stride { return; }
    let source = staged_row(i / job.stride) * job.stride + i % job.stride; // a group of 32
    let target_group = job.row * job.stride + i;
{%- if from == "Q4_K" %}
    let block = source / 8u * {{ bytes }}u;
    let group = source % 8u;
    let pair = scale_and_min(block, group);
    scales[target_group] = half_bits(pair.x) | (half_bits(-pair.y) << 16u);
{%- else %}
    let block = source * {{ bytes }}u;
{%- if from == "Q4_0" %}
    scales[target_group] = half_bits_at(block) | (half_bits(-8.0 * half_at(block)) << 16u);
{%- elif from == "Q4_1" %}
    scales[target_group] = half_bits_at(block) | (half_bits_at(block + 2u) << 16u);
{%- else %}
    scales[target_group] = half_bits_at(block);
{%- endif %}
{%- endif %}
    for (var w = 0u; w < {{ words }}u; w++) {
        var word = 0u;
{%- if from == "Q8_0" %}
        for (var j = 0u; j < 4u; j++) { word |= byte(block + 2u + 4u * w + j) << (8u * j); }
{%- else %}
        for (var j = 0u; j < 8u; j++) {
{%- if from == "Q4_K" %}
            let q = (byte(block + 16u + group / 2u * 32u + 8u * w + j) >> (group % 2u * 4u)) & 15u;
{%- else %}
            let q = nibble(block + {{ bytes - 16 }}u, 8u * w + j);
{%- endif %}
            word |= q << (4u * j);
        }
{%- endif %}
        words[target_group * {{ words }}u + w] = word;
    }
}
