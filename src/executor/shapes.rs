//! Kernel parameters, buffer shapes and KV cache sizes that follow from a model's
//! configuration.

use super::kv_places::{kinds_of_places, kv_places};
use crate::{
    kernels::{
        Accept, Attention, AttentionMerge, Combine, DraftSample, ExpertRows, KvGroup, KvKind,
        KvLayout, Logprobs, RopeKv, Route, Sample, query_heads,
    },
    layout::row_stride,
    model::{Act, Experts, LayerAttention, MatmulOutput, ModelConfig, Norms, Product, Rope},
    step::{Capacity, KvGroups, Window},
};

pub fn rope_kv(
    config: &ModelConfig,
    layer: usize,
    window: Option<Window>,
    kind: KvKind,
    group: KvGroup,
) -> RopeKv {
    let ModelConfig { heads, kv_heads, head_dim, .. } = *config;
    let rotary = config.attention[layer].rope.as_ref().map_or(head_dim, |rope| rope.dims);
    let qk_norm = config.qk_norm.map(|over| (over, config.norm_eps));
    RopeKv { heads, kv_heads, head_dim, rotary, qk_norm, kind, group, window }
}

pub fn attention(
    config: &ModelConfig,
    window: Option<Window>,
    kind: KvKind,
    group: KvGroup,
) -> Attention {
    let ModelConfig { heads, kv_heads, head_dim, .. } = *config;
    let (scale, cap) = (config.attention_scale(), config.caps.attention);
    let (sink_logits, split) = (config.sinks, false);
    Attention { heads, kv_heads, head_dim, scale, cap, kind, group, window, sink_logits, split }
}

pub fn attention_merge(config: &ModelConfig, window: Option<Window>) -> AttentionMerge {
    let ModelConfig { heads, head_dim, .. } = *config;
    AttentionMerge { heads, head_dim, window, sink_logits: config.sinks }
}

pub fn route(experts: &Experts) -> Route {
    Route { experts: experts.count, active: experts.active }
}

pub fn combine(config: &ModelConfig, experts: &Experts, scale: f32) -> Combine {
    let Experts { active, normalise, .. } = *experts;
    Combine { active, width: config.hidden, normalise, scale }
}

/// The experts of a product of which this matrix holds `held`, from `first` on.
pub fn expert_rows(experts: &Experts, x: Act, first: usize, held: usize) -> ExpertRows {
    ExpertRows { count: experts.count, active: experts.active, first, held, each: x == Act::Gated }
}

/// The first column of out and the output of the product of part `index`, of `parts`, whose first row
/// is `first`.
pub fn place_of_part(
    product: &Product,
    parts: usize,
    index: usize,
    first: usize,
) -> (usize, MatmulOutput) {
    let apart = product.output.apart().filter(|_| parts > 1 && !product.experts);
    match apart.and_then(|outputs| outputs.get(index).copied()) {
        Some(output) => (0, output),
        None => (first, product.output),
    }
}

/// Widths of activations that only some models have; 0 without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Widths {
    /// Of [`Act::Features`], hidden states that a target writes and its drafter reads.
    pub features: usize,
    /// Of [`Act::Joined`], which only drafters have.
    pub joined: usize,
    /// The widest matrix with reordered columns.
    pub ordered: usize,
}

/// The shape `[rows][width]` of an activation at this capacity.
pub fn act(config: &ModelConfig, draft: Widths, capacity: &Capacity, act: Act) -> (usize, usize) {
    let Capacity { rows, logit_rows, .. } = *capacity;
    let experts = config.experts.as_ref();
    let choices = experts.map_or(0, |experts| rows * experts.active);
    match act {
        Act::Residual => (rows, config.hidden),
        Act::Qkv => (rows, config.qkv_rows()),
        Act::Query => (rows, query_heads(config.heads, capacity.groups.widest()) * config.head_dim),
        Act::Attention => (rows, config.attention_width()),
        Act::Gated => {
            let dense = (rows, config.intermediate);
            let sparse = (choices, experts.map_or(0, |experts| experts.intermediate));
            let words = |(rows, width): (usize, usize)| rows * row_stride(width);
            if words(sparse) > words(dense) { sparse } else { dense }
        }
        Act::Router => (rows, experts.map_or(0, |experts| experts.count)),
        Act::Chosen => (choices, config.hidden),
        Act::Block => {
            let unused = config.norms == Norms::Before && draft.joined == 0;
            (if unused { 0 } else { rows }, config.hidden)
        }
        Act::Embedded => (if draft.joined == 0 { 0 } else { rows }, config.hidden),
        Act::Features => (rows, draft.features),
        Act::Joined => (rows, draft.joined),
        Act::Last => (logit_rows, config.hidden),
        Act::Logits => (logit_rows, config.vocab),
    }
}

/// Columns of an activation.
pub fn width(config: &ModelConfig, draft: Widths, act: Act) -> usize {
    match act {
        Act::Features => draft.features,
        Act::Joined => draft.joined,
        _ => config.hidden,
    }
}

pub fn draft_sample(config: &ModelConfig, mapped: bool) -> DraftSample {
    DraftSample { vocab: config.vocab, mapped }
}

pub fn sample(config: &ModelConfig) -> Sample {
    Sample { vocab: config.vocab }
}

pub fn accept(config: &ModelConfig) -> Accept {
    Accept { vocab: config.vocab }
}

pub fn logprobs(config: &ModelConfig) -> Logprobs {
    Logprobs { vocab: config.vocab }
}

/// Layout of one layer's KV cache.
pub fn kv_layout(config: &ModelConfig, kind: KvKind) -> KvLayout {
    KvLayout { kind, kv_heads: config.kv_heads, head_dim: config.head_dim }
}

/// Bytes of one layer's KV block.
pub fn layer_block_bytes(config: &ModelConfig, kind: KvKind) -> u64 {
    kv_layout(config, kind).block_words() as u64 * 4
}

/// Bytes of one KV block at all places; `kinds`: of each layer.
pub fn block_bytes(config: &ModelConfig, kinds: &[KvKind], groups: KvGroups) -> u64 {
    let places = kinds_of_places(&kv_places(config, groups), kinds);
    places.into_iter().map(|kind| layer_block_bytes(config, kind)).sum()
}

/// (cos, sin) of the angles of all positions, see [`crate::kernels::rope_table`]: one table per
/// different rope of the layers.
pub struct RopeTables {
    pub tables: Vec<Vec<f32>>,
    /// The table of each layer.
    pub of_layer: Vec<usize>,
}

/// Computes the tables. `factors`: the weight that [`ModelConfig::rope_factors`] names. Without rope,
/// all angles are 0.
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
