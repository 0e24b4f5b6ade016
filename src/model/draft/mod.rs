//! Draft heads: small networks that read hidden states of a model, the target, and draft its next
//! tokens.
//!
//! A head comes in a folder of its own, or inside its target's checkpoint. One file per family.

mod eagle;
mod eagle3;
mod medusa;
mod mtp;
mod params;
mod program;

pub use program::DraftProgram;

use super::config::{Activation, Naming, QkNorm, activation};
use super::json::Fields;
use super::rope::Rope;
use super::{ModelConfig, ParamSpec};
use crate::error::{Error, Result};
use serde_json::{Value, json};

/// A draft head as described by its checkpoint, checked against its target.
///
/// At position i a head reads the embedding of token i + 1 and a feature of position i. For further
/// drafts, the output of its own last layer takes the place of the target's feature.
///
/// | family | one row x of what its layers read | residual |
/// |---|---|---|
/// | EAGLE-3 | \[embed norm(e), hidden norm(f)\], f = fuse(\[streams\]) | f |
/// | EAGLE | fuse(\[e, f\]) | x |
/// | MTP | fuse(\[embed norm(e), hidden norm(f)\]) | x |
///
/// Embeddings are not scaled, even if the target scales its own.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftConfig {
    pub family: DraftFamily,
    /// Of the head itself, as all sizes of layers here.
    pub hidden: usize,
    pub intermediate: usize,
    pub heads: usize,
    /// Divides `heads`; may differ from the target's, and so may `head_dim`.
    pub kv_heads: usize,
    pub head_dim: usize,
    pub activation: Activation,
    pub norm_eps: f32,
    /// Norm weights are stored minus one.
    pub norms_less_one: bool,
    pub rope: Rope,
    /// Layers of the head, each with keys and values; 0 for Medusa, which does not use the layer sizes.
    pub layers: usize,
    /// Tokens in the head's vocabulary.
    pub vocab: usize,
    /// Tokens in the target's vocabulary.
    pub target_vocab: usize,
    /// The head has its own output matrix; else it uses the target's.
    pub own_head: bool,
    /// The head has its own embeddings; else it uses the target's.
    pub own_embed: bool,
    pub features: Features,
    /// Width of one feature: the target's hidden size.
    pub feature_width: usize,
    /// Norms of features before they are fused.
    pub fuse_norm: Option<FuseNorm>,
    pub fuse_bias: bool,
    /// The embedding comes first, then the feature.
    pub embedding_first: bool,
    /// The residual stream starts with the normalised feature instead of the feature.
    pub norm_before_residual: bool,
    /// There is a norm before the output matrix.
    pub final_norm: bool,
    /// The output that takes the place of the target's feature has passed the final norm.
    pub norm_output: bool,
    pub qkv_bias: bool,
    pub output_bias: bool,
    pub qk_norm: Option<QkNorm>,
    /// After the query rows of each head come as many gate rows, whose sigmoid scales its output.
    pub output_gate: bool,
    names: Names,
}

/// The family of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftFamily {
    /// <https://arxiv.org/abs/2503.01840>
    Eagle3,
    /// EAGLE and EAGLE-2, <https://arxiv.org/abs/2401.15077>
    Eagle,
    /// The multi-token prediction layer of the target's own checkpoint.
    Mtp,
    /// Each of the `heads` applies `blocks` times x + silu(W·x + b), then an output matrix. Head j
    /// drafts token j + 2 from the feature alone. Block b of head j is number j·blocks + b.
    ///
    /// <https://arxiv.org/abs/2401.10774>
    Medusa { heads: usize, blocks: usize },
}

/// The hidden states of the target that a head reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Features {
    /// Residual streams, each by its number of applied layers, in ascending order.
    Streams(Vec<usize>),
    /// The input of the target's output matrix, after the final norm.
    Last,
}

/// Norm of the target's streams before they are fused, see [`super::Param::FuseNorm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuseNorm {
    /// All of them as one row.
    Row,
    /// Each on its own.
    Each,
}

