// norm: out = {% if add %}out + {% endif %}v / sqrt(mean of squares of v + eps) · weight{% if centred %} + bias, where v = x - mean of x{% else %}, where v = x{% endif %}, for each {% if parts > 1 %}part of each {% endif %}row.
// in   x      [rows]{% if parts > 1 %}[PARTS]{% endif %}[STRIDE] vec4, padding 0
//      weight {% if parts > 1 %}[PARTS]{% endif %}[width / 4] vec4{% if centred %}, bias [STRIDE] vec4, padding 0{% endif %}
// out  out    [rows]{% if parts > 1 %}[PARTS]{% endif %}[OUT_STRIDE] vec4 from column COLUMN on, padding 0
{%- if barriers %}
// grid one workgroup of 64 threads per {% if parts > 1 %}part of a {% endif %}row
{%- if subgroups %}
{{ subgroups.enable }}
{%- endif %}
{%- else %}
// grid one thread per {% if parts > 1 %}part of a {% endif %}row, workgroups of 4: no barriers
{%- endif %}
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;
{%- if centred %}
@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;
{%- endif %}
@group(0) @binding({{ at.out }}) var<storage, read_write> out: array<vec4<f32>>;

{% include "include/step.wgsl" %}
const WIDTH = {{ width }}u;
const STRIDE = {{ stride // 4 }}u;
const OUT_STRIDE = {{ out_stride // 4 }}u;
const COLUMN = {{ column // 4 }}u;
{%- if parts > 1 %}
const PARTS = {{ parts }}u;
{%- endif %}

// The mean over a row, from the sums of every fourth number.
fn mean_of(sums: vec4<f32>) -> f32 { return dot(sums, vec4(1.0)) / {{ width }}.0; }
{% if centred %}
// Four numbers of x minus their mean; padding stays 0.
fn centred(at: u32, i: u32, mean: f32) -> vec4<f32> {
    let inside = 4u * i + vec4(0u, 1u, 2u, 3u) < vec4(WIDTH);
    return select(vec4(0.0), x[at] - mean, inside);
}
{% endif %}
{%- set value = "centred(first + i, i, mean)" if centred else "x[first + i]" %}
{%- set at_part = "part + i" if parts > 1 else "i" %}
{%- set result = value ~ " * scale * weight[" ~ at_part ~ "]" ~ (" + bias[" ~ at_part ~ "]" if centred else "") %}
{%- if barriers %}
{% include "include/reduce.wgsl" %}
@compute @workgroup_size(64){% if subgroups %}{{ subgroups.attribute }}{% endif %}
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
{%- if subgroups %}
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) size: u32,
{%- endif %}
) {
    let first = group.x * STRIDE;
    let place = group.x * OUT_STRIDE + COLUMN;
{%- if parts > 1 %}
    let part = group.x % PARTS * STRIDE;
{%- endif %}
{%- if centred %}
    var sums: array<vec4<f32>, VALUES>;
    for (var i = thread; i < STRIDE; i += 64u) { sums[0] += x[first + i]; }
    reduce(sums, thread{% if subgroups %}, lane, size{% endif %});
    let mean = mean_of(totals[0]);
{%- endif %}
    var squares: array<vec4<f32>, VALUES>;
    for (var i = thread; i < STRIDE; i += 64u) {
        let v = {{ value }};
        squares[0] += v * v;
    }
    reduce(squares, thread{% if subgroups %}, lane, size{% endif %});
    let scale = inverseSqrt(mean_of(totals[0]) + {{ eps }});
    for (var i = thread; i < STRIDE; i += 64u) {
        out[place + i] = {% if add %}out[place + i] + {% endif %}{{ result }};
    }
}
{% else %}
@compute @workgroup_size(4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= {{ count }}(){% if parts > 1 %} * PARTS{% endif %} { return; }
    let first = id.x * STRIDE;
    let place = id.x * OUT_STRIDE + COLUMN;
{%- if parts > 1 %}
    let part = id.x % PARTS * STRIDE;
{%- endif %}
{%- if centred %}
    var sums = vec4(0.0);
    for (var i = 0u; i < STRIDE; i++) { sums += x[first + i]; }
    let mean = mean_of(sums);
{%- endif %}
    var squares = vec4(0.0);
    for (var i = 0u; i < STRIDE; i++) {
        let v = {{ value }};
        squares += v * v;
    }
    let scale = inverseSqrt(mean_of(squares) + {{ eps }});
    for (var i = 0u; i < STRIDE; i++) {
        out[place + i] = {% if add %}out[place + i] + {% endif %}{{ result }};
    }
}
{% endif %}
