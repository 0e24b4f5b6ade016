//! Multi-token prediction: a layer of the target's own checkpoint, with the names of Qwen3-Next and
//! Qwen3.5, DeepSeek and GLM, or MiMo; or one that speculators has extracted.

use super::config::{DraftConfig, DraftFamily, Names, expect_target, has};
use crate::error::{Error, Result};
use crate::model::{ModelConfig, json::Fields};

const COUNTS: [&str; 2] = ["mtp_num_hidden_layers", "num_nextn_predict_layers"];

/// Returns true if and only if the file is that of a model with such a layer.
pub(super) fn is_in(fields: &Fields) -> Result<bool> {
    let text = fields.object("text_config")?;
    let fields = text.as_ref().unwrap_or(fields);
    let counts = COUNTS.iter().any(|count| fields.get(count).is_some_and(|count| *count != 0));
    Ok(counts || fields.text("model_type")? == Some("qwen3_next"))
}

/// Reads the file of the target.
pub(super) fn read(fields: &Fields, target: &ModelConfig) -> Result<DraftConfig> {
    let text = fields.object("text_config")?;
    let fields = text.as_ref().unwrap_or(fields);
    let mut config = read_layer(fields, target)?;
    let kind = fields.text("model_type")?.unwrap_or_default();
    if kind.starts_with("qwen3") {
        config.names = qwen();
        config.norms_less_one = true;
        config.output_gate =
            fields.get("attn_output_gate").is_none() || fields.flag("attn_output_gate")?;
        return Ok(config);
    }
    config.embedding_first = !kind.starts_with("mimo");
    config.names = match config.embedding_first {
        true => deepseek(target.layers),
        false => mimo("model.mtp_layers.0"),
    };
    Ok(config)
}

/// Reads a file of speculators, with the decoder in a nested object.
pub(super) fn from_speculators(fields: &Fields, target: &ModelConfig) -> Result<DraftConfig> {
    const LAYER: &str = "transformer_layer_config";
    let layer = fields.object(LAYER)?.ok_or_else(|| fields.invalid(LAYER, "an object"))?;
    expect_target(fields, "target_hidden_size", target)?;
    let mut config = read_layer(&layer, target)?;
    let kind = layer.text("model_type")?.unwrap_or_default();
    config.norms_less_one = kind.starts_with("qwen3_next") || kind.starts_with("qwen3_5");
    config.output_gate = config.norms_less_one;
    config.names = mimo("mtp_layers.0");
    Ok(config)
}

fn read_layer(fields: &Fields, target: &ModelConfig) -> Result<DraftConfig> {
    expect_target(fields, "hidden_size", target)?;
    for count in COUNTS {
        if fields.get(count).is_some_and(|count| *count != 1) {
            return Err(fields.invalid(count, "1: several layers that draft are not supported"));
        }
    }
    let mut config = DraftConfig::of_layers(DraftFamily::Mtp, fields, target)?;
    config.layers = 1;
    config.final_norm = true;
    config.norm_output = true;
    // The tensors show it.
    config.qk_norm = None;
    Ok(config)
}

fn qwen() -> Names {
    Names {
        prefix: "mtp.".into(),
        fuse: "mtp.fc".into(),
        embed_norm: "mtp.pre_fc_norm_embedding".into(),
        hidden_norm: "mtp.pre_fc_norm_hidden".into(),
        final_norm: "mtp.norm".into(),
        layers: vec!["mtp.layers.0".into()],
    }
}

/// The layer after the last one of the target.
fn deepseek(layers: usize) -> Names {
    let layer = |name: &str| format!("model.layers.{layers}{name}");
    Names {
        prefix: String::new(),
        fuse: layer(".eh_proj"),
        embed_norm: layer(".enorm"),
        hidden_norm: layer(".hnorm"),
        final_norm: layer(".shared_head.norm"),
        layers: vec![layer("")],
    }
}

/// The names of MiMo and speculators.
fn mimo(layer: &str) -> Names {
    let layer = |name: &str| format!("{layer}{name}");
    Names {
        prefix: String::new(),
        fuse: layer(".input_proj"),
        embed_norm: layer(".token_layernorm"),
        hidden_norm: layer(".hidden_layernorm"),
        final_norm: layer(".final_layernorm"),
        layers: vec![layer("")],
    }
}

pub(super) fn settle<'a>(
    config: &mut DraftConfig,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<()> {
    let first = config.names.layers[0].clone();
    if has(names.clone(), &format!("{first}.mlp.experts")) {
        return Err(Error::WrongTensor {
            name: format!("{first}.mlp.experts"),
            found: "there".into(),
            expected: "absent: draft layers with experts are not supported".into(),
        });
    }
    config.settle_layers(names);
    Ok(())
}
