//! Llama 2 and 3, and SmolLM2, which is a Llama.

use crate::error::Result;
use crate::model::{ModelConfig, json::Fields, metadata};
use serde_json::json;

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.turn(fields)?;
    fields.require(
        "attention_bias",
        &[json!(false)],
        "false: biases of the attention's output projection are not supported",
    )?;
    fields.require("mlp_bias", &[json!(false)], "false: biases in the MLP are not supported")
}

/// The same in a GGUF file; with experts, Mixtral.
pub(super) fn configure_gguf(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    if fields.get(metadata::EXPERT_COUNT).is_some_and(|count| *count != 0) {
        metadata::experts(fields, config)?;
    }
    metadata::window(fields, config)
}
