// embed: out[row] = the embedding of the row's token{% if scale %} times {{ scale }}{% endif %}, which the batch names or a slot of the last
// samples holds. Tokens outside FIRST .. FIRST + TOKENS - 1 belong to another part of a split matrix.
// in   last_samples [slots] u32
//      words, scales: the part [TOKENS][width], see include/weights.wgsl
// out  out    [rows][stride / 4] vec4, padding 0
// grid (64 quads of columns, rows)
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> last_samples: array<u32>;
@group(0) @binding(2) var<storage, read> words: array<vec4<u32>>;
{%- if weights.scaled %}
@group(0) @binding(3) var<storage, read> scales: array<u32>;
{%- endif %}
@group(0) @binding({{ at.out }}) var<storage, read_write> out: array<vec4<f32>>;

{% include "include/step.wgsl" %}
{% include "include/weights.wgsl" %}
const FIRST = {{ first }}u;
const TOKENS = {{ tokens }}u;
const WIDTH = {{ width }}u;
const OUT_STRIDE = UNITS * PIECES;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let quad = id.x;
    let row = id.y;
    if quad >= OUT_STRIDE || row >= row_count() { return; }
    var token = row_at(row).token;
    if (token & LAST_SAMPLE) != 0u { token = last_samples[token & ~LAST_SAMPLE]; }
    if token < FIRST || token - FIRST >= TOKENS { return; }
    let inside = 4u * quad + vec4(0u, 1u, 2u, 3u) < vec4(WIDTH);
    out[row * OUT_STRIDE + quad] = select(vec4(0.0), weights_at(token - FIRST, quad), inside){% if scale %} * {{ scale }}{% endif %};
}
