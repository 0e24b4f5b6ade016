// draft_sample: one draft per sample of the step, argmax over the drafter's tokens of logit /
// temperature + Gumbel noise keyed (seed, position, the target's id); plain argmax at temperature 0.
// The lowest index wins ties.
// in   logits        array<vec4<u32>> [logit rows][STRIDE / 4]  bit patterns
{%- if mapped %}
//      ids           array<u32>       [VOCAB]  the target's ids
{%- endif %}
// out  last_samples  array<u32>       [slots][SLOT_TOKENS]  the id, at the index in the sample's flags
// grid samples workgroups of THREADS
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> logits: array<vec4<u32>>;
{%- if mapped %}
@group(0) @binding({{ at.ids }}) var<storage, read> ids: array<u32>;
{%- endif %}
@group(0) @binding({{ at.last_samples }}) var<storage, read_write> last_samples: array<u32>;

const VOCAB = {{ vocab }}u;
const STRIDE = {{ stride }}u;
const THREADS = {{ threads }}u;
const SLOT_TOKENS = {{ slot_tokens }}u;
const DRAFTS_AT = {{ drafts_at }}u;

{% include "include/step.wgsl" %}
{% include "include/noise.wgsl" %}
{% include "include/logits.wgsl" %}

fn id_of(token: u32) -> u32 { return {% if mapped %}ids[token]{% else %}token{% endif %}; }

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = sample_at(workgroup.x);
    let row = step[at];
    let position = step[at + 2u];
    let temperature = bitcast<f32>(step[at + 3u]);
    let seed = vec2(step[at + 7u], step[at + 8u]);
    let scale = select(1.0, 1.0 / max(temperature, 1e-6), temperature > 0.0);
    var winner = vec2<u32>();
    for (var four = thread; four < FOURS; four += THREADS) {
        let bits = bits_at(row, four);
        let usable = is_token(four) & is_finite(bits);
        let scores = bitcast<vec4<f32>>(bits) * scale;
{% for i in range(4) %}
        if (usable[{{ i }}]) {
            var score = scores[{{ i }}];
            if (temperature > 0.0) {
                let id = id_of(4u * four + {{ i }}u);
                score += gumbel(philox(vec4(position, id / 4u, 0u, 0u), seed)[id % 4u]);
            }
            winner = better(winner, vec2(key_of(score), 4u * four + {{ i }}u));
        }
{% endfor %}
    }
    winner = best(thread, winner);
    if (thread == 0u) {
        let place = step[at + 1u] * SLOT_TOKENS + (step[at + 9u] >> DRAFTS_AT);
        last_samples[place] = id_of(winner.y);
    }
}
