//! Qwen 3 with experts in some layers.

use super::qwen;
use crate::error::Result;
use crate::model::{ExpertModules, ModelConfig, json::Fields, metadata};

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    qwen::normalise_heads(fields, config)?;
    let modules = ExpertModules {
        router: "mlp.gate",
        gate_up: &["mlp.experts.*.gate_proj", "mlp.experts.*.up_proj"],
        down: "mlp.experts.*.down_proj",
    };
    let count = match fields.has("num_experts") {
        true => "num_experts",
        false => "num_local_experts",
    };
    let step = fields.count_or("decoder_sparse_step", 1..=usize::MAX, 1)?;
    let dense = fields.list("mlp_only_layers")?;
    let experts = config.set_experts(fields, [count, "num_experts_per_tok"], modules)?;
    experts.intermediate = fields.count("moe_intermediate_size", 1..=1 << 18)?;
    experts.normalise = fields.flag("norm_topk_prob")?;
    for (layer, sparse) in experts.layers.iter_mut().enumerate() {
        *sparse = (layer + 1).is_multiple_of(step) && dense.iter().all(|other| *other != layer);
    }
    Ok(())
}

/// The same for a GGUF file, where all layers have experts.
pub(super) fn configure_gguf(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    qwen::configure_gguf_3(fields, config)?;
    metadata::experts(fields, config)?;
    Ok(())
}
