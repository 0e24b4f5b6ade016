// attention: softmax({% if cap %}capped {% endif %}scale * q . K) . V over the paged cache, for the rows of one tile and the query
// heads of one KV head at once, so that keys and values are read once for all of them.
// A vector is one (row, query head) of these: at most {{ vectors }}, vector v = row v / GROUP, head v % GROUP.
// in   tables  array<u32>  the block tables of all slots
//      query  array<vec4<f32>> [rows][QUERY_STRIDE / 4]  with sinks twice, the second time rotated for them
//      kv     array<KvFour>  the layer's cache
{% if sink_logits %}
//      sink_logits array<f32> [HEADS]  part of the softmax, without a value
{% endif %}
{% if split %}
// out  partials  array<f32> [segments][rows][HEADS][HEAD_DIM + 2]  o, m, l of each segment
// grid (tiles, KV_HEADS * SLICES, segments) workgroups of 128
{% else %}
// out  attention  array<vec4<f32>> [rows][STRIDE / 4]
// grid (tiles, KV_HEADS * SLICES) workgroups of 128
{% endif %}
// uses about 10 KiB of workgroup memory
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> tables: array<u32>;
@group(0) @binding(2) var<storage, read> query: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> kv: array<KvFour>;
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
// The query heads of a KV head are divided among SLICES workgroups, GROUP each.
const SLICES = {{ slices }}u;
const GROUP = {{ group }}u;
const HEADS_PER_KV = HEADS / KV_HEADS;
const THREADS = 128u;
// Keys are processed KEYS at a time, and their dims in chunks of 4 * CHUNK.
const KEYS = 64u;
const CHUNK = 8u;
const FOURS = HEAD_DIM / 4u;
const FOUR_WORDS = {{ four_words }}u;
// Values: a thread sums 4 dims of every SPREAD-th vector.
const SPREAD = THREADS / FOURS;

{% include "include/step.wgsl" %}
{% include "include/kv.wgsl" %}
{% include "include/window.wgsl" %}
{% include "include/softmax.wgsl" %}
{% include "include/cap.wgsl" %}

// Rows are padded so that neighbouring threads use different banks.
const KEY_PITCH = CHUNK + 1u;
const WEIGHT_PITCH = KEYS + 8u;
var<workgroup> keys: array<KvFour, KEYS * KEY_PITCH>;
// Scores, then exp(score - m), of [vector][key].
var<workgroup> weights: array<f32, {{ vectors }}u * WEIGHT_PITCH>;
// Per vector, for each of the 8 threads that reduce it: a largest score or a sum.
var<workgroup> reduced: array<f32, THREADS>;
// Per vector: the factor for o when m rises, and m.
var<workgroup> rescale: array<f32, {{ vectors }}>;
var<workgroup> largest: array<f32, {{ vectors }}>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let tile = tile_at(workgroup.x);
    let first = row_at(tile.row);
    let kv_head = workgroup.y / SLICES;
    let slice_head = workgroup.y % SLICES * GROUP;
    let head = kv_head * HEADS_PER_KV + slice_head;
    // The last slice of a KV head may be shorter.
    let group = min(GROUP, HEADS_PER_KV - slice_head);
    let vectors = tile.rows * group;
    let start = window_start(first.position);
    let end = first.position + tile.rows;

    // Scores: a thread computes one key of a step and every second vector.
    let key = thread % KEYS;
    let parity = thread / KEYS;
{% for i in range(score_vectors) %}
    let score_vector{{ i }} = parity + {{ 2 * i }}u;
    let query{{ i }} = ((tile.row + score_vector{{ i }} / group) * QUERY_STRIDE + (head + score_vector{{ i }} % group) * HEAD_DIM) / 4u;
{% endfor %}
    // Softmax: 8 threads share a vector.
    let vector = thread / 8u;
    let lane = thread % 8u;
    // Values: see SPREAD.
    let four = thread % FOURS;
    let spread = thread / FOURS;
{% if not split %}
{% for i in range(value_vectors) %}
    var sum_o{{ i }} = vec4<f32>();
{% if sink_logits %}
    var sum_l{{ i }} = 1.0;
    var sum_m{{ i }} = sink_logits[head + (spread + {{ i }}u * SPREAD) % group];
{% else %}
    var sum_l{{ i }} = 0.0;
    var sum_m{{ i }} = LOWEST;
{% endif %}
{% endfor %}
{% endif %}

