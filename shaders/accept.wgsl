// accept: in a step with drafts, counts the accepted drafts of each sequence: the first ones that equal
// the tokens sampled in their places. The token after the last accepted draft becomes the slot's last
// sample; tallies count the accepted tokens.
// in   result        array<u32>        [samples][2]  the sampled token
// out  last_samples  array<u32>        [slots][SLOT_TOKENS]
//      result        array<u32>        [sample runs], behind the samples: accepted drafts
//      tallies       array<vec4<u32>>  [slots][STRIDE / 4]
// grid one thread per sequence that samples
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read_write> last_samples: array<u32>;
@group(0) @binding(2) var<storage, read_write> result: array<u32>;
@group(0) @binding(3) var<storage, read_write> tallies: array<vec4<u32>>;

const STRIDE = {{ stride }}u;
const ACCEPTED_AT = {{ accepted_at }}u;

{% include "include/step.wgsl" %}
{% include "include/record_sample.wgsl" %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= sample_run_count() { return; }
    let run = sample_run(id.x);
    let at = sample_at(run.sample);
    let slot = step[at + 1u];
    let flags = step[at + 9u];
    var accepted = 0u;
    for (var i = 0u; i < run.samples; i++) {
        let token = result[2u * (run.sample + i)];
        record_sample(slot, flags, i, token);
        accepted = i;
        if i + 1u == run.samples { break; }
        var draft = row_at(step[sample_at(run.sample + i + 1u) + 13u]).token;
        if (draft & LAST_SAMPLE) != 0u { draft = last_samples[draft & ~LAST_SAMPLE]; }
        if draft != token { break; }
    }
    result[2u * sample_count() + id.x] = accepted;
    last_samples[slot * SLOT_TOKENS + ACCEPTED_AT] = accepted;
}
