// matmul: out = [out +] W · x + [bias] for any number of rows of x, in tiles of 64 rows of x by 64
// rows of W, over 32 columns at a time; weights are dequantised into workgroup memory.
// in   x      [rows][k stride / 4] vec4
//      words, scales: W [n][k], see include/weights.wgsl
//      bias   [n]
{%- if experts %}
//      routes [choices] by expert, then tiles (see group.wgsl): a choice is a row of x or of out; W and
//             bias have rows for each expert
{%- endif %}
// out  out    see include/output.wgsl
// grid (tiles of 64 rows of W, tiles of 64 rows of x), 128 threads, each 8 rows of x by 4 of W
// uses 16 KiB of workgroup memory
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
const X_STRIDE = UNITS * PIECES;

// Both tiles are [column][16 quads of rows].
var<workgroup> x_tile: array<vec4<f32>, 512>;
var<workgroup> w_tile: array<vec4<f32>, 512>;

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
{%- if experts %}
    let tile_at = {{ count }}() * {{ experts.active }}u + 3u * group.y;
    let expert = routes[tile_at] - {{ experts.first }}u;
    let first = routes[tile_at + 1u];
    let row_end = routes[tile_at + 2u];
    if expert >= {{ experts.held }}u || row_end == 0u { return; }
{%- else %}
    let row_end = {{ count }}();
{%- endif %}
    let last = max(row_end, 1u) - 1u;

    // While loading: four columns of four rows of each matrix.
    let load_quad = thread % 16u;
    let load_columns = thread / 16u;
{%- if experts %}
    let n = expert * {{ experts.rows }}u + quad_rows(group.x * 16u + load_quad);
    let places = first + min(4u * load_quad + vec4(0u, 1u, 2u, 3u), vec4(last));
    let choices = vec4(routes[places.x], routes[places.y], routes[places.z], routes[places.w]);
    let rows = choices{% if not experts.each %} / {{ experts.active }}u{% endif %} * X_STRIDE;
{%- else %}
    let n = quad_rows(group.x * 16u + load_quad);
    let rows = min(group.y * 64u + 4u * load_quad + vec4(0u, 1u, 2u, 3u), vec4(last)) * X_STRIDE;
{%- endif %}
    // While multiplying: a quad of W and two of x.
    let w_quad = thread % 16u;
    let x_quad = thread / 16u * 2u;

    var sums: array<vec4<f32>, 8>;
    for (var tile = 0u; tile < X_STRIDE; tile += 8u) {
        let column = tile + load_columns;
        let w = transpose(mat4x4(
            weights_at(n.x, column),
            weights_at(n.y, column),
            weights_at(n.z, column),
            weights_at(n.w, column),
        ));
        let v = transpose(mat4x4(
            x[rows.x + column],
            x[rows.y + column],
            x[rows.z + column],
            x[rows.w + column],
        ));
        workgroupBarrier();
{%- for i in range(4) %}
        w_tile[(4u * load_columns + {{ i }}u) * 16u + load_quad] = w[{{ i }}];
        x_tile[(4u * load_columns + {{ i }}u) * 16u + load_quad] = v[{{ i }}];
{%- endfor %}
        workgroupBarrier();
        for (var i = 0u; i < 32u; i++) {
            let w = w_tile[i * 16u + w_quad];
            let above = x_tile[i * 16u + x_quad];
            let below = x_tile[i * 16u + x_quad + 1u];
{%- for r in range(4) %}
            sums[{{ r }}] += above.{{ "xyzw"[r] }} * w;
            sums[{{ r + 4 }}] += below.{{ "xyzw"[r] }} * w;
{%- endfor %}
        }
    }

{%- for r in range(8) %}
    {
        let row = {% if not experts %}group.y * 64u + {% endif %}4u * x_quad + {{ r }}u;
        if row < row_end { finish({% if experts %}routes[first + row]{% else %}row{% endif %}, group.x * 16u + w_quad, sums[{{ r }}]{% if experts %}, expert{% endif %}); }
    }
{%- endfor %}
}
