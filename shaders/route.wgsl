// route: chooses ACTIVE experts for each row: those with the greatest logits; ties: the lowest index.
// Their weights are from the softmax over all experts.
// in   logits [rows][LOGITS_STRIDE] f32
// out  routes [rows][ACTIVE] (expert, bits of its weight), the greatest first
// grid (ceil(EXPERTS / 64), rows) workgroups of 64, a thread per row and expert
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> logits: array<u32>;
@group(0) @binding(2) var<storage, read_write> routes: array<u32>;

{% include "include/step.wgsl" %}
const EXPERTS = {{ experts }}u;
const ACTIVE = {{ active }}u;
const LOGITS_STRIDE = {{ stride }}u;

// Bits of floats as integers in the same order. NaN has a place too, so that the number of chosen
// experts is always right.
fn ordered(bits: u32) -> u32 {
    return bits ^ select(0x80000000u, 0xffffffffu, bits >= 0x80000000u);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let expert = id.x;
    let row = id.y;
    if expert >= EXPERTS || row >= row_count() { return; }
    let first = row * LOGITS_STRIDE;
    let own = logits[first + expert];
    var rank = 0u;
    var top = own;
    for (var i = 0u; i < EXPERTS; i++) {
        let other = logits[first + i];
        let ahead = ordered(other) > ordered(own) || (other == own && i < expert);
        rank += select(0u, 1u, ahead);
        top = select(top, other, ordered(other) > ordered(top));
    }
    if rank >= ACTIVE { return; }
    var sum = 0.0;
    for (var i = 0u; i < EXPERTS; i++) {
        sum += exp(bitcast<f32>(logits[first + i]) - bitcast<f32>(top));
    }
    let at = 2u * (row * ACTIVE + rank);
    routes[at] = expert;
    routes[at + 1u] = bitcast<u32>(exp(bitcast<f32>(own) - bitcast<f32>(top)) / sum);
}
