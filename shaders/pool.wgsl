// pool: adds the rows of each pool to its slot's sum, in order; a pool that begins starts a new sum.
// in   x    [rows][STRIDE] vec4
// out  out  [slots][STRIDE] vec4
// grid (64 columns, pools)
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;

{% include "include/step.wgsl" %}
const STRIDE = {{ stride // 4 }}u;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= STRIDE { return; }
    let pool = pool_at(id.y);
    let at = pool.slot * STRIDE + id.x;
    var sum = vec4(0.0);
    if pool.begins == 0u { sum = out[at]; }
    for (var i = 0u; i < pool.rows; i++) {
        sum += x[(pool.row + i) * STRIDE + id.x];
    }
    out[at] = sum;
}
