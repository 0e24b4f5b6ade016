// codes: rows of codes, {{ from }}, as rows of words.
// in   job    which rows, and of which columns
//      staged {{ from }} packed as weights/sink.rs says: {{ packing }}
// out  words  [rows][stride]{% if packing == "Rows" %}, padded with zeros{% endif %}
// grid one thread per word, workgroups of 64 folded to two dimensions
@group(0) @binding(0) var<storage, read> job: Rows;
@group(0) @binding(1) var<storage, read> staged: array<u32>;
@group(0) @binding(2) var<storage, read_write> words: array<u32>;

{% include "include/staged.wgsl" %}
{% include "include/packing.wgsl" %}
const PER_WORD = {{ per_word }}u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * groups.x) * 64u + thread;
    let stored = (job.columns + PER_WORD - 1u) / PER_WORD;
{%- if packing == "Rows" %}
    if i >= job.rows * job.stride { return; }
    let at = i % job.stride;
    let row = staged_row(i / job.stride);
    let word = select(0u, staged[row * stored + min(at, stored - 1u)] ^ {{ flip }}u, at < stored);
    words[job.row * job.stride + i] = word;
{%- else %}
    if i >= job.rows * stored { return; }
    let first = i % stored * PER_WORD;
{%- if packing == "Words" %}
    let word = staged[i % stored * job.staged + staged_row(i / stored)] ^ {{ flip }}u;
{%- else %}
    var word = 0u;
    for (var j = 0u; j < min(PER_WORD, job.columns - first); j++) {
        word |= packed_nibble(staged_row(i / stored), first + j) << (4u * j);
    }
{%- endif %}
    words[(job.row + i / stored) * job.stride + (job.first_column + first) / PER_WORD] = word;
{%- endif %}
}
