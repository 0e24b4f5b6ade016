//! SmolLM3: Llama with some layers without rotary embedding (NoPE).

use super::llama;
use crate::error::Result;
use crate::model::{ModelConfig, config::window, json::Fields};

/// Every 4th layer has no rotary embedding.
const INTERVAL: usize = 4;

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    llama::configure(fields, config)?;
    if fields.get("tie_word_embeddings").is_none() {
        config.tied = true;
    }
    let listed = fields.list("no_rope_layers")?;
    let interval = fields.count_or("no_rope_layer_interval", 1..=usize::MAX, INTERVAL)?;
    let turns = |layer: usize| match listed.get(layer) {
        Some(turns) => turns == 1,
        None => !(layer + 1).is_multiple_of(interval),
    };
    let is_flag = |value: &serde_json::Value| value == 0 || value == 1;
    if !listed.is_empty() && (listed.len() < config.layers || !listed.iter().all(is_flag)) {
        let expected = format!("1 or 0 for each of {} layers", config.layers);
        return Err(fields.invalid("no_rope_layers", expected));
    }
    remove_rope(config, turns);
    match fields.flag("use_sliding_window")? {
        true => window(fields, config, None, |layer| !turns(layer)),
        false => Ok(()),
    }
}

/// The same for a GGUF file, which does not state which layers these are.
pub(super) fn configure_gguf(_: &Fields, config: &mut ModelConfig) -> Result<()> {
    remove_rope(config, |layer| !(layer + 1).is_multiple_of(INTERVAL));
    Ok(())
}

fn remove_rope(config: &mut ModelConfig, turns: impl Fn(usize) -> bool) {
    for (i, layer) in config.attention.iter_mut().enumerate() {
        layer.rope.take_if(|_| !turns(i));
    }
}
