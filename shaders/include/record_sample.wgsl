// Records an accepted token: as the slot's last sample, and in its tally.
// Expects STRIDE, last_samples [slots][SLOT_TOKENS], tallies [slots][STRIDE / 4].
const SLOT_TOKENS = {{ slot_tokens }}u;
// Index of the sampled tokens among a slot's tokens.
const SAMPLED_AT = {{ sampled_at }}u;
// A flag of a sample: its slot uses tallies.
const TALLIED = 2u;
// The part of a tally that counts how often the token was sampled.
const COUNT = {{ count }}u;

fn record_sample(slot: u32, flags: u32, place: u32, token: u32) {
    last_samples[slot * SLOT_TOKENS] = token;
    last_samples[slot * SLOT_TOKENS + SAMPLED_AT + place] = token;
    if ((flags & TALLIED) != 0u) {
        let four = slot * (STRIDE / 4u) + token / 4u;
        // A full count stays.
        if ((tallies[four][token % 4u] & COUNT) < COUNT) { tallies[four][token % 4u] += 1u; }
    }
}
