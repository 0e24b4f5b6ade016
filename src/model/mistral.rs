//! Mistral: Llama with a sliding window.

use super::ModelConfig;
use super::config::window;
use super::json::Fields;
use crate::error::Result;

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.read_rope(fields)?;
    if !fields.has("num_key_value_heads") {
        config.kv_heads = 8;
    }
    window(fields, config, Some(4096), |_| true)
}
