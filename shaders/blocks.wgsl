// blocks: rows of quantised blocks of the type {{ from }} in their lossless layout.
// in   job    which rows
//      staged [rows][columns] elements in blocks of {{ block.bytes }} bytes
// out  words  [rows][row words], scales [rows][stride]
// grid one thread per record of {{ record.columns }} columns and {{ record.words }} words of scales,
//      workgroups of 64 folded to two dimensions
@group(0) @binding(0) var<storage, read> job: Rows;
@group(0) @binding(1) var<storage, read> staged: array<u32>;
@group(0) @binding(2) var<storage, read_write> words: array<u32>;
@group(0) @binding(3) var<storage, read_write> scales: array<u32>;

{% include "include/staged.wgsl" %}
{% include "include/blocks.wgsl" %}
const RECORD = {{ record.columns }}u;
const LOW_BITS = {{ record.low_bits }}u;
const PER_WORD = 32u / LOW_BITS;

// The code of a column of a row, both as staged.
fn code_at(row: u32, column: u32) -> u32 {
    let i = row * job.columns + column;
    return code(i / ELEMENTS * BYTES, i % ELEMENTS);
}
{%- if not block.halves %}

// Scale and min of the group of 32 that contains this column.
fn pair_at(row: u32, column: u32) -> vec2<f32> {
    let i = row * job.columns + column;
    return pair_of(i / ELEMENTS * BYTES, i % ELEMENTS / 32u);
}
{%- endif %}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (workgroup.x + workgroup.y * workgroups.x) * 64u + thread;
    let records = (job.columns + RECORD - 1u) / RECORD;
    if i >= job.rows * records { return; }
    let row = staged_row(i / records);
    let first = i % records * RECORD;
    let end = min(first + RECORD, job.columns);
    let at = (job.row + i / records) * job.stride + i % records * {{ record.words }}u;
{%- if block.halves %}
    let block = (row * job.columns + first) / ELEMENTS * BYTES;
    scales[at] = halves_of(block);
    for (var w = 0u; w < 4u; w++) {
        var word = 0u;
        for (var g = 0u; g < 4u; g++) { word |= byte_of(block, 4u * w + g) << (8u * g); }
        scales[at + 1u + w] = word;
    }
{%- elif record.codebook %}
    var word = 0u;
    for (var group = 0u; group < (end - first) / 32u; group++) {
        let scale = pair_at(row, first + 32u * group).x;
        let half = {% if record.codebook == "E2m1" %}brain_bits(scale){% else %}half_bits(scale){% endif %};
        word |= half << (16u * group);
    }
    scales[at] = word;
{%- else %}
    let pair = pair_at(row, first);
    scales[at] = half_bits(pair.x) | (half_bits(pair.y) << 16u);
{%- endif %}

    let target_words = (job.row + i / records) * (job.columns / PER_WORD);
    for (var column = first; column < end; column += PER_WORD) {
        var word = 0u;
        for (var j = 0u; j < PER_WORD; j++) {
            word |= (code_at(row, column + j) & {{ record.low_mask }}u) << (LOW_BITS * j);
        }
        words[target_words + column / PER_WORD] = word;
    }
{%- if record.high_bits %}
    var high = at + {{ 1 if record.words == 2 else 5 }}u;
    for (var column = first; column < end; column += {{ 32 // record.high_bits }}u) {
        var word = 0u;
        for (var j = 0u; j < {{ 32 // record.high_bits }}u; j++) {
            word |= (code_at(row, column + j) >> LOW_BITS) << ({{ record.high_bits }}u * j);
        }
        scales[high] = word;
        high++;
    }
{%- endif %}
}
