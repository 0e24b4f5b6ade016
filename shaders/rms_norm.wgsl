// rms_norm: out = {% if add %}out + {% endif %}x / sqrt(mean of squares + eps) · weight, for each row.
// in   x      [rows][STRIDE] vec4, padding 0
//      weight [width / 4] vec4
// out  out    [rows][STRIDE] vec4, padding 0
{%- if barriers %}
// grid one workgroup of 64 threads per row
{%- if subgroups %}
{{ enable_subgroups }}
{%- endif %}
{%- else %}
// grid one thread per row, workgroups of 4: no barriers
{%- endif %}
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

{% include "include/step.wgsl" %}
const STRIDE = {{ stride // 4 }}u;

fn normaliser(squares: vec4<f32>) -> f32 {
    return inverseSqrt(dot(squares, vec4(1.0)) / {{ width }}.0 + {{ eps }});
}
{% if barriers %}
{% include "include/reduce.wgsl" %}
@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
{%- if subgroups %}
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) size: u32,
{%- endif %}
) {
    let first = group.x * STRIDE;
    var squares: array<vec4<f32>, VALUES>;
    for (var i = thread; i < STRIDE; i += 64u) {
        squares[0] += x[first + i] * x[first + i];
    }
    reduce(squares, thread{% if subgroups %}, lane, size{% endif %});
    let scale = normaliser(totals[0]);
    for (var i = thread; i < STRIDE; i += 64u) {
        out[first + i] = {% if add %}out[first + i] + {% endif %}x[first + i] * scale * weight[i];
    }
}
{% else %}
@compute @workgroup_size(4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= {{ count }}() { return; }
    let first = id.x * STRIDE;
    var squares = vec4(0.0);
    for (var i = 0u; i < STRIDE; i++) {
        squares += x[first + i] * x[first + i];
    }
    let scale = normaliser(squares);
    for (var i = 0u; i < STRIDE; i++) {
        out[first + i] = {% if add %}out[first + i] + {% endif %}x[first + i] * scale * weight[i];
    }
}
{% endif %}
