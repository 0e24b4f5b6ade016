// The paged KV cache of one layer (kernels::kv): u32 words of two halves, dims 2d and 2d + 1, as
// [block][K, then V][kv head][BLOCK tokens][HEAD_DIM / 2].
// Needs the constants HEAD_DIM and KV_HEADS.
const BLOCK = 16u;
const KV_TOKEN_WORDS = HEAD_DIM / 2u;
const KV_HEAD_WORDS = BLOCK * KV_TOKEN_WORDS;

// First word of the keys of a KV head in a block; those of token i follow KV_TOKEN_WORDS * i later.
fn keys_of(block: u32, kv_head: u32) -> u32 {
    return (block * 2u * KV_HEADS + kv_head) * KV_HEAD_WORDS;
}
// The same for the values.
fn values_of(block: u32, kv_head: u32) -> u32 {
    return keys_of(block, kv_head + KV_HEADS);
}
