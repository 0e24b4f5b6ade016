// How a matrix product writes its results. They come in fours, from four rows of the matrix:
{%- if output.gated %}
// gate rows 2·quad, 2·quad + 1 and the matching up rows.
{%- else %}
// rows 4·quad .. 4·quad + 3.
{%- endif %}
// out   [rows][OUT_STRIDE] f32, this matrix fills columns FIRST .. FIRST + COLUMNS - 1
const COLUMNS = {{ output.columns }}u;
const FIRST = {{ output.first }}u;
const OUT_STRIDE = {{ output.stride }}u;

// The rows of a quad; those past the end repeat the last row, and `finish` drops them.
fn quad_rows(quad: u32) -> vec4<u32> {
{%- if output.gated %}
    let gate = min(2u * quad + vec2(0u, 1u), vec2(COLUMNS - 1u));
    return vec4(gate, gate + COLUMNS);
{%- else %}
    return min(4u * quad + vec4(0u, 1u, 2u, 3u), vec4(COLUMNS - 1u));
{%- endif %}
}

fn put(row: u32, column: u32, y: f32) {
    if column < COLUMNS {
        let at = row * OUT_STRIDE + FIRST + column;
        out[at] = {% if output.add %}out[at] + {% elif output.times %}out[at] * {% endif %}y;
    }
}

{% include "include/cap.wgsl" %}
{%- if output.gated or output.gelu or output.silu %}
{%- set numbers = "vec2<f32>" if output.gated else "vec4<f32>" %}
// The activation function of the gate, or of an ungated result.
fn activated(x: {{ numbers }}) -> {{ numbers }} {
{%- if output.gelu %}
    // gelu(x) = x / (1 + exp(-2z)), which is x (1 + tanh z) / 2, z = sqrt(2 / pi) (x + 0.044715 x^3).
    return x / (1.0 + exp(-1.5957691 * (x + 0.044715 * x * x * x)));
{%- else %}
    return x / (1.0 + exp(-x));
{%- endif %}
}
{%- endif %}

// Writes the results of a quad for one row of x.
fn finish(row: u32, quad: u32, product: vec4<f32>{% if experts %}, expert: u32{% endif %}) {
    var y = product;
{%- if output.bias %}
    let at = {% if experts %}({{ experts.first }}u + expert) * {{ experts.rows }}u{% else %}FIRST{% endif %} + quad_rows(quad);
    y += vec4(bias[at.x], bias[at.y], bias[at.z], bias[at.w]);
{%- endif %}
{%- if output.scale %}
    y *= {{ output.scale }};
{%- endif %}
{%- if cap %}
    y = capped(y);
{%- endif %}
{%- if output.gated %}
{%- if output.clamped %}
    let gate = min(y.xy, vec2(7.0));
    let gated = gate / (1.0 + exp(-1.702 * gate)) * (clamp(y.zw, vec2(-7.0), vec2(7.0)) + 1.0);
{%- else %}
    let gated = activated(y.xy) * y.zw;
{%- endif %}
    put(row, 2u * quad, gated.x);
    put(row, 2u * quad + 1u, gated.y);
{%- else %}
{%- if output.gelu or output.silu %}
    y = activated(y);
{%- endif %}
    put(row, 4u * quad, y.x);
    put(row, 4u * quad + 1u, y.y);
    put(row, 4u * quad + 2u, y.z);
    put(row, 4u * quad + 3u, y.w);
{%- endif %}
}
