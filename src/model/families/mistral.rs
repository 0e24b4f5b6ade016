//! Mistral: Llama with a sliding window.

use crate::error::Result;
use crate::model::{ModelConfig, config::window, json::Fields};

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.read_rope(fields)?;
    if !fields.has("num_key_value_heads") {
        config.kv_heads = 8;
    }
    window(fields, config, Some(4096), |_| true)
}
