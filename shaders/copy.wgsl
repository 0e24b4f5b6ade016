// copy: copies the rows of x to a range of columns of out.
// in   x      [rows][STRIDE] vec4
// out  out    [rows][OUT_STRIDE] vec4, columns COLUMN .. COLUMN + STRIDE - 1
// grid (64 columns, rows)
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;

{% include "include/step.wgsl" %}
const STRIDE = {{ stride // 4 }}u;
const OUT_STRIDE = {{ out_stride // 4 }}u;
const COLUMN = {{ column // 4 }}u;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < STRIDE && id.y < row_count() {
        out[id.y * OUT_STRIDE + COLUMN + id.x] = x[id.y * STRIDE + id.x];
    }
}
