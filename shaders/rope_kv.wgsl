// rope_kv: q and k of each row, {% if norm %}normalised {% if norm_of_row %}each as a whole{% else %}per head{% endif %} and {% endif %}rotated; q to `query`, k and v to the cache.
// Rotates pairs of dims (d, d + ROTARY / 2) of the first ROTARY by position * frequency(d).
{%- if rotary < head_dim %}
// Queries and keys are stored with the dims of a pair HEAD_DIM / 2 apart; those after ROTARY too.
{%- endif %}
// in   tables array<u32>       the block tables of all slots
//      qkv    array<vec2<f32>> [rows][QKV_STRIDE / 2]  q heads, k heads, v heads
//      rope   array<vec2<f32>> [256 + ceil(context / 256)][HEAD_DIM / 2]  (cos, sin) of the angles
//             of positions 0..255, then of 0, 256, 512, ...
{%- if norm_of_row %}
//      q_norm, k_norm  array<vec2<f32>> [HEADS * HEAD_DIM / 2], [KV_HEADS * HEAD_DIM / 2]
{%- elif norm %}
//      q_norm, k_norm  array<vec2<f32>> [HEAD_DIM / 2]
{%- endif %}
// out  query  array<vec2<f32>> [rows][QUERY_STRIDE / 2]{% if sinks %}  twice, see `hidden`{% endif %}
//      kv     array<u32>       the layer's cache, {% if int8 %}int8{% else %}f16{% endif %}
{% if barriers %}
// grid (ceil(heads of a row / HEADS_PER_GROUP), rows) workgroups of 64, a thread per 4 dims
{% else %}
// grid (ceil(heads of a row / {{ lanes }}), rows) workgroups of {{ lanes }}, a thread per head, no barrier
{% endif %}
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> tables: array<u32>;
@group(0) @binding(2) var<storage, read> qkv: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> rope: array<vec2<f32>>;
{% if norm %}
@group(0) @binding(4) var<storage, read> q_norm: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read> k_norm: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read_write> query: array<vec2<f32>>;
@group(0) @binding(7) var<storage, read_write> kv: array<u32>;
{% else %}
@group(0) @binding(4) var<storage, read_write> query: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read_write> kv: array<u32>;
{% endif %}

const HEADS = {{ heads }}u;
const KV_HEADS = {{ kv_heads }}u;
const HEAD_DIM = {{ head_dim }}u;
const QKV_STRIDE = {{ qkv_stride }}u;
const QUERY_STRIDE = {{ query_stride }}u;
const QKV_HEADS = HEADS + 2u * KV_HEADS;
// With sinks, the queries follow once more: see `hidden`.
const ALL_HEADS = QKV_HEADS{% if sinks %} + HEADS{% endif %};
// Dims are handled in fours, (2i, 2i + 1) of the lower half and of the upper one.
const FOURS = HEAD_DIM / 4u;

{% include "include/step.wgsl" %}
{% include "include/kv.wgsl" %}

// cos and sin of position * frequency(d), as the sum of two tabulated angles: WGSL's sin and cos are
// not accurate for large arguments.
fn turn(position: u32, d: u32) -> vec2<f32> {
    let fine = rope[(position % 256u) * (HEAD_DIM / 2u) + d];
    let coarse = rope[(256u + position / 256u) * (HEAD_DIM / 2u) + d];
    return vec2(coarse.x * fine.x - coarse.y * fine.y, coarse.y * fine.x + coarse.x * fine.y);
}

// Positions between the sinks and the window, which a row does not attend to. For the sinks, a query is
// rotated as if these positions did not exist.
fn hidden(position: u32) -> u32 {
{% if sinks %}
    return max(position + 1u, {{ sinks + window }}u) - {{ sinks + window }}u;
{% else %}
    return 0u;
{% endif %}
}

