//! Qwen 2 and 2.5, with biases on queries, keys and values, and Qwen 3, with norms of queries and keys
//! instead.

use crate::error::Result;
use crate::model::{ModelConfig, QkNorm, config::window, json::Fields};
use serde_json::json;

pub(super) fn configure_2(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.read_rope(fields)?;
    config.qkv_bias = true;
    switched_window(fields, config)
}

pub(super) fn configure_3(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    if fields.get("head_dim").is_none() {
        config.head_dim = 128;
    }
    normalise_heads(fields, config)
}

/// Common to all sizes of Qwen 3, with experts or without.
pub(super) fn normalise_heads(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    fields.require(
        "attention_bias",
        &[json!(false)],
        "false: biases of the attention's output projection are not supported",
    )?;
    config.read_rope(fields)?;
    config.qk_norm = Some(QkNorm::Head);
    switched_window(fields, config)
}

/// Qwen 2 in a GGUF file.
pub(super) fn configure_gguf_2(_: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.qkv_bias = true;
    Ok(())
}

/// Qwen 3 in a GGUF file.
pub(super) fn configure_gguf_3(_: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.qk_norm = Some(QkNorm::Head);
    Ok(())
}

/// The window: only on layers from `max_window_layers` on, and only if enabled.
fn switched_window(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    if !fields.flag("use_sliding_window")? {
        return Ok(());
    }
    let first = fields.count_or("max_window_layers", 0..=usize::MAX, 28)?;
    window(fields, config, None, |layer| layer >= first)
}
