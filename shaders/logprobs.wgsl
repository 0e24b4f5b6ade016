// logprobs: the log-probability of one token under an unadjusted logit row, and the row's most likely
// tokens; ties: lowest id first. NaN if a logit of the row is NaN or infinite.
// in   logits  array<vec4<u32>> [logit rows][STRIDE / 4]  bit patterns
// out  result  array<u32>  the samples of `sample`, 2 words each, then for each log-probability: it,
//              (token, log-probability) of the most likely tokens, those of the named tokens
// grid workgroups of THREADS, one per log-probability
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> logits: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> result: array<u32>;

const VOCAB = {{ vocab }}u;
const STRIDE = {{ stride }}u;
const THREADS = {{ threads }}u;
const NAN = 0x7fc00000u;

{% include "include/step.wgsl" %}
{% include "include/logits.wgsl" %}

fn load(row: u32, four: u32) -> vec4<u32> {
    let bits = bits_at(row, four);
    return select(vec4(0u), keys_of(bits), is_token(four) & is_finite(bits));
}

// The most likely of this thread's tokens that come after `past`, as (key, token).
fn next(thread: u32, row: u32, past: vec2<u32>) -> vec2<u32> {
    var found = vec2<u32>();
    for (var four = thread; four < FOURS; four += THREADS) {
        let keys = load(row, four);
{% for i in range(4) %}
        let token_{{ i }} = vec2(keys[{{ i }}], 4u * four + {{ i }}u);
        if (any(token_{{ i }} != past) && all(better(past, token_{{ i }}) == past)) {
            found = better(found, token_{{ i }});
        }
{% endfor %}
    }
    return found;
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = logprob_at(workgroup.x);
    let row = step[at];
    let chosen = step[at + 1u];
    let count = step[at + 2u];
    let out = step[at + 3u];

    var mine = next(thread, row, vec2(0xffffffffu, 0u));
    let top = values_of(vec4(best(thread, mine).x)).x;
    var parts = vec4<f32>(); // of probabilities relative to the largest; counts of logits that are not finite
    for (var four = thread; four < FOURS; four += THREADS) {
        let keys = load(row, four);
        let mass = select(vec4(0.0), exp(values_of(keys) - top), keys > vec4(0u));
        parts += vec4(dot(mass, vec4(1.0)), lost_of(bits_at(row, four), four), 0.0, 0.0);
    }
    let sum = total(thread, parts);
    let log_sum = log(sum.x);

    if (thread == 0u) {
        var token = chosen;
        if ((chosen & LAST_SAMPLE) != 0u) { token = result[2u * (chosen & ~LAST_SAMPLE)]; }
        let logit = bitcast<f32>(bits_at(row, token / 4u)[token % 4u]);
        result[out] = select(bitcast<u32>(logit - top - log_sum), NAN, sum.y > 0.0);
    }
    let named = step[at + 4u];
    for (var i = thread; i < step[at + 5u]; i += THREADS) {
        let token = step[named + i];
        let logit = bitcast<f32>(bits_at(row, token / 4u)[token % 4u]);
        result[out + 1u + 2u * count + i] = bitcast<u32>(logit - top - log_sum);
    }
    for (var i = 0u; i < count; i++) {
        let winner = best(thread, mine);
        if (thread == 0u) {
            result[out + 1u + 2u * i] = winner.y;
            result[out + 2u + 2u * i] = bitcast<u32>(values_of(vec4(winner.x)).x - top - log_sum);
        }
        if (all(winner == mine)) { mine = next(thread, row, winner); }
    }
}