{% if split %}
    let segment = workgroup.z + select(0u, hidden_segments(start), workgroup.z >= SINK_SEGMENTS);
    if (segment * SEGMENT >= end) { return; }
    let begin = next_visible(start, segment * SEGMENT);
{% else %}
    var begin = next_visible(start, 0u);
    while (begin < end) {
    let segment = begin / SEGMENT;
{% endif %}
    var m = LOWEST;
    var l = 0.0;
{% for i in range(value_vectors) %}
    var o{{ i }} = vec4<f32>();
{% endfor %}
    let segment_end = min(end, (segment + 1u) * SEGMENT);
    for (var base = begin / KEYS * KEYS; base < segment_end; base = next_visible(start, base + KEYS) / KEYS * KEYS) {
        let position = base + key;
        // Sinks use the second queries.
        let view = select(0u, HEADS * HEAD_DIM / 4u, position < SINKS);
{% for i in range(score_vectors) %}
        var score{{ i }} = 0.0;
{% endfor %}
        for (var chunk = 0u; chunk < FOURS; chunk += CHUNK) {
            let width = min(CHUNK, FOURS - chunk);
            workgroupBarrier();
            for (var i = thread; i < KEYS * CHUNK; i += THREADS) {
                let position = base + i / CHUNK;
                if (position < segment_end && attends(start, position) && i % CHUNK < width) {
                    let token = keys_of(block_at(first.table, position), kv_head) / FOUR_WORDS
                        + position % BLOCK * FOURS;
                    keys[i / CHUNK * KEY_PITCH + i % CHUNK] = kv[token + chunk + i % CHUNK];
                }
            }
            workgroupBarrier();
            for (var i = 0u; i < width; i++) {
                let k = kv_four(keys[key * KEY_PITCH + i]);
{% for i in range(score_vectors) %}
                if (score_vector{{ i }} < vectors) { score{{ i }} += dot(query[query{{ i }} + view + chunk + i], k); }
{% endfor %}
            }
        }
{% if int8 %}
        var scale = 0.0;
        if (position < segment_end && attends(start, position)) {
            let scales = keys_of(block_at(first.table, position), kv_head) + KV_SCALES;
            scale = {{ scale }} * bitcast<f32>(kv[scales + position % BLOCK]);
        }
{% else %}
        let scale = {{ scale }};
{% endif %}
{% for i in range(score_vectors) %}
        if (score_vector{{ i }} < vectors) {
            let row_position = first.position + score_vector{{ i }} / group;
            let visible = position <= row_position && attends(window_start(row_position), position);
            weights[score_vector{{ i }} * WEIGHT_PITCH + key] = select(LOWEST, {% if cap %}capped(score{{ i }} * scale){% else %}score{{ i }} * scale{% endif %}, visible);
        }
{% endfor %}
        workgroupBarrier();

        if (vector < vectors) {
            var top = LOWEST;
            for (var i = lane; i < KEYS; i += 8u) { top = max(top, weights[vector * WEIGHT_PITCH + i]); }
            reduced[thread] = top;
        }
        workgroupBarrier();
        if (vector < vectors) {
            let old = m;
            for (var i = 0u; i < 8u; i++) { m = max(m, reduced[vector * 8u + i]); }
            let factor = exp(old - m);
            l *= factor;
            for (var i = lane; i < KEYS; i += 8u) {
                let at = vector * WEIGHT_PITCH + i;
                let weight = select(exp(weights[at] - m), 0.0, weights[at] == LOWEST);
                weights[at] = weight;
                l += weight;
            }
            if (lane == 0u) { rescale[vector] = factor; }
        }
        workgroupBarrier();

        if (spread < SPREAD) {
{% for i in range(value_vectors) %}
            let vector{{ i }} = spread + {{ i }}u * SPREAD;
            if (vector{{ i }} < vectors) { o{{ i }} *= rescale[vector{{ i }}]; }
{% endfor %}
            // Values that no row of the tile attends to may be anything, NaN too: they are not read.
            let step_end = min(segment_end, base + KEYS);
            var position = next_visible(start, base);
            while (position < step_end) {
                let values = values_of(block_at(first.table, position), kv_head);
                let block_end = min(step_end, (position / BLOCK + 1u) * BLOCK);
                for (; position < block_end; position++) {
                    let token = position % BLOCK;
                    let at = values / FOUR_WORDS + token * FOURS + four;
                    let value = kv_four(kv[at]){% if int8 %} * bitcast<f32>(kv[values + KV_SCALES + token]){% endif %};
{% for i in range(value_vectors) %}
                    if (vector{{ i }} < vectors) {
                        o{{ i }} += weights[vector{{ i }} * WEIGHT_PITCH + position - base] * value;
                    }
{% endfor %}
                }
                position = next_visible(start, position);
            }
        }
    }

    // The segment is complete.
    reduced[thread] = l;
    if (lane == 0u && vector < vectors) { largest[vector] = m; }
    workgroupBarrier();
{% for i in range(value_vectors) %}
    {
        let v = spread + {{ i }}u * SPREAD;
        if (spread < SPREAD && v < vectors) {
            var total = 0.0;
            for (var i = 0u; i < 8u; i++) { total += reduced[v * 8u + i]; }
{% if split %}
            let row_position = first.position + v / group;
            let past_sinks = segment >= SINK_SEGMENTS;
            let hidden = select(0u, hidden_segments(window_start(row_position)), past_sinks);
            let visible = segment <= row_position / SEGMENT && (!past_sinks || segment >= SINK_SEGMENTS + hidden);
            if (visible) {
                let row = (segment - hidden) * row_count() + tile.row + v / group;
                let at = (row * HEADS + head + v % group) * (HEAD_DIM + 2u);
                for (var i = 0u; i < 4u; i++) { partials[at + 4u * four + i] = o{{ i }}[i]; }
                if (four == 0u) {
                    partials[at + HEAD_DIM] = largest[v];
                    partials[at + HEAD_DIM + 1u] = total;
                }
            }
{% else %}
            let f = fold(sum_m{{ i }}, largest[v]);
            sum_m{{ i }} = f.m;
            sum_l{{ i }} = fma(sum_l{{ i }}, f.past, total * f.next);
            sum_o{{ i }} = fma(sum_o{{ i }}, vec4(f.past), o{{ i }} * f.next);
{% endif %}
        }
    }
{% endfor %}
{% if not split %}
    begin = next_visible(start, (segment + 1u) * SEGMENT);
    }
{% for i in range(value_vectors) %}
    {
        let v = spread + {{ i }}u * SPREAD;
        if (spread < SPREAD && v < vectors) {
            attention[((tile.row + v / group) * STRIDE + (head + v % group) * HEAD_DIM) / 4u + four] = sum_o{{ i }} / sum_l{{ i }};
        }
    }
{% endfor %}
{% endif %}
}
