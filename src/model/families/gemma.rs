//! Gemma 2 and 3: norms around both blocks, scaled embeddings, GELU gate, windows on most layers.

use crate::error::Result;
use crate::model::{
    Activation, Caps, ModelConfig, Norms, QkNorm, Rope, RopeScaling, config::window, json::Fields,
    metadata,
};
use half::{bf16, f16};
use serde_json::{Value, json};

/// Every 6th layer of Gemma 3 has full attention.
const INTERVAL: usize = 6;
/// `rope_theta` of Gemma 3's layers with a window.
const LOCAL_THETA: f64 = 10_000.0;

/// Gemma 3 with a vision tower; only the text model is used.
pub(super) const WITH_IMAGES: &str = "Gemma3ForConditionalGeneration";

/// The fields of the text model of [`WITH_IMAGES`], completed with the defaults that its files omit.
pub(super) fn text(fields: &Fields) -> Result<Fields> {
    let text = fields.object("text_config")?;
    let mut text = text.ok_or_else(|| fields.invalid("text_config", "an object"))?;
    for (field, default) in [
        ("vocab_size", 262_208.into()),
        ("num_attention_heads", 8.into()),
        ("num_key_value_heads", 4.into()),
        ("head_dim", 256.into()),
        ("max_position_embeddings", 131_072.into()),
        ("rms_norm_eps", 1e-6.into()),
    ] {
        text.set_default(field, default);
    }
    for field in ["torch_dtype", "dtype", "tie_word_embeddings"] {
        if let Some(value) = fields.get(field) {
            text.set_default(field, value.clone());
        }
    }
    Ok(text)
}

pub(super) fn configure_2(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    common(fields, config)?;
    config.read_rope(fields)?;
    config.caps = Caps {
        attention: cap(fields, "attn_logit_softcapping", Some(50.0))?,
        logits: cap(fields, "final_logit_softcapping", Some(30.0))?,
    };
    window(fields, config, Some(4096), |layer| layer.is_multiple_of(2))
}

pub(super) fn configure_3(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    common(fields, config)?;
    config.qk_norm = Some(QkNorm::Head);
    fields.require("attn_logit_softcapping", &[], "null")?;
    config.caps.logits = cap(fields, "final_logit_softcapping", None)?;
    let interval = fields.count_or("sliding_window_pattern", 1..=usize::MAX, INTERVAL)?;
    window(fields, config, Some(4096), |layer| !(layer + 1).is_multiple_of(interval))?;

    let nested = fields.object("rope_parameters")?;
    let of_kind = |kind: &str| nested.as_ref().map_or(Ok(None), |nested| nested.object(kind));
    let dims = config.head_dim;
    let global = match of_kind("full_attention")? {
        Some(own) => Rope::from_parameters(fields, own, dims, 1_000_000.0)?,
        None => Rope::from_fields(fields, dims, 1_000_000.0)?,
    };
    let local = match of_kind("sliding_attention")? {
        Some(own) => Rope::from_parameters(fields, own, dims, LOCAL_THETA)?,
        None => {
            let theta = fields.positive_or("rope_local_base_freq", LOCAL_THETA)?;
            Rope { theta, dims, scaling: RopeScaling::None }
        }
    };
    set_ropes(config, &global, &local);
    Ok(())
}

fn common(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    let known = [json!("gelu_pytorch_tanh")];
    fields.require("hidden_activation", &known, "\"gelu_pytorch_tanh\"")?;
    for flag in ["attention_bias", "use_bidirectional_attention"] {
        fields.require(flag, &[json!(false)], "false")?;
    }
    if fields.get("tie_word_embeddings").is_none() {
        config.tied = true;
    }
    shape(config);
    config.norms_less_one = true;
    let exact = config.scales.embedding;
    // Rounded to the number type of the training.
    config.scales.embedding = match fields.text("torch_dtype")?.or(fields.text("dtype")?) {
        Some("bfloat16") => bf16::from_f32(exact).to_f32(),
        Some("float16") => f16::from_f32(exact).to_f32(),
        _ => exact,
    };
    let scalar = fields.positive_or("query_pre_attn_scalar", 256.0)?;
    config.scales.attention = Some(scalar.sqrt().recip() as f32);
    Ok(())
}

/// Fixed properties, which the files do not state.
fn shape(config: &mut ModelConfig) {
    config.norms = Norms::Around;
    config.activation = Activation::GeluTanh;
    config.scales.embedding = (config.hidden as f32).sqrt();
}

/// Sets one rotary embedding for layers with full attention and another for layers with a window.
fn set_ropes(config: &mut ModelConfig, global: &Rope, local: &Rope) {
    for layer in &mut config.attention {
        let rope = if layer.window.is_some() { local } else { global };
        layer.rope = Some(rope.clone());
    }
}

fn cap(fields: &Fields, field: &str, absent: Option<f32>) -> Result<Option<f32>> {
    match fields.get(field) {
        Some(_) => Ok(Some(fields.positive(field)? as f32)),
        None if fields.has(field) => Ok(None),
        None => Ok(absent),
    }
}

/// Gemma 2 in a GGUF file.
pub(super) fn configure_gguf_2(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    shape(config);
    config.scales.attention = attention_scale(fields, config, 46)?;
    config.caps = Caps {
        attention: cap(fields, "attn_logit_softcapping", Some(50.0))?,
        logits: cap(fields, "final_logit_softcapping", Some(30.0))?,
    };
    let tokens = fields.count_or("attention.sliding_window", 1..=u32::MAX as usize, 4096)?;
    config.set_windows(tokens, |layer| layer.is_multiple_of(2));
    Ok(())
}

/// Gemma 3 in a GGUF file.
pub(super) fn configure_gguf_3(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    shape(config);
    config.qk_norm = Some(QkNorm::Head);
    config.scales.attention = attention_scale(fields, config, 62)?;
    config.caps.logits = cap(fields, "final_logit_softcapping", None)?;
    metadata::window(fields, config)?;
    let slides = sliding_layers(fields, config.layers)?;
    let global = config.attention.iter().find_map(|layer| layer.rope.clone());
    let theta = fields.positive_or("rope.freq_base_swa", LOCAL_THETA)?;
    let local = Rope { theta, dims: config.head_dim, scaling: RopeScaling::None };
    for (layer, _) in config.attention.iter_mut().zip(&slides).filter(|(_, slides)| !**slides) {
        layer.window = None;
    }
    if let Some(global) = global {
        set_ropes(config, &global, &local);
    }
    Ok(())
}

/// The layers with a window: listed, or all but every so many.
fn sliding_layers(fields: &Fields, layers: usize) -> Result<Vec<bool>> {
    let pattern = "attention.sliding_window_pattern";
    if let Some(Value::Array(list)) = fields.get(pattern) {
        let listed: Vec<bool> = list.iter().filter_map(Value::as_bool).collect();
        return match listed.len() == layers && list.len() == layers {
            true => Ok(listed),
            false => Err(fields.invalid(pattern, format!("true or false for {layers} layers"))),
        };
    }
    let interval = fields.count_or(pattern, 1..=usize::MAX, INTERVAL)?;
    Ok((0..layers).map(|layer| !(layer + 1).is_multiple_of(interval)).collect())
}

/// The 27B models, with `largest` layers, scale attention by another size than head_dim.
fn attention_scale(fields: &Fields, config: &ModelConfig, largest: usize) -> Result<Option<f32>> {
    let share = (config.hidden / config.heads) as f32;
    let default = (config.layers == largest).then(|| share.sqrt().recip());
    Ok(metadata::attention_scale(fields)?.or(default))
}
