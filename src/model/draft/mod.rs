//! Draft heads: small networks that read hidden states of a model, the target, and draft its next
//! tokens.
//!
//! A head comes in a folder of its own, or inside its target's checkpoint. One file per family.

mod config;
mod eagle;
mod eagle3;
mod medusa;
mod mtp;
mod params;
mod program;

pub use config::{DraftConfig, DraftFamily, Features, FuseNorm};
pub use program::DraftProgram;

use super::json::Fields;
use super::{ModelConfig, ParamSpec};
use crate::error::{Error, Result};
use serde_json::{Value, json};

/// The supported families, for messages.
const FAMILIES: &str = "EAGLE-3, EAGLE, MTP, Medusa";

impl DraftConfig {
    /// Reads the `config.json` of a head, or of a target with the head inside.
    ///
    /// What only the tensors show is still unknown, see [`DraftConfig::with_tensors`].
    pub fn from_json(bytes: &[u8], target: &ModelConfig) -> Result<DraftConfig> {
        let fields = &Fields::parse("config.json", bytes)?;
        let architecture =
            fields.list("architectures")?.first().and_then(Value::as_str).unwrap_or("");
        let is_cut = ["draft_vocab_size", "truncated_vocab_size"];
        let unknown = |found: &str| Error::UnsupportedArchitecture {
            found: found.into(),
            supported: format!("{FAMILIES}, as draft heads"),
        };
        match fields.text("speculators_model_type")? {
            Some("eagle3") => return eagle3::from_speculators(fields, target),
            Some("mtp") => return mtp::from_speculators(fields, target),
            Some(other) => return Err(unknown(other)),
            None => {}
        }
        if fields.has("medusa_num_heads") {
            medusa::read(fields, target)
        } else if architecture.contains("Eagle3")
            || is_cut.iter().any(|field| fields.get(field).is_some())
        {
            eagle3::read(fields, target)
        } else if mtp::is_in(fields)? {
            mtp::read(fields, target)
        } else if architecture.to_lowercase().contains("eagle")
            // The first published heads have the architecture name of their target, which has more
            // layers.
            || architecture.ends_with("ForCausalLM")
                && fields.get("num_hidden_layers") == Some(&json!(1))
        {
            eagle::read(fields, target)
        } else {
            Err(unknown(architecture))
        }
    }

    /// Returns true if and only if this is the `config.json` of a model with a head inside.
    pub fn is_inside(bytes: &[u8]) -> Result<bool> {
        mtp::is_in(&Fields::parse("config.json", bytes)?)
    }

    /// Completes the config from the names of the head's tensors.
    pub fn with_tensors<'a>(
        mut self,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<DraftConfig> {
        match self.family {
            DraftFamily::Eagle3 => eagle3::settle(&mut self, names),
            DraftFamily::Eagle => eagle::settle(&mut self, names),
            DraftFamily::Mtp => mtp::settle(&mut self, names),
            DraftFamily::Medusa { .. } => medusa::settle(&mut self, names),
        }?;
        Ok(self)
    }

    /// Lists every weight of the head, without those shared with its target.
    pub fn params(&self) -> Vec<ParamSpec> {
        match self.family {
            DraftFamily::Medusa { heads, blocks } => medusa::params(self, heads, blocks),
            _ => params::params(self),
        }
    }
}
