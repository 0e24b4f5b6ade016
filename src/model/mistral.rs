//! Mistral: a Llama with a sliding window.

use super::ModelConfig;
use super::config::window;
use super::json::Fields;
use crate::error::Result;

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    if !fields.has("num_key_value_heads") {
        config.kv_heads = 8;
    }
    config.window = if fields.has("sliding_window") { window(fields)? } else { Some(4096) };
    Ok(())
}
