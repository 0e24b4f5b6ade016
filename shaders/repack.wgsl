// repack: rows of a checkpoint tensor as rows of words{% if not transposed %}, padded with zeros,{% endif %} in the layout {{ to }}.
// in   job    which rows
//      staged {{ "[columns][rows]" if transposed else "[rows][columns]" }} numbers{% if less_one %} less one{% endif %}, {{ from }}
// out  words  [rows][stride]
// grid one thread per word of the rows, workgroups of 64 folded to two dimensions
@group(0) @binding(0) var<storage, read> job: Rows;
@group(0) @binding(1) var<storage, read> staged: array<u32>;
@group(0) @binding(2) var<storage, read_write> words: array<u32>;

{% include "include/staged.wgsl" %}
{% include "include/blocks.wgsl" %}
const PER_WORD = {{ 1 if to == "f32" else 2 }}u;

// Index of a column of a row in the staged piece.
fn place(row: u32, column: u32) -> u32 {
    let inside = min(column, job.columns - 1u);
{%- if transposed %}
    return inside * job.staged + row;
{%- else %}
    return row * job.columns + inside;
{%- endif %}
}
{% if to == "f32" %}
fn word_of(row: u32, i: u32) -> u32 {
    return select(0u, bitcast<u32>(number(place(row, i)){% if less_one %} + 1.0{% endif %}), i < job.columns);
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
    let bits = vec2(bits_of(place(row, column.x)), bits_of(place(row, column.y)));
    let kept = select(vec2(0u), bits, column < vec2(job.columns));
    return kept.x | (kept.y << 16u);
}
{%- endif %}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * groups.x) * 64u + thread;
{%- if transposed %}
    let row_words = (job.columns + PER_WORD - 1u) / PER_WORD;
{%- else %}
    let row_words = job.stride;
{%- endif %}
    if i >= job.rows * row_words { return; }
    let row = i / row_words;
    let at = (job.row + row) * job.stride + job.first_column / PER_WORD + i % row_words;
    words[at] = word_of(staged_row(row), i % row_words);
}
