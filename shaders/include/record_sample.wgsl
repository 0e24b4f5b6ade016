// What becomes of a draw that stands: the slot's last sample, and a count in its tally.
// Expects STRIDE, last_samples [slots][SLOT_TOKENS], tallies [slots][STRIDE / 4].
const SLOT_TOKENS = {{ slot_tokens }}u;
// Where in a slot's tokens those are that it draws.
const DRAWN_AT = {{ drawn_at }}u;
// A flag of a sample: its slot's tallies count.
const TALLIED = 2u;
// The part of a tally that says how often the token was drawn.
const COUNT = {{ count }}u;

fn stand(slot: u32, flags: u32, place: u32, token: u32) {
    last_samples[slot * SLOT_TOKENS] = token;
    last_samples[slot * SLOT_TOKENS + DRAWN_AT + place] = token;
    if ((flags & TALLIED) != 0u) {
        let four = slot * (STRIDE / 4u) + token / 4u;
        // A full count stays.
        if ((tallies[four][token % 4u] & COUNT) < COUNT) { tallies[four][token % 4u] += 1u; }
    }
}
