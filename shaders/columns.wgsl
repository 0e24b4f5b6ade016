// columns: out[row][i] = x[row][order[i]], for matrices with reordered columns.
// in   x      [rows][STRIDE]
//      order  [WIDTH]
// out  out    [rows][STRIDE], padding 0
// grid (64 columns, rows)
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> order: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

{% include "include/step.wgsl" %}
const WIDTH = {{ width }}u;
const STRIDE = {{ stride }}u;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= STRIDE || id.y >= {{ count }}() { return; }
    let column = order[min(id.x, WIDTH - 1u)];
    out[id.y * STRIDE + id.x] = select(0.0, x[id.y * STRIDE + column], id.x < WIDTH);
}
