// combine: residual += {% if scale %}{{ scale }} * {% endif %}the sum over a row's chosen experts of weight * output{% if normalise %}, with weights that add up to 1{% endif %}.
// in   routes [rows][ACTIVE] (expert, bits of its weight)
//      chosen [rows][ACTIVE][QUADS] vec4
// out  residual [rows][QUADS] vec4
// grid (ceil(QUADS / 64), rows) workgroups of 64, a thread per four columns
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> routes: array<u32>;
@group(0) @binding(2) var<storage, read> chosen: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> residual: array<vec4<f32>>;

{% include "include/step.wgsl" %}
const ACTIVE = {{ active }}u;
const QUADS = {{ quads }}u;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let quad = id.x;
    let row = id.y;
    if quad >= QUADS || row >= row_count() { return; }
    var sum = vec4<f32>();
    var total = 0.0;
    for (var i = row * ACTIVE; i < (row + 1u) * ACTIVE; i++) {
        let weight = bitcast<f32>(routes[2u * i + 1u]);
        total += weight;
        sum += weight * chosen[i * QUADS + quad];
    }
    residual[row * QUADS + quad] += sum{% if normalise %} / total{% endif %}{% if scale %} * {{ scale }}{% endif %};
}
