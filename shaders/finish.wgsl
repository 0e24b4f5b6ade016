// finish: computes mins from scales and the {% if shift %}mins{% else %}zero points{% endif %} stored in their places.
// out  scales [rows][stride]
// grid one thread per scale word, workgroups of 64 folded to two dimensions
@group(0) @binding(0) var<storage, read> job: Rows;
@group(0) @binding(1) var<storage, read_write> scales: array<u32>;

{% include "include/staged.wgsl" %}
@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * groups.x) * 64u + thread;
    if i >= job.rows * job.stride { return; }
    let at = job.row * job.stride + i;
    let pair = unpack2x16float(scales[at]);
{%- if shift %}
    let min = pair.y + {{ shift }}.0 * pair.x;
{%- else %}
    let min = -pair.y * pair.x;
{%- endif %}
    scales[at] = (scales[at] & 0xffffu) | (half_bits(min) << 16u);
}
