// attention_lane: softmax(scale * q . K) . V over the paged cache, one thread per (row, query head),
// without barriers and workgroup memory, for adapters that emulate them.
// in   tables     array<u32>  the block tables of all slots
//      query      array<vec4<f32>> [rows][STRIDE / 4]
//      kv         array<vec4<u32>>  the layer's cache
// out  attention  array<vec4<f32>> [rows][STRIDE / 4]
// grid (ceil(HEADS / {{ lanes }}), rows) workgroups of {{ lanes }}
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> tables: array<u32>;
@group(0) @binding(2) var<storage, read> query: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> kv: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> attention: array<vec4<f32>>;

const HEADS = {{ heads }}u;
const KV_HEADS = {{ kv_heads }}u;
const HEAD_DIM = {{ head_dim }}u;
const STRIDE = {{ stride }}u;
const EIGHTS = HEAD_DIM / 8u;

{% include "include/step.wgsl" %}
{% include "include/kv.wgsl" %}
{% include "include/softmax.wgsl" %}

fn low(w: vec4<u32>) -> vec4<f32> { return vec4(unpack2x16float(w.x), unpack2x16float(w.y)); }
fn high(w: vec4<u32>) -> vec4<f32> { return vec4(unpack2x16float(w.z), unpack2x16float(w.w)); }

@compute @workgroup_size({{ lanes }})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let head = id.x;
    if (head >= HEADS) { return; }
    let row = row_at(id.y);
    let at = (id.y * STRIDE + head * HEAD_DIM) / 4u;
    let kv_head = head / (HEADS / KV_HEADS);
{% for i in range(eighths) %}
    let q{{ i }} = mat2x4(query[at + {{ 2 * i }}u] * {{ scale }}, query[at + {{ 2 * i + 1 }}u] * {{ scale }});
    var o{{ i }} = mat2x4<f32>();
{% endfor %}
    var m = LOWEST;
    var l = 0.0;
    let start = window_start(row.position);
    var scores: array<f32, BLOCK>;
    for (var block = start / BLOCK; block <= row.position / BLOCK; block++) {
        let id = tables[row.table + block];
        let first = max(start, block * BLOCK) % BLOCK;
        let count = min(row.position + 1u - block * BLOCK, BLOCK);
        let keys = keys_of(id, kv_head) / 4u;
        var top = m;
        for (var i = first; i < count; i++) {
            let key = keys + i * EIGHTS;
            var sum = vec4<f32>();
{% for i in range(eighths) %}
            let k{{ i }} = kv[key + {{ i }}u];
            sum += q{{ i }}[0] * low(k{{ i }}) + q{{ i }}[1] * high(k{{ i }});
{% endfor %}
            let score = (sum.x + sum.y) + (sum.z + sum.w);
            scores[i] = score;
            top = max(top, score);
        }
        let factor = exp(m - top);
        m = top;
        l *= factor;
{% for i in range(eighths) %}
        o{{ i }} *= factor;
{% endfor %}
        let values = values_of(id, kv_head) / 4u;
        for (var i = first; i < count; i++) {
            let weight = exp(scores[i] - m);
            l += weight;
            let value = values + i * EIGHTS;
{% for i in range(eighths) %}
            let v{{ i }} = kv[value + {{ i }}u];
            o{{ i }} += weight * mat2x4(low(v{{ i }}), high(v{{ i }}));
{% endfor %}
        }
    }
{% for i in range(eighths) %}
    attention[at + {{ 2 * i }}u] = o{{ i }}[0] / l;
    attention[at + {{ 2 * i + 1 }}u] = o{{ i }}[1] / l;
{% endfor %}
}
