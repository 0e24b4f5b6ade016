// shift: moves the sequences that start behind unverified drafts forward by the number of accepted
// ones: the positions of their rows and of their samples. For several consecutive batches of STRIDE words
// each.
// in   last_samples  array<u32>  [slots][SLOT_TOKENS]
// out  words         array<u32>  [batches][STRIDE], as in include/step.wgsl
// grid (one thread per shift, batches)
@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@group(0) @binding(1) var<storage, read> last_samples: array<u32>;

const STRIDE = {{ stride }}u;
const SLOT_TOKENS = {{ slot_tokens }}u;
const ACCEPTED_AT = {{ accepted_at }}u;

@compute @workgroup_size({{ threads }})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let batch = id.y * STRIDE;
    if id.x >= words[batch + 5u] { return; }
    let shift = batch + words[batch + 12u] + 6u * id.x;
    let accepted = min(last_samples[words[shift] * SLOT_TOKENS + ACCEPTED_AT], words[shift + 5u]);
    let row = batch + words[batch + 6u] + 3u * words[shift + 1u];
    for (var at = row; at < row + 3u * words[shift + 2u]; at += 3u) { words[at + 1u] += accepted; }
    let sample = batch + words[batch + 9u] + 14u * words[shift + 3u];
    for (var at = sample; at < sample + 14u * words[shift + 4u]; at += 14u) {
        words[at + 2u] += accepted;
    }
}