{% if rotary < head_dim %}
// Source of the dims stored at i and i + FOURS; values keep their places.
const TURNING = {{ rotary // 4 }}u;
fn places(head: u32, i: u32) -> vec2<u32> {
    if (head >= HEADS + KV_HEADS && head < QKV_HEADS) { return vec2(i, i + FOURS); }
    return select(vec2(i + TURNING, i + FOURS), vec2(i, i + TURNING), i < TURNING);
}
{% else %}
fn places(head: u32, i: u32) -> vec2<u32> { return vec2(i, i + FOURS); }
{% endif %}

struct Four { low: vec2<f32>, high: vec2<f32> }

fn load(row: u32, head: u32, i: u32) -> Four {
    let at = (row * QKV_STRIDE + head % QKV_HEADS * HEAD_DIM) / 2u + places(head, i);
    return Four(qkv[at.x], qkv[at.y]);
}

fn squares(x: Four) -> f32 { return dot(x.low, x.low) + dot(x.high, x.high); }

{% if norm_of_row %}
// The index of a head among the queries, or among the keys.
fn norm_head(head: u32) -> u32 {
    let place = head % QKV_HEADS;
    return select(place - HEADS, place, place < HEADS);
}
{% endif %}

fn is_query(head: u32) -> bool { return head % QKV_HEADS < HEADS; }

// Dims of a head as they are stored; values are not reordered.
fn turned(row: Row, head: u32, i: u32, loaded: Four, factor: f32) -> Four {
    if (head >= HEADS + KV_HEADS && head < QKV_HEADS) { return loaded; }
    var x = loaded;
{% if norm %}
    let at = {% if norm_of_row %}norm_head(head) * HEAD_DIM / 2u + {% endif %}places(head, i);
    if (is_query(head)) {
        x = Four(x.low * factor * q_norm[at.x], x.high * factor * q_norm[at.y]);
    } else {
        x = Four(x.low * factor * k_norm[at.x], x.high * factor * k_norm[at.y]);
    }
{% endif %}
    let position = row.position - select(0u, hidden(row.position), head >= QKV_HEADS);
    let a = turn(position, 2u * i);
    let b = turn(position, 2u * i + 1u);
    let cosines = vec2(a.x, b.x);
    let sines = vec2(a.y, b.y);
    return Four(x.low * cosines - x.high * sines, x.high * cosines + x.low * sines);
}

fn store_query(row: u32, head: u32, i: u32, x: Four) {
    let place = select(head, head - QKV_HEADS + HEADS, head >= QKV_HEADS);
    let at = (row * QUERY_STRIDE + place * HEAD_DIM) / 2u + i;
    query[at] = x.low;
    query[at + FOURS] = x.high;
}

// First word of the keys or values of a head in the row's block; values follow the keys as if they were
// further KV heads.
fn head_at(row: Row, head: u32) -> u32 {
    return keys_of(block_at(row.table, row.position), head - HEADS);
}

// First word of the row's key or value in the cache.
fn kv_at(row: Row, head: u32) -> u32 {
    return head_at(row, head) + row.position % BLOCK * KV_TOKEN_WORDS;
}
{% if int8 %}
// Index of its scale.
fn scale_at(row: Row, head: u32) -> u32 {
    return head_at(row, head) + KV_SCALES + row.position % BLOCK;
}

fn largest(x: Four) -> f32 {
    let most = max(abs(x.low), abs(x.high));
    return max(most.x, most.y);
}

// The step of int8 values, where `largest` is the largest magnitude of a head.
fn scale_of(largest: f32) -> f32 { return max(largest / 127.0, 1e-6); }

// Rounded to nearest, ties away from zero.
fn quantised(a: vec2<f32>, b: vec2<f32>, scale: f32) -> u32 {
    let x = clamp(vec4(a, b) / scale, vec4(-127.0), vec4(127.0));
    let bytes = vec4<u32>(vec4<i32>(sign(x) * floor(abs(x) + 0.5))) & vec4(0xffu);
    return bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
}
{% else %}
const HALF_MAX = vec2<f32>(65504.0);

fn store_kv(row: Row, head: u32, i: u32, x: Four) {
    let at = kv_at(row, head) + i;
    kv[at] = pack2x16float(clamp(x.low, -HALF_MAX, HALF_MAX));
    kv[at + FOURS] = pack2x16float(clamp(x.high, -HALF_MAX, HALF_MAX));
}
{% endif %}

{% if norm_of_row %}
// Partial sums of squares of a row's queries, and of its keys: of every so many pairs, from `first` on.
const QUERY_PAIRS = HEADS * HEAD_DIM / 2u;
const KEY_PAIRS = KV_HEADS * HEAD_DIM / 2u;
fn row_squares(row: u32, first: u32, every: u32) -> vec2<f32> {
    let at = row * QKV_STRIDE / 2u;
    var sums = vec2<f32>();
    for (var i = first; i < QUERY_PAIRS; i += every) { sums.x += dot(qkv[at + i], qkv[at + i]); }
    for (var i = QUERY_PAIRS + first; i < QUERY_PAIRS + KEY_PAIRS; i += every) {
        sums.y += dot(qkv[at + i], qkv[at + i]);
    }
    return sums;
}

fn row_factor(head: u32, sums: vec2<f32>) -> f32 {
    let mean = sums / vec2(f32(2u * QUERY_PAIRS), f32(2u * KEY_PAIRS));
    return inverseSqrt(select(mean.y, mean.x, is_query(head)) + {{ eps }});
}
{% elif norm %}
fn norm_factor(sum: f32) -> f32 {
    return inverseSqrt(sum / f32(HEAD_DIM) + {{ eps }});
}
{% endif %}

{% if barriers %}
const HEADS_PER_GROUP = {{ heads_per_group }}u;
{% if norm_of_row %}
var<workgroup> partial: array<vec2<f32>, 64>;
{% elif norm %}
var<workgroup> partial: array<f32, 64>;
{% endif %}
{% if int8 %}
var<workgroup> heads: array<Four, 64>;
{% endif %}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let i = thread % FOURS;
    let head = group.x * HEADS_PER_GROUP + thread / FOURS;
    let used = thread < HEADS_PER_GROUP * FOURS && head < ALL_HEADS;
    let row = row_at(group.y);
    var x = Four();
    if (used) { x = load(group.y, head, i); }
    var factor = 1.0;
{% if norm_of_row %}
    partial[thread] = row_squares(group.y, thread, 64u);
    workgroupBarrier();
    var sums = vec2<f32>();
    for (var j = 0u; j < 64u; j++) { sums += partial[j]; }
    factor = row_factor(head, sums);
{% elif norm %}
    partial[thread] = squares(x);
    workgroupBarrier();
    var sum = 0.0;
    for (var j = thread - i; j < min(thread - i + FOURS, 64u); j++) { sum += partial[j]; }
    factor = norm_factor(sum);
{% endif %}
    if (used) {
        x = turned(row, head, i, x, factor);
        if (is_query(head)) { store_query(group.y, head, i, x); }
{% if not int8 %}
        else { store_kv(row, head, i, x); }
{% endif %}
    }
{% if int8 %}
    heads[thread] = x;
    workgroupBarrier();
    if (used && !is_query(head)) {
        let first = thread - i;
        var most = 0.0;
        for (var j = 0u; j < FOURS; j++) { most = max(most, largest(heads[first + j])); }
        let scale = scale_of(most);
        // Word i holds dims 4i .. 4i + 3: two threads' lower dims, or their upper ones.
        let a = heads[first + 2u * i % FOURS];
        let b = heads[first + (2u * i + 1u) % FOURS];
        let is_low = 2u * i < FOURS;
        kv[kv_at(row, head) + i] =
            quantised(select(a.high, a.low, is_low), select(b.high, b.low, is_low), scale);
        if (i == 0u) { kv[scale_at(row, head)] = bitcast<u32>(scale); }
    }
{% endif %}
}
{% else %}
@compute @workgroup_size({{ lanes }})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let head = id.x;
    if (head >= ALL_HEADS) { return; }
    let row = row_at(id.y);
    var factor = 1.0;
{% if norm_of_row %}
    factor = row_factor(head, row_squares(id.y, 0u, 1u));
{% elif norm %}
    var sum = 0.0;
    for (var i = 0u; i < FOURS; i++) { sum += squares(load(id.y, head, i)); }
    factor = norm_factor(sum);
{% endif %}
    if (is_query(head)) {
        for (var i = 0u; i < FOURS; i++) {
            store_query(id.y, head, i, turned(row, head, i, load(id.y, head, i), factor));
        }
        return;
    }
{% if int8 %}
    var most = 0.0;
    for (var i = 0u; i < FOURS; i++) {
        most = max(most, largest(turned(row, head, i, load(id.y, head, i), factor)));
    }
    let scale = scale_of(most);
    let at = kv_at(row, head);
    for (var i = 0u; i < FOURS; i += 2u) {
        let a = turned(row, head, i, load(id.y, head, i), factor);
        let b = turned(row, head, i + 1u, load(id.y, head, i + 1u), factor);
        kv[at + i / 2u] = quantised(a.low, b.low, scale);
        kv[at + (FOURS + i) / 2u] = quantised(a.high, b.high, scale);
    }
    kv[scale_at(row, head)] = bitcast<u32>(scale);
{% else %}
    for (var i = 0u; i < FOURS; i++) {
        store_kv(row, head, i, turned(row, head, i, load(id.y, head, i), factor));
    }
{% endif %}
}
{% endif %}
