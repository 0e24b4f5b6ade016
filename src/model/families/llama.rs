//! Llama 2 and 3; SmolLM2 has the same architecture.

use crate::error::Result;
use crate::model::{ModelConfig, json::Fields, metadata};
use serde_json::json;

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.read_rope(fields)?;
    fields.require(
        "attention_bias",
        &[json!(false)],
        "false: biases of the attention's output projection are not supported",
    )?;
    fields.require("mlp_bias", &[json!(false)], "false: biases in the MLP are not supported")
}

/// The same for a GGUF file; Mixtral if it has experts.
pub(super) fn configure_gguf(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    if fields.get(metadata::EXPERT_COUNT).is_some_and(|count| *count != 0) {
        metadata::experts(fields, config)?;
    }
    metadata::window(fields, config)
}
