{#- One piece of four rows of W times all rows of x. Unrolled only where few rows keep it short. #}
{%- macro multiply(piece) %}
            let at = unit * PIECES + {{ piece }};
            let w = mat4x4(
                weights_of(words0, {{ piece }}, scale0),
                weights_of(words1, {{ piece }}, scale1),
                weights_of(words2, {{ piece }}, scale2),
                weights_of(words3, {{ piece }}, scale3),
            );
{%- if norm %}
            let g = norm[at];
{%- endif %}
{%- for r in range(rows) %}
{%- if norm %}
            let v{{ r }} = x[x{{ r }} + at];
            sums[ROWS + {{ r // 4 }}u].{{ "xyzw"[r % 4] }} += dot(v{{ r }}, v{{ r }});
            sums[{{ r }}] += (v{{ r }} * g) * w;
{%- else %}
            sums[{{ r }}] += x[x{{ r }} + at] * w;
{%- endif %}
{%- endfor %}
{%- endmacro -%}
// matvec: out = [out +] W · [rms_norm] x + [bias] for up to {{ rows }} rows of x; every weight is read
// once for all of them. The sums of a row have the same order for any number of rows.
// in   x      [rows][k stride / 4] vec4
//      words, scales: W [n][k], see include/weights.wgsl
//      norm   [k / 4] vec4, bias [n]
{%- if experts %}
//      routes [choices] (expert, weight): a choice is a row of x or of out; W and bias have rows for each expert
{%- endif %}
// out  out    see include/output.wgsl
// grid one workgroup of 64 threads per four rows of W, folded to two dimensions{% if experts %}; z = choices{% endif %}
{% if subgroups %}{{ subgroups.enable }}{% endif -%}
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> words: array<vec4<u32>>;
{%- if weights.scaled %}
@group(0) @binding({{ at.scales }}) var<storage, read> scales: array<u32>;
{%- endif %}
{%- if norm %}
@group(0) @binding({{ at.norm }}) var<storage, read> norm: array<vec4<f32>>;
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
{% include "include/reduce.wgsl" %}
const ROWS = {{ rows }}u;
const X_STRIDE = UNITS * PIECES;

@compute @workgroup_size(64){% if subgroups %}{{ subgroups.attribute }}{% endif %}
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
{%- if subgroups %}
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) size: u32,
{%- endif %}
) {
    let quad = group.x + group.y * groups.x;
{%- if experts %}
    let choice = group.z;
    let expert = routes[2u * choice] - {{ experts.first }}u;
    if expert >= {{ experts.held }}u { return; }
    let n = expert * {{ experts.rows }}u + quad_rows(quad);
    let x0 = choice{% if not experts.each %} / {{ experts.active }}u{% endif %} * X_STRIDE;
{%- else %}
    let n = quad_rows(quad);
    // Rows past the last repeat it; their results are dropped.
    let row_end = {{ count }}();
    let last = max(row_end, 1u) - 1u;
{%- for r in range(rows) %}
    let x{{ r }} = min({{ r }}u, last) * X_STRIDE;
{%- endfor %}
{%- endif %}

    // Products of each row{% if norm %}, then squares of the rows, four rows per vector{% endif %}.
    var sums: array<vec4<f32>, VALUES>;
    for (var unit = thread; unit < UNITS; unit += 64u) {
{%- for c in range(4) %}
        let words{{ c }} = words[n[{{ c }}] * UNITS + unit];
        let scale{{ c }} = scale_of(n[{{ c }}], unit);
{%- endfor %}
{%- if rows <= 2 %}
{%- for p in range(weights.pieces) %}
        { {{- multiply(p ~ "u") }}
        }
{%- endfor %}
{%- else %}
        for (var piece = 0u; piece < PIECES; piece++) { {{- multiply("piece") }}
        }
{%- endif %}
    }

    reduce(sums, thread{% if subgroups %}, lane, size{% endif %});
    if thread < {% if experts %}ROWS{% else %}min(ROWS, row_end){% endif %} {
{%- if norm %}
        let square = totals[ROWS + thread / 4u][thread % 4u];
        finish({% if experts %}choice{% else %}thread{% endif %}, quad, totals[thread] * inverseSqrt(square / {{ k }}.0 + {{ eps }}){% if experts %}, expert{% endif %});
{%- else %}
        finish({% if experts %}choice{% else %}thread{% endif %}, quad, totals[thread]{% if experts %}, expert{% endif %});
{%- endif %}
    }
}
