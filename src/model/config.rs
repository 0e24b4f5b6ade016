//! The sizes and options of a decoder, read from `config.json`; of GGUF files, see `gguf`.

use super::json::Fields;
use super::rope::Rope;
use super::{llama, mistral, qwen};
use crate::error::{Error, Result};
use serde_json::{Value, json};

/// A decoder-only transformer as its checkpoint describes it, checked and normalised.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// As the checkpoint names it, for example `LlamaForCausalLM`.
    pub architecture: String,
    pub hidden: usize,
    pub intermediate: usize,
    pub layers: usize,
    pub heads: usize,
    /// Divides `heads`: each KV head serves heads / kv_heads query heads.
    pub kv_heads: usize,
    /// A multiple of 8, at most 256.
    pub head_dim: usize,
    pub vocab: usize,
    /// Most positions the checkpoint was trained for.
    pub context: usize,
    pub rms_eps: f32,
    pub rope: Rope,
    /// The output matrix is the embedding matrix.
    pub tied: bool,
    pub qkv_bias: bool,
    /// RMS norm over each query and key head before the rotation.
    pub qk_norm: bool,
    /// A row sees only the last `window` positions, itself included.
    pub window: Option<usize>,
    pub naming: Naming,
}

/// How a checkpoint names its tensors and orders their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// As the folders of Hugging Face do.
    HuggingFace,
    /// As GGUF files do. If `interleaved`, rows 2i and 2i + 1 of a query or key head are those
    /// that turn together; here these are rows i and i + head_dim / 2.
    Gguf { interleaved: bool },
}

/// What an architecture adds to the fields that all share.
type Configure = fn(&Fields, &mut ModelConfig) -> Result<()>;

const ARCHITECTURES: [(&str, Configure); 4] = [
    ("LlamaForCausalLM", llama::configure),
    ("MistralForCausalLM", mistral::configure),
    ("Qwen2ForCausalLM", qwen::configure_2),
    ("Qwen3ForCausalLM", qwen::configure_3),
];

impl ModelConfig {
    /// Reads the `config.json` of a Hugging Face folder.
    pub fn from_json(bytes: &[u8]) -> Result<ModelConfig> {
        let fields = &Fields::parse("config.json", bytes)?;
        let (architecture, configure) = architecture(fields)?;
        fields.require("hidden_act", &[json!("silu")], "\"silu\"")?;

        let heads = fields.count("num_attention_heads", 1..=1024)?;
        let hidden = fields.count("hidden_size", 1..=1 << 16)?;
        let mut config = ModelConfig {
            architecture: architecture.into(),
            hidden,
            intermediate: fields.count("intermediate_size", 1..=1 << 18)?,
            layers: fields.count("num_hidden_layers", 1..=1024)?,
            heads,
            kv_heads: fields.count_or("num_key_value_heads", 1..=1024, heads)?,
            head_dim: fields.count_or("head_dim", 8..=256, hidden / heads)?,
            vocab: fields.count("vocab_size", 1..=1 << 21)?,
            context: fields.count("max_position_embeddings", 1..=1 << 24)?,
            rms_eps: fields.epsilon("rms_norm_eps")?,
            rope: Rope::from_fields(fields)?,
            tied: fields.flag("tie_word_embeddings")?,
            qkv_bias: false,
            qk_norm: false,
            window: None,
            naming: Naming::HuggingFace,
        };
        configure(fields, &mut config)?;
        config.check(fields, "head_dim", "num_key_value_heads")?;
        Ok(config)
    }

    /// Checks how sizes fit together; the fields are those of the sizes of a head and of how many
    /// heads have keys and values.
    pub(super) fn check(&self, fields: &Fields, head_dim: &str, kv_heads: &str) -> Result<()> {
        if !self.head_dim.is_multiple_of(8) || !(8..=256).contains(&self.head_dim) {
            let expected = "a multiple of 8 from 8 to 256";
            return Err(fields.invalid_as(head_dim, self.head_dim, expected));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let expected = format!("a divisor of the number of query heads, {}", self.heads);
            return Err(fields.invalid_as(kv_heads, self.kv_heads, expected));
        }
        Ok(())
    }

    /// Rows of the fused query, key and value projection.
    pub fn qkv_rows(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Width of the attention's output.
    pub fn attention_width(&self) -> usize {
        self.heads * self.head_dim
    }
}

fn architecture(fields: &Fields) -> Result<(&'static str, Configure)> {
    let found = fields.list("architectures")?.first().and_then(Value::as_str).unwrap_or("");
    let known = ARCHITECTURES.iter().find(|(name, _)| *name == found);
    known.copied().ok_or_else(|| Error::UnsupportedArchitecture {
        found: found.into(),
        supported: ARCHITECTURES.map(|(name, _)| name).join(", "),
    })
}

/// The sliding window that all layers have; a model whose layers differ is refused.
pub(super) fn window(fields: &Fields) -> Result<Option<usize>> {
    let types = fields.list("layer_types")?;
    let all = |kind: &str| types.iter().all(|found| found == kind);
    if !types.is_empty() && all("full_attention") {
        return Ok(None);
    }
    if !all("sliding_attention") {
        let expected = "\"full_attention\" for all layers or \"sliding_attention\" for all";
        return Err(fields.invalid("layer_types", expected));
    }
    let range = 1..=u32::MAX as usize;
    fields.get("sliding_window").map(|_| fields.count("sliding_window", range)).transpose()
}

#[cfg(test)]
mod tests;
