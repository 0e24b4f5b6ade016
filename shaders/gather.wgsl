// gather: out[i] = x[row of logit row i]: the rows whose logits are computed.
// in   x      [rows][STRIDE] vec4
// out  out    [logit rows][STRIDE] vec4
// grid (64 columns, logit rows)
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;

{% include "include/step.wgsl" %}
const STRIDE = {{ stride // 4 }}u;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < STRIDE && id.y < logit_row_count() {
        out[id.y * STRIDE + id.x] = x[logit_row(id.y) * STRIDE + id.x];
    }
}
