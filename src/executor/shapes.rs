//! The kernels of a model that follow from its configuration alone.

use crate::{
    kernels::{Attention, AttentionMerge, KvLayout, Logprobs, RopeKv, Sample},
    model::ModelConfig,
};

pub fn rope_kv(config: &ModelConfig) -> RopeKv {
    let ModelConfig { heads, kv_heads, head_dim, .. } = *config;
    RopeKv { heads, kv_heads, head_dim, qk_norm: config.qk_norm.then_some(config.rms_eps) }
}

pub fn attention(config: &ModelConfig, split: bool) -> Attention {
    let ModelConfig { heads, kv_heads, head_dim, window, .. } = *config;
    Attention { heads, kv_heads, head_dim, window, split }
}

pub fn attention_merge(config: &ModelConfig) -> AttentionMerge {
    let ModelConfig { heads, head_dim, window, .. } = *config;
    AttentionMerge { heads, head_dim, window }
}

pub fn sample(config: &ModelConfig) -> Sample {
    Sample { vocab: config.vocab }
}

pub fn logprobs(config: &ModelConfig) -> Logprobs {
    Logprobs { vocab: config.vocab }
}

/// How the KV cache of one layer is laid out.
pub fn kv_layout(config: &ModelConfig) -> KvLayout {
    KvLayout { kv_heads: config.kv_heads, head_dim: config.head_dim }
}

/// Bytes of one KV block of all layers.
pub fn block_bytes(config: &ModelConfig) -> u64 {
    config.layers as u64 * kv_layout(config).block_words() as u64 * 4
}

/// (cos, sin) of the angles of all positions, see [`crate::kernels::rope_table`].
pub fn rope_table(config: &ModelConfig, context: usize) -> Vec<f32> {
    let frequencies = config.rope.inverse_frequencies(config.head_dim);
    let exact: Vec<f64> = frequencies.into_iter().map(f64::from).collect();
    crate::kernels::rope_table(&exact, context)
}
