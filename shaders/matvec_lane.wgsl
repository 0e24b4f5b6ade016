// matvec_lane: out = [out +] W · x + [bias] without barriers, for adapters that emulate them: a
// thread computes four rows of W with {{ rows }} rows of x.
// in   x      [rows][k stride / 4] vec4
//      words, scales: W [n][k], see include/weights.wgsl
//      bias   [n]
{%- if experts %}
//      routes [choices] (expert, weight): a choice is a row of x or of out; W and bias have rows for each expert
{%- endif %}
// out  out    see include/output.wgsl
// grid one thread per four rows of W, in workgroups of 16 folded to two dimensions; z = tiles of rows of x
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> words: array<vec4<u32>>;
{%- if weights.scaled %}
@group(0) @binding({{ at.scales }}) var<storage, read> scales: array<u32>;
{%- endif %}
{%- if output.bias %}
@group(0) @binding({{ at.bias }}) var<storage, read> bias: array<f32>;
{%- endif %}
{%- if experts %}
@group(0) @binding({{ at.routes }}) var<storage, read> routes: array<u32>;
{%- endif %}
@group(0) @binding({{ at.out }}) var<storage, read_write> out: array<f32>;

{% include "include/step.wgsl" %}
{% include "include/weights.wgsl" %}
{% include "include/output.wgsl" %}
const ROWS = {{ rows }}u;
const X_STRIDE = UNITS * PIECES;

@compute @workgroup_size(16)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let quad = (group.x + group.y * groups.x) * 16u + thread;
{%- if experts %}
    let expert = routes[2u * group.z] - {{ experts.first }}u;
    if expert >= {{ experts.held }}u { return; }
    let n = expert * {{ experts.rows }}u + quad_rows(quad);
    let row_end = {{ count }}() * {{ experts.active }}u;
    let x0 = group.z{% if not experts.each %} / {{ experts.active }}u{% endif %} * X_STRIDE;
{%- else %}
    let n = quad_rows(quad);
    let row_end = {{ count }}();
    let last = max(row_end, 1u) - 1u;
{%- for r in range(rows) %}
    let x{{ r }} = min(group.z * ROWS + {{ r }}u, last) * X_STRIDE;
{%- endfor %}
{%- endif %}

    var sums: array<vec4<f32>, ROWS>;
    for (var unit = 0u; unit < UNITS; unit++) {
{%- for c in range(4) %}
        let words{{ c }} = words[n[{{ c }}] * UNITS + unit];
        let scale{{ c }} = scale_of(n[{{ c }}], unit);
{%- endfor %}
        for (var p = 0u; p < PIECES; p++) {
            let at = unit * PIECES + p;
            let w = mat4x4(
                weights_of(words0, p, scale0),
                weights_of(words1, p, scale1),
                weights_of(words2, p, scale2),
                weights_of(words3, p, scale3),
            );
{%- for r in range(rows) %}
            sums[{{ r }}] += x[x{{ r }} + at] * w;
{%- endfor %}
        }
    }

{%- for r in range(rows) %}
    {
        let row = group.z * ROWS + {{ r }}u;
        if row < row_end { finish(row, quad, sums[{{ r }}]{% if experts %}, expert{% endif %}); }
    }
{%- endfor %}
}
