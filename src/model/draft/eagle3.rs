//! EAGLE-3 as published by SafeAILab, SpecForge, vLLM and speculators.
//!
//! Files name the target's streams that a head reads in one of two ways. A list at the top level
//! (speculators, vLLM) has the number of applied layers; a list in `eagle_config` (SpecForge, SGLang)
//! has the index of the last applied layer, which is one less.

use super::config::{DraftConfig, DraftFamily, Features, FuseNorm, expect_target, has};
use crate::error::Result;
use crate::model::{ModelConfig, json::Fields};
use serde_json::json;

const STREAMS: &str = "eagle_aux_hidden_state_layer_ids";

/// Reads a file with the decoder at its top level.
pub(super) fn read(fields: &Fields, target: &ModelConfig) -> Result<DraftConfig> {
    // Heads converted by vLLM have it in a nested object.
    let nested = fields.object("model")?;
    let mut config = read_with(fields, nested.as_ref().unwrap_or(fields), target)?;
    config.norm_before_residual = fields.flag("norm_before_residual")?;
    Ok(config)
}

/// Reads a file of speculators, with the decoder in a nested object.
pub(super) fn from_speculators(fields: &Fields, target: &ModelConfig) -> Result<DraftConfig> {
    const LAYER: &str = "transformer_layer_config";
    let layer = fields.object(LAYER)?.ok_or_else(|| fields.invalid(LAYER, "an object"))?;
    let mut config = read_with(fields, &layer, target)?;
    config.norm_before_residual =
        !fields.has("norm_before_residual") || fields.flag("norm_before_residual")?;
    Ok(config)
}

fn read_with(fields: &Fields, layer: &Fields, target: &ModelConfig) -> Result<DraftConfig> {
    expect_target(fields, "target_hidden_size", target)?;
    let mut config = DraftConfig::of_layers(DraftFamily::Eagle3, layer, target)?;
    if fields.get("target_hidden_size").is_none() {
        expect_target(layer, "hidden_size", target)?;
    }
    let eagle = fields.object("eagle_config")?;
    if let Some(eagle) = &eagle {
        let expected = "true: heads that read the last hidden state alone are not supported";
        eagle.require("use_aux_hidden_state", &[json!(true)], expected)?;
    }
    config.features = Features::Streams(streams(fields, eagle.as_ref(), target)?);
    let cut = ["draft_vocab_size", "truncated_vocab_size"];
    if let Some(field) = cut.into_iter().find(|field| fields.get(field).is_some()) {
        config.vocab = fields.count(field, 1..=target.vocab)?;
    }
    let flag = |field: &str| -> Result<bool> {
        let nested = eagle.as_ref().map_or(Ok(false), |eagle| eagle.flag(field))?;
        Ok(fields.flag(field)? || nested)
    };
    config.fuse_norm = match (flag("norm_before_fc")?, flag("fc_norm")?) {
        (true, true) => return Err(fields.invalid("fc_norm", "false: norm_before_fc is true")),
        (true, false) => Some(FuseNorm::Row),
        (false, true) => Some(FuseNorm::Each),
        (false, false) => None,
    };
    config.norm_output = flag("norm_output")?;
    config.final_norm = true;
    // Trained embeddings are the head's own; if the file does not say, they may have been trained.
    config.own_embed = !fields.has("embed_requires_grad") || fields.flag("embed_requires_grad")?;
    config.own_embed |= config.hidden != target.hidden;
    Ok(config)
}

/// The streams of the target that the head reads, by number of applied layers.
fn streams(fields: &Fields, eagle: Option<&Fields>, target: &ModelConfig) -> Result<Vec<usize>> {
    let layers = target.layers;
    let nested = eagle.filter(|eagle| eagle.get(STREAMS).is_some());
    let (place, more) = match nested.filter(|_| fields.get(STREAMS).is_none()) {
        Some(eagle) => (eagle, 1),
        None => (fields, 0),
    };
    let listed = place.list(STREAMS)?;
    let mut streams: Vec<usize> = match (listed, layers.checked_sub(3)) {
        ([], Some(late)) => vec![2, layers / 2, late],
        _ => {
            let ids = listed.iter().filter_map(|id| usize::try_from(id.as_u64()?).ok());
            ids.map(|id| id.saturating_add(more)).collect()
        }
    };
    // They are joined in layer order, whatever the order of the list.
    streams.sort_unstable();
    let is_one_of_each = streams.windows(2).all(|pair| pair[0] < pair[1]);
    let is_within = streams.last().is_some_and(|last| *last <= layers);
    if !is_one_of_each || !is_within || !listed.is_empty() && listed.len() != streams.len() {
        let expected = format!("a list of different layers of the target, which has {layers}");
        return Err(place.invalid(STREAMS, expected));
    }
    Ok(streams)
}

pub(super) fn settle<'a>(
    config: &mut DraftConfig,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<()> {
    config.settle_names(names.clone())?;
    let first = config.names.layers[0].clone();
    config.names.fuse = config.module("fc");
    config.names.embed_norm = format!("{first}.input_layernorm");
    config.names.hidden_norm = format!("{first}.hidden_norm");
    config.names.final_norm = config.module("norm");
    config.settle_layers(names.clone());
    let has =
        |module: &str| has(names.clone(), &config.module(module)) || has(names.clone(), module);
    let fuse_norm = match (has("input_norm"), has("fc_norm")) {
        (true, _) => Some(FuseNorm::Row),
        (false, true) => Some(FuseNorm::Each),
        (false, false) => config.fuse_norm,
    };
    // The target's matrices do not fit a head with another width or vocabulary.
    let is_other_width = config.hidden != config.feature_width;
    let own_embed = is_other_width || config.own_embed && has("embed_tokens");
    let is_other = is_other_width || config.vocab != config.target_vocab;
    let own_head = is_other || has("lm_head");
    config.fuse_norm = fuse_norm;
    config.own_embed = own_embed;
    config.own_head = own_head;
    Ok(())
}
