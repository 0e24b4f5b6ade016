//! Phi 3 and Phi 4 mini: fused projections, partly rotated heads, and LongRoPE.

use crate::error::Result;
use crate::model::{ModelConfig, Rope, config::window, json::Fields, metadata};

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.fused = true;
    let mut completed = fields.clone();
    completed.set_default("original_max_position_embeddings", 4096.into());
    config.set_rope(&Rope::in_part(&completed, config.head_dim)?);
    window(fields, config, None, |_| true)
}

/// The same for a GGUF file, where the rotary factors are tensors.
pub(super) fn configure_gguf(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.fused = true;
    metadata::window(fields, config)
}
