{%- if positions %}
// embed: out[row] += the embedding of the row's position.
{%- else %}
// embed: out[row] = the embedding of the row's token{% if scale %} times {{ scale }}{% endif %}; the token is in the batch or among the last
// samples.
{%- endif %}
// Tokens outside FIRST .. FIRST + COUNT - 1 belong to another part of a split matrix.
// in   {% if not positions %}last_samples [slots] u32, {% endif %}words, scales: the part [COUNT][width], see include/weights.wgsl
// out  out    [rows][stride / 4] vec4, padding 0
// grid (64 quads of columns, rows)
@group(0) @binding(0) var<storage, read> step: array<u32>;
{%- if not positions %}
@group(0) @binding({{ at.last_samples }}) var<storage, read> last_samples: array<u32>;
{%- endif %}
@group(0) @binding({{ at.words }}) var<storage, read> words: array<vec4<u32>>;
{%- if weights.scaled %}
@group(0) @binding({{ at.scales }}) var<storage, read> scales: array<u32>;
{%- endif %}
@group(0) @binding({{ at.out }}) var<storage, read_write> out: array<vec4<f32>>;

{% include "include/step.wgsl" %}
{% include "include/weights.wgsl" %}
const FIRST = {{ first }}u;
const COUNT = {{ count }}u;
const WIDTH = {{ width }}u;
const OUT_STRIDE = UNITS * PIECES;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let quad = id.x;
    let row = id.y;
    if quad >= OUT_STRIDE || row >= row_count() { return; }
{%- if positions %}
    let i = row_at(row).position;
{%- else %}
    var i = row_at(row).token;
    if (i & LAST_SAMPLE) != 0u { i = last_samples[i & ~LAST_SAMPLE]; }
{%- endif %}
    if i < FIRST || i - FIRST >= COUNT { return; }
    let inside = 4u * quad + vec4(0u, 1u, 2u, 3u) < vec4(WIDTH);
    out[row * OUT_STRIDE + quad] {% if positions %}+{% endif %}= select(vec4(0.0), weights_at(i - FIRST, quad), inside){% if scale %} * {{ scale }}{% endif %};
}
