//! Fields of GGUF metadata that several families share.

use super::config::{ExpertModules, ModelConfig};
use super::json::Fields;
use crate::error::Result;

pub(super) const EXPERT_COUNT: &str = "expert_count";

/// The multiplier of attention scores in the metadata, if any.
pub(super) fn attention_scale(fields: &Fields) -> Result<Option<f32>> {
    let scale = fields.get("attention.scale").map(|_| fields.positive("attention.scale"));
    Ok(scale.transpose()?.map(|scale| scale as f32))
}

/// Gives all layers the experts described by the metadata.
pub(super) fn experts(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    let modules = ExpertModules {
        router: "mlp.gate",
        gate_up: &["mlp.experts.gate_proj", "mlp.experts.up_proj"],
        down: "mlp.experts.down_proj",
    };
    let intermediate = config.intermediate;
    let experts = config.set_experts(fields, [EXPERT_COUNT, "expert_used_count"], modules)?;
    experts.intermediate =
        fields.count_or("expert_feed_forward_length", 1..=1 << 18, intermediate)?;
    Ok(())
}

/// Gives all layers the window of the metadata, if any.
pub(super) fn window(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    match fields.count_or("attention.sliding_window", 0..=u32::MAX as usize, 0)? {
        0 => {}
        tokens => config.set_windows(tokens, |_| true),
    }
    Ok(())
}
