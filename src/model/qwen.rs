//! Qwen 2 and 2.5, which have biases on queries, keys and values, and Qwen 3, which normalises heads instead.

use super::ModelConfig;
use super::config::window;
use super::json::Fields;
use crate::error::Result;
use serde_json::json;

pub(super) fn configure_2(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.qkv_bias = true;
    config.window = switched_window(fields, config.layers)?;
    Ok(())
}

pub(super) fn configure_3(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    fields.require(
        "attention_bias",
        &[json!(false)],
        "false: biases of the attention's output projection are not supported",
    )?;
    if fields.get("head_dim").is_none() {
        config.head_dim = 128;
    }
    config.qk_norm = true;
    config.window = switched_window(fields, config.layers)?;
    Ok(())
}

/// The window, which only layers from `max_window_layers` on have, and only if it is switched on.
fn switched_window(fields: &Fields, layers: usize) -> Result<Option<usize>> {
    if !fields.flag("use_sliding_window")? {
        return Ok(None);
    }
    if fields.get("layer_types").is_some() {
        return window(fields);
    }
    match fields.count_or("max_window_layers", 0..=usize::MAX, 28)? {
        0 => window(fields),
        full if full >= layers => Ok(None),
        _ => Err(fields.invalid(
            "max_window_layers",
            format!("0 or at least {layers}: a window on some layers only is not supported"),
        )),
    }
}
