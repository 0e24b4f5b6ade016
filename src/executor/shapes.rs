//! The kernels of a model that follow from its configuration, what its rows see, and how a layer's
//! cache is held.

use crate::{
    kernels::{Attention, AttentionMerge, KvKind, KvLayout, Logprobs, RopeKv, Sample},
    model::{LayerAttention, ModelConfig, Rope},
    step::Window,
};

pub fn rope_kv(config: &ModelConfig, layer: usize, window: Option<Window>, kind: KvKind) -> RopeKv {
    let ModelConfig { heads, kv_heads, head_dim, .. } = *config;
    let rotary = config.attention[layer].rope.as_ref().map_or(head_dim, |rope| rope.dims);
    let qk_norm = config.qk_norm.map(|over| (over, config.norm_eps));
    RopeKv { heads, kv_heads, head_dim, rotary, qk_norm, kind, window }
}

pub fn attention(config: &ModelConfig, window: Option<Window>, kind: KvKind) -> Attention {
    let ModelConfig { heads, kv_heads, head_dim, .. } = *config;
    let (scale, cap) = (config.attention_scale(), config.caps.attention);
    Attention { heads, kv_heads, head_dim, scale, cap, kind, window, split: false }
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

/// What the rows of a layer see, where `window` is what a step's rows see: a layer's own window is
/// kept to, and sinks are seen where they fit into it.
pub fn layer_window(config: &ModelConfig, layer: usize, window: Option<Window>) -> Option<Window> {
    let Some(own) = config.attention[layer].window else { return window };
    match window {
        Some(window) if window.sinks + window.tokens <= own => Some(window),
        window => {
            let tokens = window.map_or(own, |window| window.tokens.min(own));
            Some(Window { sinks: 0, tokens })
        }
    }
}

/// (cos, sin) of the angles of all positions, see [`crate::kernels::rope_table`], of each way in
/// which layers turn queries and keys.
pub struct RopeTables {
    pub tables: Vec<Vec<f32>>,
    /// The table of each layer.
    pub of_layer: Vec<usize>,
}

/// Tabulates angles; `factors` are the weight that [`ModelConfig::rope_factors`] names. Where nothing
/// turns, all angles are 0.
pub fn rope_tables(config: &ModelConfig, factors: &[f32], context: usize) -> RopeTables {
    let mut ropes: Vec<&Option<Rope>> = Vec::new();
    let mut of_layer = Vec::new();
    for LayerAttention { rope, .. } in &config.attention {
        let place = ropes.iter().position(|known| *known == rope);
        of_layer.push(place.unwrap_or(ropes.len()));
        if place.is_none() {
            ropes.push(rope);
        }
    }
    let table = |rope: &Option<Rope>| {
        let rope = rope.as_ref();
        let frequencies = rope.map(|rope| rope.inverse_frequencies(factors, context));
        let exact: Vec<f64> = frequencies.into_iter().flatten().map(f64::from).collect();
        let magnitude = rope.map_or(1.0, Rope::magnitude);
        crate::kernels::rope_table(&exact, magnitude, config.head_dim, context)
    };
    RopeTables { tables: ropes.into_iter().map(table).collect(), of_layer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_sees_what_its_own_window_and_that_of_all_allow() {
        let json = br#"{"architectures": ["Gemma2ForCausalLM"], "hidden_size": 16,
            "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "vocab_size": 10, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
            "head_dim": 8, "sliding_window": 100}"#;
        let config = ModelConfig::from_json(json).unwrap();
        let window = |sinks, tokens| Some(Window { sinks, tokens });
        for (all, local) in [
            (None, window(0, 100)),
            (window(0, 200), window(0, 100)),
            (window(0, 60), window(0, 60)),
            (window(16, 84), window(16, 84)),
            (window(16, 90), window(0, 90)),
            (window(16, 1000), window(0, 100)),
        ] {
            assert_eq!(layer_window(&config, 0, all), local);
            assert_eq!(layer_window(&config, 1, all), all);
        }
    }
}
