//! Reads the `config.json` of Hugging Face folders.

use super::config::{LayerAttention, ModelConfig, activation, check_heads};
use super::families::{self, ARCHITECTURES, Architecture};
use super::json::Fields;
use crate::error::{Error, Result};
use serde_json::Value;

impl ModelConfig {
    /// Reads the `config.json` of a Hugging Face folder.
    pub fn from_json(bytes: &[u8]) -> Result<ModelConfig> {
        let fields = &Fields::parse("config.json", bytes)?;
        let Architecture { name: architecture, configure, .. } = architecture_of(fields)?;
        let fields = &families::usual(architecture, fields)?;

        let heads = fields.count("num_attention_heads", 1..=1024)?;
        let hidden = fields.count("hidden_size", 1..=1 << 16)?;
        let layers = fields.count("num_hidden_layers", 1..=1024)?;
        let head_dim = fields.count_or("head_dim", 8..=256, hidden / heads)?;
        let mut config = ModelConfig {
            architecture: architecture.into(),
            hidden,
            intermediate: fields.count("intermediate_size", 1..=1 << 18)?,
            layers,
            heads,
            kv_heads: fields.count_or("num_key_value_heads", 1..=1024, heads)?,
            head_dim,
            vocab: fields.count("vocab_size", 1..=1 << 21)?,
            context: fields.count("max_position_embeddings", 1..=1 << 24)?,
            norm_eps: fields.epsilon("rms_norm_eps")?,
            tied: fields.flag("tie_word_embeddings")?,
            gated: true,
            activation: activation(fields)?,
            attention: vec![LayerAttention { window: None, rope: None }; layers],
            ..ModelConfig::default()
        };
        configure(fields, &mut config)?;
        let kv_heads = ("num_key_value_heads", config.kv_heads);
        check_heads(fields, config.heads, ("head_dim", config.head_dim), kv_heads)?;
        Ok(config)
    }
}

/// The architecture that `architectures` names; of a file without, that of its `model_type`.
fn architecture_of(fields: &Fields) -> Result<Architecture> {
    let named = fields.list("architectures")?.first().and_then(Value::as_str);
    let kind = fields.text("model_type")?;
    let known = ARCHITECTURES.into_iter().find(|known| match named {
        Some(name) => known.name == name,
        None => Some(known.model_type) == kind,
    });
    known.ok_or_else(|| Error::UnsupportedArchitecture {
        found: named.or(kind).unwrap_or("").into(),
        supported: ARCHITECTURES.map(|known| known.name).join(", "),
    })
}

#[cfg(test)]
mod tests;
