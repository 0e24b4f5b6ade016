// The paged KV cache of one layer (kernels::kv): u32 words, [block][K, then V][kv head], and there
{%- if int8 %}
// [BLOCK tokens][HEAD_DIM / 4]  four int8, the first dim lowest; then [BLOCK tokens]  their scales, f32.
{%- else %}
// [BLOCK tokens][HEAD_DIM / 2]  two f16, dims 2d and 2d + 1.
{%- endif %}
// Needs the constants HEAD_DIM and KV_HEADS, and the block tables (kernels::tables).
const BLOCK = 16u;
{% if int8 -%}
const KV_TOKEN_WORDS = HEAD_DIM / 4u;
const KV_SCALES = BLOCK * KV_TOKEN_WORDS; // where they begin, from the first word of a head
const KV_HEAD_WORDS = KV_SCALES + BLOCK;
{%- else -%}
const KV_TOKEN_WORDS = HEAD_DIM / 2u;
const KV_HEAD_WORDS = BLOCK * KV_TOKEN_WORDS;
{%- endif %}

// The block of a position in a sequence's table: that of the layer's group in the entry.
fn block_at(table: u32, position: u32) -> u32 {
    return tables[table + position / BLOCK{% if groups > 1 %} * {{ groups }}u + {{ kv_group }}u{% endif %}];
}

// First word of the keys of a KV head in a block; those of token i follow KV_TOKEN_WORDS * i later.
fn keys_of(block: u32, kv_head: u32) -> u32 {
    return (block * 2u * KV_HEADS + kv_head) * KV_HEAD_WORDS;
}
// The same for the values.
fn values_of(block: u32, kv_head: u32) -> u32 {
    return keys_of(block, kv_head + KV_HEADS);
}

// Four neighbouring dims, in int8 still without scale.
{%- if int8 %}
alias KvFour = u32;
fn kv_four(w: KvFour) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4(w) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u));
}
{%- else %}
alias KvFour = vec2<u32>;
fn kv_four(w: KvFour) -> vec4<f32> {
    return vec4(unpack2x16float(w.x), unpack2x16float(w.y));
}
{%- endif %}
