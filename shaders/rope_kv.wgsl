// rope_kv: q and k of each row, normalised per head{% if not norm %} (not here){% endif %} and rotated; q to `query`, k and v to the cache.
// A rotation turns the pair of dims (d, d + HEAD_DIM / 2) by position * frequency(d).
// in   qkv    array<vec2<f32>> [rows][QKV_STRIDE / 2]  q heads, k heads, v heads
//      rope   array<vec2<f32>> [256 + ceil(context / 256)][HEAD_DIM / 2]  (cos, sin) of the angles
//             of positions 0..255, then of 0, 256, 512, ...
//      q_norm, k_norm  array<vec2<f32>> [HEAD_DIM / 2]  with norms only
// out  query  array<vec2<f32>> [rows][QUERY_STRIDE / 2]
//      kv     array<u32>       the layer's cache
{% if barriers %}
// grid (ceil(heads of a row / HEADS_PER_GROUP), rows) workgroups of 64, a thread per 4 dims
{% else %}
// grid (ceil(heads of a row / {{ lanes }}), rows) workgroups of {{ lanes }}, a thread per head, no barrier
{% endif %}
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> qkv: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> rope: array<vec2<f32>>;
{% if norm %}
@group(0) @binding(3) var<storage, read> q_norm: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> k_norm: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read_write> query: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read_write> kv: array<u32>;
{% else %}
@group(0) @binding(3) var<storage, read_write> query: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> kv: array<u32>;
{% endif %}

const HEADS = {{ heads }}u;
const KV_HEADS = {{ kv_heads }}u;
const HEAD_DIM = {{ head_dim }}u;
const QKV_STRIDE = {{ qkv_stride }}u;
const QUERY_STRIDE = {{ query_stride }}u;
const ALL_HEADS = HEADS + 2u * KV_HEADS;
// Dims are handled in fours, (2i, 2i + 1) of the lower half and of the upper one.
const FOURS = HEAD_DIM / 4u;
const HALF_MAX = vec2<f32>(65504.0);

{% include "include/step.wgsl" %}
{% include "include/kv.wgsl" %}

// cos and sin of position * frequency(d), by the addition of two tabulated angles: the sin and cos of
// WGSL are not accurate at large arguments.
fn turn(position: u32, d: u32) -> vec2<f32> {
    let fine = rope[(position % 256u) * (HEAD_DIM / 2u) + d];
    let coarse = rope[(256u + position / 256u) * (HEAD_DIM / 2u) + d];
    return vec2(coarse.x * fine.x - coarse.y * fine.y, coarse.y * fine.x + coarse.x * fine.y);
}

struct Four { low: vec2<f32>, high: vec2<f32> }

fn load(row: u32, head: u32, i: u32) -> Four {
    let at = (row * QKV_STRIDE + head * HEAD_DIM) / 2u + i;
    return Four(qkv[at], qkv[at + FOURS]);
}

fn squares(x: Four) -> f32 { return dot(x.low, x.low) + dot(x.high, x.high); }

fn store(row: u32, head: u32, i: u32, loaded: Four, factor: f32) {
    let info = row_at(row);
    var x = loaded;
    if (head < HEADS + KV_HEADS) {
{% if norm %}
        if (head < HEADS) {
            x = Four(x.low * factor * q_norm[i], x.high * factor * q_norm[i + FOURS]);
        } else {
            x = Four(x.low * factor * k_norm[i], x.high * factor * k_norm[i + FOURS]);
        }
{% endif %}
        let a = turn(info.position, 2u * i);
        let b = turn(info.position, 2u * i + 1u);
        let cosines = vec2(a.x, b.x);
        let sines = vec2(a.y, b.y);
        x = Four(x.low * cosines - x.high * sines, x.high * cosines + x.low * sines);
    }
    if (head < HEADS) {
        let at = (row * QUERY_STRIDE + head * HEAD_DIM) / 2u + i;
        query[at] = x.low;
        query[at + FOURS] = x.high;
    } else {
        // Values follow the keys as if they were further KV heads.
        let at = keys_of(info.slot / BLOCK, head - HEADS) + (info.slot % BLOCK) * KV_TOKEN_WORDS + i;
        kv[at] = pack2x16float(clamp(x.low, -HALF_MAX, HALF_MAX));
        kv[at + FOURS] = pack2x16float(clamp(x.high, -HALF_MAX, HALF_MAX));
    }
}

{% if norm %}
fn norm_factor(sum: f32) -> f32 {
    return inverseSqrt(sum / f32(HEAD_DIM) + {{ eps }});
}
{% endif %}

{% if barriers %}
const HEADS_PER_GROUP = {{ heads_per_group }}u;
{% if norm %}
var<workgroup> partial: array<f32, 64>;
{% endif %}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let i = thread % FOURS;
    let head = group.x * HEADS_PER_GROUP + thread / FOURS;
    let used = thread < HEADS_PER_GROUP * FOURS && head < ALL_HEADS;
    var x = Four();
    if (used) { x = load(group.y, head, i); }
    var factor = 1.0;
{% if norm %}
    partial[thread] = squares(x);
    workgroupBarrier();
    var sum = 0.0;
    for (var j = thread - i; j < min(thread - i + FOURS, 64u); j++) { sum += partial[j]; }
    factor = norm_factor(sum);
{% endif %}
    if (used) { store(group.y, head, i, x, factor); }
}
{% else %}
@compute @workgroup_size({{ lanes }})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let head = id.x;
    let row = id.y;
    if (head >= ALL_HEADS) { return; }
    var factor = 1.0;
{% if norm %}
    var sum = 0.0;
    for (var i = 0u; i < FOURS; i++) { sum += squares(load(row, head, i)); }
    factor = norm_factor(sum);
{% endif %}
    for (var i = 0u; i < FOURS; i++) { store(row, head, i, load(row, head, i), factor); }
}
{% endif %}
