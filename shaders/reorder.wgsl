// reorder: rows of nibbles with reordered columns.
// in   job    which rows; stride is in words
//      staged [rows][stride] the rows in the old order
//      order  [columns] the old column of each new one
// out  words  [rows][stride]
// grid one thread per word, workgroups of 64 folded to two dimensions
@group(0) @binding(0) var<storage, read> job: Rows;
@group(0) @binding(1) var<storage, read> staged: array<u32>;
@group(0) @binding(2) var<storage, read> order: array<u32>;
@group(0) @binding(3) var<storage, read_write> words: array<u32>;

{% include "include/staged.wgsl" %}
@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * groups.x) * 64u + thread;
    if i >= job.rows * job.stride { return; }
    let row = i / job.stride * job.stride;
    let first = i % job.stride * 8u;
    var word = 0u;
    for (var j = 0u; first + j < job.columns && j < 8u; j++) {
        let column = order[first + j];
        let q = (staged[row + column / 8u] >> (column % 8u * 4u)) & 15u;
        word |= q << (4u * j);
    }
    words[job.row * job.stride + i] = word;
}
