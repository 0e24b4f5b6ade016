// sample: one token per sample of the step, argmax over the kept tokens v of logit(v) / temperature +
// Gumbel noise keyed (seed, position, v); plain argmax at temperature 0. The lowest id wins ties.
// Before that, if a sample asks for them: mask, bias, penalties for repetition, frequency, presence.
// Penalties count the drafts before the sample as if they were accepted.
// top-k, top-p and min-p, in this order, each keep the tokens at or above a threshold. Thresholds are
// sought over keys. Ties at a threshold are all kept.
// in   logits        array<vec4<u32>> [logit rows][STRIDE / 4]  bit patterns
//      last_samples  array<u32>       [slots][SLOT_TOKENS]  drafts that rows name
//      tallies       array<vec4<u32>> [slots][STRIDE / 4]  per token: how often it was sampled, index of
//                    its bias, whether it is in the prompt
//      bias          array<f32>       [slots][MAX_BIAS]
//      masks         array<u32>       [slots][1 + MAX_DRAFTS][STRIDE / 32]  one bit per allowed token
// out  result        array<u32>       [samples][2]  the token, and how many logits are NaN or infinite
//      In a step without drafts every sample is accepted at once: it becomes the slot's last sample, is
//      tallied if the sample asks for it, and result says behind the samples: 0 accepted drafts.
// grid samples workgroups of THREADS
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> logits: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> last_samples: array<u32>;
@group(0) @binding(3) var<storage, read_write> tallies: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read> masks: array<u32>;
@group(0) @binding(6) var<storage, read_write> result: array<u32>;

const VOCAB = {{ vocab }}u;
const STRIDE = {{ stride }}u;
const THREADS = {{ threads }}u;
const MAX_BIAS = {{ max_bias }}u;
const MAX_DRAFTS = {{ max_drafts }}u;

// Flags of a sample; from bit DRAFTS_AT on: the number of drafts before it.
const MASKED = 1u;
const DRAFTS_AT = {{ drafts_at }}u;
// Parts of a tally; from bit BIAS_AT on: 1 + index of the token's bias, or 0; SIGN: in the prompt.
const BIAS_AT = {{ bias_at }}u;

{% include "include/step.wgsl" %}
{% include "include/record_sample.wgsl" %}
{% include "include/noise.wgsl" %}
{% include "include/logits.wgsl" %}

// Where the logits of a sample are, and how they are adjusted.
struct Source {
    row: u32, slot: u32, mask: u32, flags: u32, drafts: u32,
    presence: f32, frequency: f32, repetition: f32,
}

// The drafts before the sample.
var<private> drafts: array<u32, MAX_DRAFTS>;

// The tallies of four tokens, including the drafts before the sample.
fn tally_of(by: Source, four: u32) -> vec4<u32> {
    var tally = tallies[by.slot * (STRIDE / 4u) + four];
    for (var i = 0u; i < by.drafts; i++) {
        if (drafts[i] / 4u == four) {
            let sampled = vec4(drafts[i] % 4u) == vec4(0u, 1u, 2u, 3u);
            // A full count stays.
            let counted = sampled & ((tally & vec4(COUNT)) < vec4(COUNT));
            tally += select(vec4(0u), vec4(1u), counted);
        }
    }
    return tally;
}

fn adjusted(by: Source, logits: vec4<f32>, tally: vec4<u32>) -> vec4<f32> {
    var x = logits;
{% for i in "xyzw" %}
    let bias_{{ i }} = (tally.{{ i }} & ~SIGN) >> BIAS_AT;
    if (bias_{{ i }} > 0u) { x.{{ i }} += bias[by.slot * MAX_BIAS + bias_{{ i }} - 1u]; }
{% endfor %}
    let sampled = tally & vec4(COUNT);
    let present = (sampled > vec4(0u)) | (tally >= vec4(SIGN));
    x = select(x, select(x * by.repetition, x / by.repetition, x > vec4(0.0)), present);
    x -= by.frequency * vec4<f32>(sampled);
    x -= select(vec4(0.0), vec4(by.presence), sampled > vec4(0u));
    return clamp(x, vec4(-3.4e38), vec4(3.4e38));
}

