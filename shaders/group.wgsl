// group: sorts the choices of a step, numbered row * ACTIVE + place, by expert, and cuts those of each
// expert into tiles of {{ tile }}.
// The tiles of an expert start at the latest possible end of those before it, so a thread need not know
// how many there are.
// in   routes [rows * ACTIVE] (expert, weight)
// out  groups [rows * ACTIVE] choices; then [rows * ACTIVE / {{ tile }} + EXPERTS] tiles: expert, its first
//             choice, number of choices, which may be 0
// grid ceil(EXPERTS / 64) workgroups of 64, a thread per expert
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> routes: array<u32>;
@group(0) @binding(2) var<storage, read_write> groups: array<u32>;

{% include "include/step.wgsl" %}
const EXPERTS = {{ experts }}u;
const ACTIVE = {{ active }}u;
const TILE = {{ tile }}u;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let expert = id.x;
    if expert >= EXPERTS { return; }
    let choices = row_count() * ACTIVE;
    var before = 0u;
    var count = 0u;
    for (var i = 0u; i < choices; i++) {
        let other = routes[2u * i];
        before += select(0u, 1u, other < expert);
        count += select(0u, 1u, other == expert);
    }
    var at = before;
    for (var i = 0u; i < choices; i++) {
        if routes[2u * i] == expert {
            groups[at] = i;
            at++;
        }
    }
    var left = count;
    let end = (before + count) / TILE + expert + 1u;
    for (var tile = before / TILE + expert; tile < end; tile++) {
        let entry = choices + 3u * tile;
        groups[entry] = expert;
        groups[entry + 1u] = before + count - left;
        groups[entry + 2u] = min(left, TILE);
        left -= min(left, TILE);
    }
}