/// Module names of a head's checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
struct Names {
    /// Prefix of all names that are not in full below.
    prefix: String,
    fuse: String,
    embed_norm: String,
    hidden_norm: String,
    final_norm: String,
    layers: Vec<String>,
}

/// The supported families, for messages.
const FAMILIES: &str = "EAGLE-3, EAGLE, MTP, Medusa";

/// Limit of layers, and of Medusa heads.
const MOST_LAYERS: usize = 64;

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
            supported: format!("{FAMILIES}, as drafting heads"),
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

    /// The tensor that maps the head's tokens to the target's, as offsets: the target's id of token i
    /// is i + offset.
    pub fn vocabulary(&self) -> String {
        format!("{}d2t", self.names.prefix)
    }

    /// Rows of the fused query, key and value projection.
    pub fn qkv_rows(&self) -> usize {
        let gates = if self.output_gate { self.heads } else { 0 };
        (self.heads + gates + 2 * self.kv_heads) * self.head_dim
    }

    /// Columns of this projection.
    pub fn qkv_columns(&self, layer: usize) -> usize {
        match self.family {
            DraftFamily::Eagle3 if layer == 0 => 2 * self.hidden,
            _ => self.hidden,
        }
    }

    /// Whether a layer normalises the input of its attention. If not, it is normalised already, or not
    /// at all.
    pub fn has_attention_norm(&self, layer: usize) -> bool {
        self.family == DraftFamily::Mtp || layer > 0
    }

    /// Whether embeddings and features are normalised before they are joined.
    pub fn has_input_norms(&self) -> bool {
        matches!(self.family, DraftFamily::Eagle3 | DraftFamily::Mtp)
    }

    /// Columns of [`super::Param::Fuse`].
    pub fn fuse_columns(&self) -> usize {
        match &self.features {
            Features::Streams(streams) => streams.len() * self.feature_width,
            Features::Last => self.hidden + self.feature_width,
        }
    }

    /// Reads the common fields of heads with layers from a decoder's fields.
    fn of_layers(
        family: DraftFamily,
        fields: &Fields,
        target: &ModelConfig,
    ) -> Result<DraftConfig> {
        expect_dense(fields)?;
        let windows = |kind: &Value| kind == "sliding_attention";
        // In a target's file they are those of its own layers.
        if family != DraftFamily::Mtp && fields.list("layer_types")?.iter().any(windows) {
            let expected = "full attention: sliding windows are not supported in drafting layers";
            return Err(fields.invalid("layer_types", expected));
        }
        let qwen3 = fields.text("model_type")?.is_some_and(|kind| kind.starts_with("qwen3"));
        let hidden = fields.count("hidden_size", 1..=1 << 16)?;
        let heads = fields.count("num_attention_heads", 1..=1024)?;
        let default = if qwen3 { 128 } else { hidden / heads };
        let head_dim = fields.count_or("head_dim", 8..=256, default)?;
        let kv_heads = fields.count_or("num_key_value_heads", 1..=1024, heads)?;
        if !head_dim.is_multiple_of(8) || !(8..=256).contains(&head_dim) {
            let expected = "a multiple of 8 from 8 to 256";
            return Err(fields.invalid_as("head_dim", head_dim, expected));
        }
        if !heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of the number of query heads, {heads}");
            return Err(fields.invalid_as("num_key_value_heads", kv_heads, expected));
        }
        let of_target = format!("{}, the target's", target.vocab);
        if fields.count("vocab_size", 1..=1 << 21)? != target.vocab {
            return Err(fields.invalid("vocab_size", of_target));
        }
        Ok(DraftConfig {
            family,
            hidden,
            intermediate: fields.count("intermediate_size", 1..=1 << 18)?,
            heads,
            kv_heads,
            head_dim,
            activation: activation(fields)?,
            norm_eps: fields.epsilon("rms_norm_eps")?,
            norms_less_one: false,
            rope: Rope::in_part(fields, head_dim)?,
            layers: fields.count_or("num_hidden_layers", 1..=MOST_LAYERS, 1)?,
            vocab: target.vocab,
            target_vocab: target.vocab,
            own_head: false,
            own_embed: false,
            features: Features::Last,
            feature_width: target.hidden,
            fuse_norm: None,
            fuse_bias: false,
            embedding_first: true,
            norm_before_residual: false,
            final_norm: false,
            norm_output: false,
            qkv_bias: fields.flag("attention_bias")?,
            output_bias: false,
            qk_norm: qwen3.then_some(QkNorm::Head),
            output_gate: false,
            names: Names::default(),
        })
    }

    /// Finds the optional parts of the layers from the names of tensors.
    fn settle_layers<'a>(&mut self, names: impl Iterator<Item = &'a str> + Clone) {
        let first = self.names.layers.first().cloned().unwrap_or_default();
        let has = |module: &str| has(names.clone(), module);
        self.qkv_bias |= has(&format!("{first}.self_attn.q_proj.bias"));
        self.output_bias |= has(&format!("{first}.self_attn.o_proj.bias"));
        self.fuse_bias |= has(&format!("{}.bias", self.names.fuse));
        if has(&format!("{first}.self_attn.q_norm.weight")) {
            self.qk_norm = Some(QkNorm::Head);
        }
    }

    /// Finds the prefix of names, and the names of layers, from a tensor of the first layer.
    fn settle_names<'a>(&mut self, names: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        let firsts = ["midlayer.", "layers.0."];
        let place = |name: &'a str| {
            let (at, first) = firsts.iter().find_map(|first| Some((name.find(first)?, first)))?;
            Some((&name[..at], first.trim_end_matches('.')))
        };
        let found = names.filter(|name| name.contains(".self_attn.")).find_map(place);
        let (prefix, first) = found.ok_or_else(|| Error::MissingTensor {
            name: "layers.0.self_attn.q_proj.weight".into(),
        })?;
        self.names.prefix = prefix.into();
        self.names.layers = (0..self.layers)
            .map(|layer| match layer {
                0 => format!("{prefix}{first}"),
                _ => format!("{prefix}layers.{layer}"),
            })
            .collect();
        Ok(())
    }

    /// The full name of a module.
    fn module(&self, name: &str) -> String {
        format!("{}{name}", self.names.prefix)
    }
}

