//! Phi 3 and Phi 4 mini: fused projections, partly rotated heads, and LongRoPE.

use crate::error::Result;
use crate::model::rope::{rotary_dims, scaling};
use crate::model::{ModelConfig, Rope, RopeScaling, config::window, json::Fields, metadata};
use serde_json::Value;

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.fused = true;
    let dims = rotary_dims(fields, config.head_dim)?;
    let context = config.context;
    let original = fields.count_or("original_max_position_embeddings", 2..=1 << 24, 4096)?;
    let rope = Rope::from_nested(fields, dims, 10_000.0, |nested, optional| {
        match nested.text("rope_type")?.or(nested.text("type")?) {
            Some("longrope" | "su" | "yarn") => longrope(nested, dims, original, context),
            _ => scaling(nested, optional),
        }
    })?;
    config.set_rope(&rope);
    window(fields, config, None, |_| true)
}

fn longrope(
    fields: &Fields,
    dims: usize,
    original_context: usize,
    context: usize,
) -> Result<RopeScaling> {
    let factors = |field: &str| -> Result<Vec<f64>> {
        let list = fields.list(field)?.iter().filter_map(Value::as_f64);
        let list: Vec<f64> = list.filter(|factor| *factor > 0.0).collect();
        match list.len() == dims / 2 && fields.list(field)?.len() == dims / 2 {
            true => Ok(list),
            false => Err(fields.invalid(field, format!("{} numbers above 0", dims / 2))),
        }
    };
    let longer = match fields.get("factor") {
        Some(_) => fields.positive("factor")?,
        None => context as f64 / original_context as f64,
    };
    let magnitude = match fields.get("attention_factor") {
        Some(_) => fields.positive("attention_factor")?,
        None if longer > 1.0 => (1.0 + longer.ln() / (original_context as f64).ln()).sqrt(),
        None => 1.0,
    };
    let (short, long) = (factors("short_factor")?, factors("long_factor")?);
    Ok(RopeScaling::Long { original_context, magnitude, short, long })
}

/// The same for a GGUF file, where the rotary factors are tensors.
pub(super) fn configure_gguf(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.fused = true;
    metadata::window(fields, config)
}