// Keys of four tokens; 0 if there is no token, or if it is not finite or masked.
fn load(by: Source, four: u32) -> vec4<u32> {
    let bits = bits_at(by.row, four);
    var keys = keys_of(bits);
    var usable = is_token(four) & is_finite(bits);
    if ((by.flags & MASKED) != 0u) {
        let mask = masks[by.mask * (STRIDE / 32u) + four / 8u] >> (4u * (four % 8u));
        usable = usable & ((vec4(mask) & vec4(1u, 2u, 4u, 8u)) != vec4(0u));
    }
    if ((by.flags & TALLIED) != 0u) {
        let tally = tally_of(by, four);
        if (any(tally != vec4(0u))) {
            keys = keys_of(bitcast<vec4<u32>>(adjusted(by, values_of(keys), tally)));
        }
    }
    return select(vec4(0u), keys, usable);
}

// The measure of a set of tokens: probabilities relative to the largest, or counts.
struct Measure { source: Source, top: f32, inverse_temperature: f32, count: bool, floor: u32 }

// The measure of the tokens with keys >= floor, at or above each of four pivots.
fn above(thread: u32, by: Measure, pivots: vec4<u32>) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var four = thread; four < FOURS; four += THREADS) {
        let keys = load(by.source, four);
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

// The largest key that keeps `most` tokens, or by mass this part of what the floor has; the floor if all are fewer.
// `past` has less.
fn threshold(thread: u32, by: Measure, most: f32, past: u32) -> u32 {
    var low = by.floor;
    var high = past;
    var goal = most;
    var measured = by.count;
    while (high - low > 1u) {
        let stride = select(0u, max((high - low) / 5u, 1u), measured);
        let found = above(thread, by, low + stride * vec4(1u, 2u, 3u, 4u));
        if (measured) {
            let n = dot(select(vec4(0u), vec4(1u), found >= vec4(goal)), vec4(1u));
            low += n * stride;
            if (n < 4u) { high = min(high, low + stride); }
        } else {
            // The mass of all. The most likely token, whose mass is 1, always stays.
            goal = max(1.0, most * found.x);
            measured = true;
        }
    }
    return low;
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = sample_at(workgroup.x);
    let position = step[at + 2u];
    let temperature = bitcast<f32>(step[at + 3u]);
    let top_k = step[at + 4u];
    let top_p = bitcast<f32>(step[at + 5u]);
    let min_p = bitcast<f32>(step[at + 6u]);
    let seed = vec2(step[at + 7u], step[at + 8u]);
    let slot = step[at + 1u];
    let flags = step[at + 9u];
    let before = flags >> DRAFTS_AT;
    for (var i = 0u; i < before; i++) {
        var token = row_at(step[at + 13u] - i).token;
        if ((token & LAST_SAMPLE) != 0u) { token = last_samples[token & ~LAST_SAMPLE]; }
        drafts[i] = token;
    }
    let source = Source(
        step[at], slot, slot * (1u + MAX_DRAFTS) + before, flags, before,
        bitcast<f32>(step[at + 10u]), bitcast<f32>(step[at + 11u]), bitcast<f32>(step[at + 12u]),
    );

    var winner = vec2<u32>();
    var lost = vec4<f32>(); // how many logits are not finite
    for (var four = thread; four < FOURS; four += THREADS) {
        let keys = load(source, four);
        lost.x += lost_of(bits_at(source.row, four), four);
{% for i in range(4) %}
        if (keys[{{ i }}] > winner.x) { winner = vec2(keys[{{ i }}], 4u * four + {{ i }}u); }
{% endfor %}
    }
    winner = best(thread, winner);
    lost = total(thread, lost);

    if (temperature > 0.0 && winner.x > 0u) {
        let top_key = winner.x;
        let top = values_of(vec4(top_key)).x;
        // 0 / temperature must be 0 however small it is.
        var by = Measure(source, top, 1.0 / max(temperature, 1e-6), true, 1u);
        // top-k, then top-p; in a loop, because compilers copy functions to where they are called.
        for (var stage = 0u; stage < 2u; stage++) {
            by.count = stage == 0u;
            let limits = (by.count && top_k > 0u && top_k < VOCAB) || (!by.count && top_p < 1.0);
            if (limits) {
                by.floor = threshold(thread, by, select(top_p, f32(top_k), by.count), top_key + 1u);
            }
        }
        if (min_p > 0.0) {
            by.floor = clamp(key_of(top + log(min_p) * temperature), by.floor, top_key);
        }
        winner = vec2<u32>();
        for (var four = thread; four < FOURS; four += THREADS) {
            let keys = load(source, four);
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
        result[2u * workgroup.x] = winner.y;
        result[2u * workgroup.x + 1u] = u32(lost.x);
        if (sample_run_count() == sample_count()) {
            record_sample(slot, flags, 0u, winner.y);
            result[2u * sample_count() + workgroup.x] = 0u;
        }
    }
}
