// sample: one token per sample of the step, argmax over the kept tokens v of logit(v) / temperature +
// Gumbel noise keyed (seed, position, v); plain argmax at temperature 0. The lowest id wins ties.
// top-k, top-p and min-p, in this order, each keep the tokens at or above a threshold. Thresholds are
// sought over keys: integers in the order of the logits. Ties at a threshold are all kept.
// in   logits        array<vec4<u32>> [logit rows][STRIDE / 4]  bit patterns
// out  last_samples  array<u32>       [slots]  the token
//      result        array<vec2<u32>> [samples]  the token, and how many logits are NaN or infinite
// grid samples workgroups of THREADS
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> logits: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> last_samples: array<u32>;
@group(0) @binding(3) var<storage, read_write> result: array<vec2<u32>>;

const VOCAB = {{ vocab }}u;
const STRIDE = {{ stride }}u;
const THREADS = {{ threads }}u;
const FOURS = (VOCAB + 3u) / 4u;
const SIGN = 0x80000000u;

{% include "include/step.wgsl" %}
{% include "include/noise.wgsl" %}

var<workgroup> sums: array<vec4<f32>, THREADS>;
var<workgroup> bests: array<vec2<u32>, THREADS>;

// Sum over the workgroup, always in the same order.
fn total(thread: u32, mine: vec4<f32>) -> vec4<f32> {
    sums[thread] = mine;
    for (var n = THREADS / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        if (thread < n) { sums[thread] += sums[thread + n]; }
    }
    return workgroupUniformLoad(&sums[0]);
}

// The (key, token) with the largest key over the workgroup.
fn best(thread: u32, mine: vec2<u32>) -> vec2<u32> {
    bests[thread] = mine;
    for (var n = THREADS / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        if (thread < n) { bests[thread] = better(bests[thread], bests[thread + n]); }
    }
    return workgroupUniformLoad(&bests[0]);
}

fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, b.x > a.x || (b.x == a.x && b.y < a.y));
}

// Integers in the order of the floats with these bits; both zeros are equal. Above 0 if finite.
fn keys_of(bits: vec4<u32>) -> vec4<u32> {
    let number = select(bits, vec4(0u), bits == vec4(SIGN));
    return number ^ select(vec4(SIGN), vec4(0xffffffffu), number >= vec4(SIGN));
}
fn key_of(x: f32) -> u32 { return keys_of(vec4(bitcast<u32>(x))).x; }
fn values_of(keys: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(keys ^ select(vec4(0xffffffffu), vec4(SIGN), keys >= vec4(SIGN)));
}

fn is_token(four: u32) -> vec4<bool> {
    return vec4(4u * four) + vec4(0u, 1u, 2u, 3u) < vec4(VOCAB);
}
// By bit pattern: a compiler may assume that there is no NaN.
fn is_finite(bits: vec4<u32>) -> vec4<bool> {
    return (bits & vec4(0x7f800000u)) != vec4(0x7f800000u);
}
// Keys of four tokens; 0 for what is no token or not finite.
fn load(row: u32, four: u32) -> vec4<u32> {
    let bits = logits[row * (STRIDE / 4u) + four];
    return select(vec4(0u), keys_of(bits), is_token(four) & is_finite(bits));
}

// What a logit row is measured by: probabilities relative to the largest, or counts.
struct Measure { row: u32, top: f32, inverse_temperature: f32, count: bool, floor: u32 }

// How much of the tokens with keys >= floor lies at or above each of four pivots.
fn above(thread: u32, by: Measure, pivots: vec4<u32>) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var four = thread; four < FOURS; four += THREADS) {
        let keys = load(by.row, four);
        if (any(keys >= vec4(by.floor))) {
            let mass = exp((values_of(keys) - by.top) * by.inverse_temperature);
            let weights = select(vec4(0.0), select(mass, vec4(1.0), by.count), keys >= vec4(by.floor));
{% for i in "xyzw" %}
            sum += select(vec4(0.0), weights.{{ i }}{{ i }}{{ i }}{{ i }}, keys.{{ i }}{{ i }}{{ i }}{{ i }} >= pivots);
{% endfor %}
        }
    }
    return total(thread, sum);
}

// The largest key with at least `goal` at or above it, given that the floor has. `past` has less.
fn threshold(thread: u32, by: Measure, goal: f32, past: u32) -> u32 {
    var low = by.floor;
    var high = past;
    while (high - low > 1u) {
        let stride = max((high - low) / 5u, 1u);
        let pivots = low + stride * vec4(1u, 2u, 3u, 4u);
        let found = select(vec4(0u), vec4(1u), above(thread, by, pivots) >= vec4(goal));
        let n = dot(found, vec4(1u));
        low += n * stride;
        if (n < 4u) { high = min(high, low + stride); }
    }
    return low;
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = sample_at(workgroup.x);
    let row = step[at];
    let slot = step[at + 1u];
    let position = step[at + 2u];
    let temperature = bitcast<f32>(step[at + 3u]);
    let top_k = step[at + 4u];
    let top_p = bitcast<f32>(step[at + 5u]);
    let min_p = bitcast<f32>(step[at + 6u]);
    let seed = vec2(step[at + 7u], step[at + 8u]);

    var winner = vec2<u32>();
    var not_finite = 0.0;
    for (var four = thread; four < FOURS; four += THREADS) {
        let keys = load(row, four);
        let lost = is_token(four) & (keys == vec4(0u));
        not_finite += dot(select(vec4(0.0), vec4(1.0), lost), vec4(1.0));
{% for i in range(4) %}
        if (keys[{{ i }}] > winner.x) { winner = vec2(keys[{{ i }}], 4u * four + {{ i }}u); }
{% endfor %}
    }
    winner = best(thread, winner);
    let lost = total(thread, vec4(not_finite));

    if (temperature > 0.0 && winner.x > 0u) {
        let top_key = winner.x;
        let top = values_of(vec4(top_key)).x;
        // 0 / temperature must be 0 however small it is.
        var by = Measure(row, top, 1.0 / max(temperature, 1e-6), true, 1u);
        if (top_k > 0u && top_k < VOCAB) {
            // Not more than there are finite logits.
            let goal = min(f32(top_k), f32(VOCAB) - lost.x);
            by.floor = threshold(thread, by, goal, top_key + 1u);
        }
        if (top_p < 1.0) {
            by.count = false;
            // The likeliest token, whose mass is 1, always stays.
            let goal = max(1.0, top_p * above(thread, by, vec4(by.floor)).x);
            by.floor = threshold(thread, by, goal, top_key + 1u);
        }
        if (min_p > 0.0) {
            by.floor = clamp(key_of(top + log(min_p) * temperature), by.floor, top_key);
        }
        winner = vec2<u32>();
        for (var four = thread; four < FOURS; four += THREADS) {
            let keys = load(row, four);
            if (any(keys >= vec4(by.floor))) {
                let words = philox(vec4(position, four, 0u, 0u), seed);
                let scaled = (values_of(keys) - top) * by.inverse_temperature;
{% for i in range(4) %}
                if (keys[{{ i }}] >= by.floor) {
                    let score = key_of(scaled[{{ i }}] + gumbel(words[{{ i }}]));
                    winner = better(winner, vec2(score, 4u * four + {{ i }}u));
                }
{% endfor %}
            }
        }
        winner = best(thread, winner);
    }
    if (thread == 0u) {
        last_samples[slot] = winner.y;
        result[workgroup.x] = vec2(winner.y, u32(lost.x));
    }
}
