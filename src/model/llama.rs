//! Llama 2 and 3; SmolLM2 has the same architecture.

use super::ModelConfig;
use super::json::Fields;
use crate::error::Result;
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
