//! GPT-2: LayerNorm, learned positions, no rotary embedding, no gate, biases everywhere, and matrices
//! in column-major order.

use super::json::Fields;
use super::params::renamed;
use super::{ModelConfig, Naming, ParamSource};
use crate::error::Result;
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

/// Modules: the usual name and GPT-2's name.
const MODULES: [(&str, &str); 10] = [
    ("embed_tokens", "transformer.wte"),
    ("embed_positions", "transformer.wpe"),
    ("norm", "transformer.ln_f"),
    ("lm_head", "lm_head"),
    ("input_layernorm", "ln_1"),
    ("self_attn.qkv_proj", "attn.c_attn"),
    ("self_attn.o_proj", "attn.c_proj"),
    ("post_attention_layernorm", "ln_2"),
    ("mlp.up_proj", "mlp.c_fc"),
    ("mlp.down_proj", "mlp.c_proj"),
];

/// Changes a source to GPT-2's name. The matrices of layers are in column-major order.
pub(super) fn rename(source: &mut ParamSource) {
    source.by_columns = source.name.ends_with("_proj.weight");
    source.name = renamed(&source.name, "transformer.h", |module| {
        let known = MODULES.iter().find(|(theirs, _)| *theirs == module);
        known.map_or(module, |(_, own)| own).into()
    });
}
