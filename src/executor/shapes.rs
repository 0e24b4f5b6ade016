//! The kernels of a model that follow from its configuration, what its rows see, and how a layer's
//! cache is held.

use crate::{
    kernels::{Attention, AttentionMerge, KvKind, KvLayout, Logprobs, RopeKv, Sample},
    model::ModelConfig,
    step::Window,
};

pub fn rope_kv(config: &ModelConfig, window: Option<Window>, kind: KvKind) -> RopeKv {
    let ModelConfig { heads, kv_heads, head_dim, .. } = *config;
    let qk_norm = config.qk_norm.then_some(config.rms_eps);
    RopeKv { heads, kv_heads, head_dim, qk_norm, kind, window }
}

pub fn attention(config: &ModelConfig, window: Option<Window>, kind: KvKind) -> Attention {
    let ModelConfig { heads, kv_heads, head_dim, .. } = *config;
    Attention { heads, kv_heads, head_dim, kind, window, split: false }
}

pub fn attention_merge(config: &ModelConfig, window: Option<Window>) -> AttentionMerge {
    let ModelConfig { heads, head_dim, .. } = *config;
    AttentionMerge { heads, head_dim, window }
}

pub fn sample(config: &ModelConfig) -> Sample {
    Sample { vocab: config.vocab }
}

pub fn logprobs(config: &ModelConfig) -> Logprobs {
    Logprobs { vocab: config.vocab }
}

/// How the KV cache of one layer is laid out.
pub fn kv_layout(config: &ModelConfig, kind: KvKind) -> KvLayout {
    KvLayout { kind, kv_heads: config.kv_heads, head_dim: config.head_dim }
}

/// Bytes of one layer's KV block.
pub fn layer_block_bytes(config: &ModelConfig, kind: KvKind) -> u64 {
    kv_layout(config, kind).block_words() as u64 * 4
}

/// Bytes of one KV block of all layers, whose kinds are `kinds`.
pub fn block_bytes(config: &ModelConfig, kinds: &[KvKind]) -> u64 {
    kinds.iter().map(|kind| layer_block_bytes(config, *kind)).sum()
}

/// (cos, sin) of the angles of all positions, see [`crate::kernels::rope_table`]; `factors` are the
/// weight [`crate::model::Param::RopeFactors`], if the model has it.
pub fn rope_table(config: &ModelConfig, factors: &[f32], context: usize) -> Vec<f32> {
    let frequencies = config.rope.inverse_frequencies(config.head_dim, factors);
    let exact: Vec<f64> = frequencies.into_iter().map(f64::from).collect();
    crate::kernels::rope_table(&exact, context)
}
