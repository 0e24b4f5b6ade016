//! Granite 3: Llama with multipliers.

use super::llama;
use crate::error::Result;
use crate::model::{ModelConfig, Scales, json::Fields, metadata};

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    llama::configure(fields, config)?;
    let multiplier = |field: &str| fields.positive_or(field, 1.0).map(|scale| scale as f32);
    config.scales = Scales {
        embedding: multiplier("embedding_multiplier")?,
        attention: Some(multiplier("attention_multiplier")?),
        residual: multiplier("residual_multiplier")?,
        logits: 1.0 / multiplier("logits_scaling")?,
    };
    Ok(())
}

/// The same in a GGUF file.
pub(super) fn configure_gguf(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    let multiplier = |field: &str| fields.positive_or(field, 1.0).map(|scale| scale as f32);
    config.scales = Scales {
        embedding: multiplier("embedding_scale")?,
        attention: metadata::attention_scale(fields)?,
        residual: multiplier("residual_scale")?,
        logits: 1.0 / multiplier("logit_scale")?,
    };
    Ok(())
}