/// Whether there is a tensor of this name, or of this module.
fn has<'a>(mut names: impl Iterator<Item = &'a str>, module: &str) -> bool {
    names.any(|name| {
        name.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Refuses layers with experts, latent attention or windows.
fn expect_dense(fields: &Fields) -> Result<()> {
    for experts in ["num_experts", "num_local_experts", "n_routed_experts"] {
        let expected = "absent: drafting layers with experts are not supported";
        fields.require(experts, &[json!(0)], expected)?;
    }
    for rank in ["kv_lora_rank", "q_lora_rank"] {
        fields.require(
            rank,
            &[],
            "absent: latent attention is not supported in drafting layers",
        )?;
    }
    let windows = "absent: drafting layers with sliding windows are not supported";
    fields.require("use_sliding_window", &[json!(false)], windows)?;
    fields.require("mlp_bias", &[json!(false)], "false: biases in the MLP are not supported")
}

/// Checks the fields that describe the target of a head.
fn expect_target(fields: &Fields, hidden: &str, target: &ModelConfig) -> Result<()> {
    if fields.get(hidden).is_some() && fields.count(hidden, 1..=1 << 16)? != target.hidden {
        let expected = format!("{}, the target's: the head is another model's", target.hidden);
        return Err(fields.invalid(hidden, expected));
    }
    let Some(speculators) = fields.object("speculators_config")? else { return Ok(()) };
    let Some(verifier) = speculators.object("verifier")? else { return Ok(()) };
    let names = verifier.list("architectures")?;
    let family = |name: &str| name.split("For").next().unwrap_or_default().to_owned();
    let is_target = |name: &Value| {
        name.as_str().is_some_and(|name| family(name) == family(&target.architecture))
    };
    // GGUF files have other architecture names.
    if target.naming == Naming::HuggingFace && !names.is_empty() && !names.iter().any(is_target) {
        let expected = format!("{:?}, the target's", target.architecture);
        return Err(verifier.invalid("architectures", expected));
    }
    Ok(())
}
