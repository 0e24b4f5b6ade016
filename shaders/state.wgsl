{%- if keeps %}
// state: stores, for each sampling sequence, the row of x from which its last accepted token was
// sampled as the state of its slot.
// in   x      [rows][STRIDE] vec4
//      result number of accepted drafts of each sequence, see accept
// out  out    [slots][STRIDE] vec4
// grid (64 columns, sampling sequences)
{%- else %}
// state: loads the state of each sample's slot to the sample's row.
// in   x      [slots][STRIDE] vec4
// out  out    [rows][STRIDE] vec4
// grid (64 columns, samples)
{%- endif %}
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
{%- if keeps %}
@group(0) @binding(2) var<storage, read> result: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;
{%- else %}
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;
{%- endif %}

{% include "include/step.wgsl" %}
const STRIDE = {{ stride // 4 }}u;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
{%- if keeps %}
    if id.x >= STRIDE || id.y >= sample_run_count() { return; }
    let first = sample_run(id.y).sample;
    let accepted = result[2u * sample_count() + id.y];
    let slot = step[sample_at(first) + 1u];
    let row = step[sample_at(first + accepted) + 13u];
    out[slot * STRIDE + id.x] = x[row * STRIDE + id.x];
{%- else %}
    if id.x >= STRIDE || id.y >= sample_count() { return; }
    out[id.y * STRIDE + id.x] = x[step[sample_at(id.y) + 1u] * STRIDE + id.x];
{%- endif %}
}
