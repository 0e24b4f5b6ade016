// Reads a row of logits with a workgroup: `logits` is array<vec4<u32>> [logit rows][STRIDE / 4], bit
// patterns. They are compared by keys: integers in the order of the logits.
// Needs the constants VOCAB, STRIDE and THREADS.
const FOURS = (VOCAB + 3u) / 4u;
const SIGN = 0x80000000u;

var<workgroup> sums: array<vec4<f32>, THREADS>;
var<workgroup> bests: array<vec2<u32>, THREADS>;

// Sum over the workgroup, always in the same order.
fn total(thread: u32, mine: vec4<f32>) -> vec4<f32> {
    sums[thread] = mine;
    for (var n = THREADS / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        if (thread < n) { sums[thread] += sums[thread + n]; }
    }
    return workgroupUniformLoad(&sums[0]);
}

// The (key, token) with the largest key over the workgroup.
fn best(thread: u32, mine: vec2<u32>) -> vec2<u32> {
    bests[thread] = mine;
    for (var n = THREADS / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        if (thread < n) { bests[thread] = better(bests[thread], bests[thread + n]); }
    }
    return workgroupUniformLoad(&bests[0]);
}

fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, b.x > a.x || (b.x == a.x && b.y < a.y));
}

// Integers in the order of the floats with these bits; both zeros are equal. Above 0 if finite.
fn keys_of(bits: vec4<u32>) -> vec4<u32> {
    let number = select(bits, vec4(0u), bits == vec4(SIGN));
    return number ^ select(vec4(SIGN), vec4(0xffffffffu), number >= vec4(SIGN));
}
fn key_of(x: f32) -> u32 { return keys_of(vec4(bitcast<u32>(x))).x; }
fn values_of(keys: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(keys ^ select(vec4(0xffffffffu), vec4(SIGN), keys >= vec4(SIGN)));
}

fn is_token(four: u32) -> vec4<bool> {
    return vec4(4u * four) + vec4(0u, 1u, 2u, 3u) < vec4(VOCAB);
}
// By bit pattern: a compiler may assume that there is no NaN.
fn is_finite(bits: vec4<u32>) -> vec4<bool> {
    return (bits & vec4(0x7f800000u)) != vec4(0x7f800000u);
}
fn bits_at(row: u32, four: u32) -> vec4<u32> {
    return logits[row * (STRIDE / 4u) + four];
}
// How many of four tokens have logits that are NaN or infinite.
fn lost_of(bits: vec4<u32>, four: u32) -> f32 {
    return dot(select(vec4(0.0), vec4(1.0), is_token(four) & !is_finite(bits)), vec4(1.0));
}
