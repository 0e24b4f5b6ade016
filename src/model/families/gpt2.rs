//! GPT-2: LayerNorm, learned positions, no rotary embedding, no gate, biases everywhere, and matrices
//! in column-major order.

use crate::error::Result;
use crate::model::{ModelConfig, Naming, json::Fields};
use serde_json::Value;

pub(super) const NAME: &str = "GPT2LMHeadModel";

/// The fields under the names that other architectures use.
pub(super) fn usual(fields: &Fields) -> Result<Fields> {
    fields.require("scale_attn_weights", &[true.into()], "true")?;
    fields.require("scale_attn_by_inverse_layer_idx", &[false.into()], "false")?;
    let mut renamed = fields.clone();
    let hidden = fields.count("n_embd", 1..=1 << 16)?;
    let range = |most| 1..=most;
    for (name, value) in [
        ("hidden_size", hidden),
        ("intermediate_size", fields.count_or("n_inner", range(1 << 18), 4 * hidden)?),
        ("num_hidden_layers", fields.count("n_layer", range(1024))?),
        ("num_attention_heads", fields.count("n_head", range(1024))?),
        ("max_position_embeddings", fields.count("n_positions", range(1 << 24))?),
    ] {
        renamed.set_default(name, value.into());
    }
    renamed.set_default("rms_norm_eps", fields.epsilon("layer_norm_epsilon")?.into());
    renamed.set_default("tie_word_embeddings", Value::Bool(true));
    fields.require("activation_function", &["gelu_new".into()], "\"gelu_new\"")?;
    renamed.set_default("hidden_act", "gelu_pytorch_tanh".into());
    Ok(renamed)
}

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.naming = Naming::Gpt2;
    configure_gguf(fields, config)
}

/// The same for a GGUF file, whose names and matrices have the usual form.
pub(super) fn configure_gguf(_: &Fields, config: &mut ModelConfig) -> Result<()> {
    config.layer_norm = true;
    config.positions = true;
    config.gated = false;
    config.fused = true;
    config.qkv_bias = true;
    config.output_bias = true;
    config.mlp_bias = true;
    config.attention.iter_mut().for_each(|layer| layer.rope = None);
    Ok(())
}
