// Sums each of VALUES vectors over the 64 threads of a workgroup into `totals`, for any subgroup size
// by the same binary tree over neighbours: a sum does not depend on other work of the device.
const VALUES = {{ reduce.values }}u;
var<workgroup> totals: array<vec4<f32>, VALUES>;
{%- if subgroups %}
// One slot per value and subgroup; a subgroup has at least 4 threads.
const SLOTS = 16u;
var<workgroup> partials: array<vec4<f32>, VALUES * SLOTS>;
{%- else %}
const BATCH = 8u; // values summed at a time, by 8 threads each
var<workgroup> partials: array<vec4<f32>, BATCH * 64u>;
{%- endif %}

// Sums `count` (a power of two) partials, neighbours first.
fn pairwise(first: u32, stride: u32, count: u32) -> vec4<f32> {
    for (var half = count / 2u; half > 0u; half /= 2u) {
        for (var i = 0u; i < half; i++) {
            let pair = first + 2u * i * stride;
            partials[first + i * stride] = partials[pair] + partials[pair + stride];
        }
    }
    return partials[first];
}
{% if subgroups %}
fn reduce(values: array<vec4<f32>, VALUES>, thread: u32, lane: u32, size: u32) {
{%- for v in range(reduce.values) %}
    {
        var sum = values[{{ v }}];
        sum += subgroupShuffleXor(sum, 1u);
        sum += subgroupShuffleXor(sum, 2u);
        if size > 4u { sum += subgroupShuffleXor(sum, 4u); }
        if size > 8u { sum += subgroupShuffleXor(sum, 8u); }
        if size > 16u { sum += subgroupShuffleXor(sum, 16u); }
        if size > 32u { sum += subgroupShuffleXor(sum, 32u); }
        if lane == 0u { partials[{{ v }}u * SLOTS + thread / size] = sum; }
    }
{%- endfor %}
    workgroupBarrier();
    if thread < VALUES { totals[thread] = pairwise(thread * SLOTS, 1u, 64u / min(size, 64u)); }
    workgroupBarrier();
}
{% else %}
fn reduce(values: array<vec4<f32>, VALUES>, thread: u32) {
{%- for start in range(0, reduce.values, 8) %}
{%- for v in range(start, [start + 8, reduce.values] | min) %}
    partials[{{ v - start }}u * 64u + thread] = values[{{ v }}];
{%- endfor %}
    workgroupBarrier();
    pairwise(8u * thread, 1u, 8u);
    workgroupBarrier();
    if thread < min(BATCH, VALUES - {{ start }}u) {
        totals[{{ start }}u + thread] = pairwise(64u * thread, 8u, 8u);
    }
    workgroupBarrier();
{%- endfor %}
}
{% endif %}
