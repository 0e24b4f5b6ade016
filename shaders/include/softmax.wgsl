// Softmax over segments of SEGMENT keys, at fixed multiples of it. A segment yields its largest score
// m, l = sum of exp(score - m) and o = sum of exp(score - m) * value; segments are folded in order.
// Every path through attention folds the same segments with this arithmetic, so that splitting the
// context over workgroups changes no bit.
const SEGMENT = {{ segment }}u;
// Stands for minus infinity, because differences of infinities would be NaN. Below every score.
const LOWEST = -1e30;

struct Fold { m: f32, past: f32, next: f32 }

// The factors for the folded segments so far and for the next one.
fn fold(m: f32, next: f32) -> Fold {
    let top = max(m, next);
    return Fold(top, exp(m - top), exp(next - top));
}

// Index of a segment among the visible ones: those between the sinks and the window of a row are not
// counted.
const SINK_SEGMENTS = (SINKS + SEGMENT - 1u) / SEGMENT;
fn hidden_segments(start: u32) -> u32 {
    return max(start / SEGMENT, SINK_SEGMENTS) - SINK_SEGMENTS;
}
