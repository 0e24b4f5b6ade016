//! gpt-oss: experts with a clamped gate, attention sink logits, biases everywhere, and windows on every
//! other layer.

use crate::error::Result;
use crate::model::{
    Activation, ExpertModules, ModelConfig, RopeScaling, config::window, json::Fields, metadata,
};
use serde_json::json;

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    if fields.get("head_dim").is_none() {
        config.head_dim = 64;
    }
    config.read_rope_or(fields, 150_000.0)?;
    fields.require("attention_bias", &[json!(true)], "true")?;
    fields.require("swiglu_alpha", &[json!(1.702)], "1.702")?;
    fields.require("swiglu_limit", &[json!(7.0), json!(7)], "7")?;
    let modules = ExpertModules {
        router: "mlp.router",
        gate_up: &["mlp.experts.gate_up_proj"],
        down: "mlp.experts.down_proj",
    };
    config.set_experts(fields, ["num_local_experts", "num_experts_per_tok"], modules)?;
    shape(config);
    window(fields, config, Some(128), |layer| layer.is_multiple_of(2))
}

/// The same in a GGUF file.
pub(super) fn configure_gguf(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    metadata::experts(fields, config)?;
    shape(config);
    // Trained without rounding (truncate), which the metadata do not state.
    for rope in config.attention.iter_mut().flat_map(|layer| &mut layer.rope) {
        if let RopeScaling::Yarn { truncate, .. } = &mut rope.scaling {
            *truncate = false;
        }
    }
    metadata::window(fields, config)?;
    config.attention.iter_mut().skip(1).step_by(2).for_each(|layer| layer.window = None);
    Ok(())
}

/// Fixed properties, which the files do not state.
fn shape(config: &mut ModelConfig) {
    config.activation = Activation::Clamped;
    (config.qkv_bias, config.output_bias, config.sinks) = (true, true, true);
    if let Some(experts) = &mut config.experts {
        experts.biases = true;
    }
}
