//! Mixtral: Mistral with experts in each layer.

use crate::error::Result;
use crate::model::{ExpertModules, ModelConfig, config::window, json::Fields};

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.read_rope_or(fields, 1_000_000.0)?;
    if !fields.has("num_key_value_heads") {
        config.kv_heads = 8;
    }
    let modules = ExpertModules {
        router: "block_sparse_moe.gate",
        gate_up: &["block_sparse_moe.experts.*.w1", "block_sparse_moe.experts.*.w3"],
        down: "block_sparse_moe.experts.*.w2",
    };
    config.set_experts(fields, ["num_local_experts", "num_experts_per_tok"], modules)?;
    window(fields, config, None, |_| true)
}
