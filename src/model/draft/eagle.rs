//! EAGLE and EAGLE-2: a decoder layer without its first norm, with the target's output matrix.

use super::config::{DraftConfig, DraftFamily, expect_target, has};
use crate::error::Result;
use crate::model::{ModelConfig, json::Fields};
use serde_json::json;

pub(super) fn read(fields: &Fields, target: &ModelConfig) -> Result<DraftConfig> {
    // Heads converted by vLLM have the decoder in a nested object.
    let nested = fields.object("model")?;
    let layer = nested.as_ref().unwrap_or(fields);
    expect_target(layer, "hidden_size", target)?;
    let expected = "false: norms before the first projection are not supported";
    fields.require("add_para_norm", &[json!(false)], expected)?;
    DraftConfig::of_layers(DraftFamily::Eagle, layer, target)
}

pub(super) fn settle<'a>(
    config: &mut DraftConfig,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<()> {
    config.settle_names(names.clone())?;
    config.names.fuse = config.module("fc");
    config.settle_layers(names.clone());
    config.own_head = has(names.clone(), &config.module("lm_head")) || has(names, "lm_head");
    Ok(())
}
