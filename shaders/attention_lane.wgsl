// attention_lane: softmax({% if cap %}capped {% endif %}scale * q . K) . V over the paged cache, one thread per (row, query head),
// without barriers and workgroup memory, for adapters that emulate them. Some of these end a thread
// after 65,535 loop iterations, so long contexts are split.
// in   tables     array<u32>  the block tables of all slots
//      query      array<vec4<f32>> [rows][QUERY_STRIDE / 4]  with sinks twice, the second time rotated for them
//      kv         array<Eight>  the layer's cache
{% if sink_logits %}
//      sink_logits array<f32> [HEADS]  part of the softmax, without a value
{% endif %}
{% if split %}
// out  partials   array<f32> [segments][rows][HEADS][HEAD_DIM + 2]  o, m, l of each segment
// grid (ceil(HEADS / {{ lanes }}), rows, segments) workgroups of {{ lanes }}
{% else %}
// out  attention  array<vec4<f32>> [rows][STRIDE / 4]  for contexts of at most one segment
// grid (ceil(HEADS / {{ lanes }}), rows) workgroups of {{ lanes }}
{% endif %}
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> tables: array<u32>;
@group(0) @binding(2) var<storage, read> query: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> kv: array<Eight>;
{% if split %}
@group(0) @binding(4) var<storage, read_write> partials: array<f32>;
{% elif sink_logits %}
@group(0) @binding(4) var<storage, read> sink_logits: array<f32>;
@group(0) @binding(5) var<storage, read_write> attention: array<vec4<f32>>;
{% else %}
@group(0) @binding(4) var<storage, read_write> attention: array<vec4<f32>>;
{% endif %}

const HEADS = {{ heads }}u;
const KV_HEADS = {{ kv_heads }}u;
const HEAD_DIM = {{ head_dim }}u;
const QUERY_STRIDE = {{ query_stride }}u;
const STRIDE = {{ stride }}u;
const EIGHTS = HEAD_DIM / 8u;

{% include "include/step.wgsl" %}
{% include "include/kv.wgsl" %}
{% include "include/window.wgsl" %}
{% include "include/softmax.wgsl" %}
{% include "include/cap.wgsl" %}

// Eight neighbouring dims.
{% if int8 %}
alias Eight = vec2<u32>;
const EIGHT_WORDS = 2u;
fn low(w: Eight) -> vec4<f32> { return kv_four(w.x); }
fn high(w: Eight) -> vec4<f32> { return kv_four(w.y); }
fn scale_of(head: u32, token: u32) -> f32 {
    let word = head + KV_SCALES + token;
    return bitcast<f32>(kv[word / 2u][word % 2u]);
}
{% else %}
alias Eight = vec4<u32>;
const EIGHT_WORDS = 4u;
fn low(w: Eight) -> vec4<f32> { return kv_four(w.xy); }
fn high(w: Eight) -> vec4<f32> { return kv_four(w.zw); }
{% endif %}

fn scaled_query(at: u32) -> mat2x4<f32> {
    return mat2x4(query[at] * {{ scale }}, query[at + 1u] * {{ scale }});
}

@compute @workgroup_size({{ lanes }})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let head = id.x;
    if (head >= HEADS) { return; }
    let row = row_at(id.y);
    let query_at = (id.y * QUERY_STRIDE + head * HEAD_DIM) / 4u;
    let kv_head = head / (HEADS / KV_HEADS);
{% for i in range(eighths) %}
    var q{{ i }} = scaled_query(query_at + {{ 2 * i }}u);
    var o{{ i }} = mat2x4<f32>();
{% endfor %}
    var m = LOWEST;
    var l = 0.0;
    let start = window_start(row.position);
    var scores: array<f32, BLOCK>;
{% if split %}
    let segment = id.z + select(0u, hidden_segments(start), id.z >= SINK_SEGMENTS);
    let end = min(row.position + 1u, (segment + 1u) * SEGMENT);
    var position = next_visible(start, segment * SEGMENT);
{% else %}
    let end = row.position + 1u;
    var position = next_visible(start, 0u);
{% endif %}
    while (position < end) {
        let block = block_at(row.table, position);
        let block_start = position / BLOCK * BLOCK;
        let first = position % BLOCK;
        let count = min(end - block_start, BLOCK);
{% if sinks %}
        let seen_at = query_at + select(0u, HEADS * HEAD_DIM / 4u, position < SINKS);
{% for i in range(eighths) %}
        q{{ i }} = scaled_query(seen_at + {{ 2 * i }}u);
{% endfor %}
{% endif %}
        let keys = keys_of(block, kv_head);
        var top = m;
        for (var i = first; i < count; i++) {
            let key = keys / EIGHT_WORDS + i * EIGHTS;
            var sum = vec4<f32>();
{% for i in range(eighths) %}
            let k{{ i }} = kv[key + {{ i }}u];
            sum += q{{ i }}[0] * low(k{{ i }}) + q{{ i }}[1] * high(k{{ i }});
{% endfor %}
            let score = {% if cap %}capped{% endif %}(((sum.x + sum.y) + (sum.z + sum.w)){% if int8 %} * scale_of(keys, i){% endif %});
            scores[i] = score;
            top = max(top, score);
        }
        let factor = exp(m - top);
        m = top;
        l *= factor;
{% for i in range(eighths) %}
        o{{ i }} *= factor;
{% endfor %}
        let values = values_of(block, kv_head);
        for (var i = first; i < count; i++) {
            let weight = exp(scores[i] - m);
            l += weight;
            let part = weight{% if int8 %} * scale_of(values, i){% endif %};
            let value = values / EIGHT_WORDS + i * EIGHTS;
{% for i in range(eighths) %}
            let v{{ i }} = kv[value + {{ i }}u];
            o{{ i }} += part * mat2x4(low(v{{ i }}), high(v{{ i }}));
{% endfor %}
        }
        position = next_visible(start, block_start + BLOCK);
    }
{% if split %}
    // The grid has as many segments as the longest row.
    if (segment * SEGMENT > row.position) { return; }
    let at = ((id.z * row_count() + id.y) * HEADS + head) * (HEAD_DIM + 2u);
{% for i in range(eighths) %}
    for (var j = 0u; j < 4u; j++) {
        partials[at + {{ 8 * i }}u + j] = o{{ i }}[0][j];
        partials[at + {{ 8 * i + 4 }}u + j] = o{{ i }}[1][j];
    }
{% endfor %}
    partials[at + HEAD_DIM] = m;
    partials[at + HEAD_DIM + 1u] = l;
}
{% else %}
{% if sink_logits %}
    let f = fold(sink_logits[head], m);
    l = fma(1.0, f.past, l * f.next);
{% for i in range(eighths) %}
    o{{ i }} *= f.next;
{% endfor %}
{% endif %}
    let at = (id.y * STRIDE + head * HEAD_DIM) / 4u;
{% for i in range(eighths) %}
    attention[at + {{ 2 * i }}u] = o{{ i }}[0] / l;
    attention[at + {{ 2 * i + 1 }}u] = o{{ i }}[1] / l;
{% endfor %}
}
{% endif %}
