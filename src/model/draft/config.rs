//! Sizes and options of a draft head.

use crate::error::{Error, Result};
use crate::model::config::{Activation, ModelConfig, Naming, QkNorm, activation, check_heads};
use crate::model::json::Fields;
use crate::model::rope::Rope;
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
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub(super) names: Names,
}

/// The family of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftFamily {
    /// <https://arxiv.org/abs/2503.01840>
    Eagle3,
    /// EAGLE and EAGLE-2, <https://arxiv.org/abs/2401.15077>
    #[default]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Features {
    /// Residual streams, each by its number of applied layers, in ascending order.
    Streams(Vec<usize>),
    /// The input of the target's output matrix, after the final norm.
    #[default]
    Last,
}

/// Norm of the target's streams before they are fused, see [`crate::model::Param::FuseNorm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuseNorm {
    /// All of them as one row.
    Row,
    /// Each on its own.
    Each,
}

/// Module names of a head's checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Names {
    /// Prefix of all names that are not in full below.
    pub prefix: String,
    pub fuse: String,
    pub embed_norm: String,
    pub hidden_norm: String,
    pub final_norm: String,
    pub layers: Vec<String>,
}

/// Limit of layers, and of Medusa heads.
pub(super) const MOST_LAYERS: usize = 64;

impl DraftConfig {
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

    /// Columns of [`crate::model::Param::Fuse`].
    pub fn fuse_columns(&self) -> usize {
        match &self.features {
            Features::Streams(streams) => streams.len() * self.feature_width,
            Features::Last => self.hidden + self.feature_width,
        }
    }

    /// A head without layers and optional parts.
    pub(super) fn new(target: &ModelConfig) -> DraftConfig {
        DraftConfig {
            hidden: target.hidden,
            norm_eps: target.norm_eps,
            rope: Rope { theta: 1.0, ..Rope::default() },
            vocab: target.vocab,
            target_vocab: target.vocab,
            feature_width: target.hidden,
            embedding_first: true,
            ..DraftConfig::default()
        }
    }

    /// Reads the common fields of heads with layers from a decoder's fields.
    pub(super) fn of_layers(
        family: DraftFamily,
        fields: &Fields,
        target: &ModelConfig,
    ) -> Result<DraftConfig> {
        expect_dense(fields)?;
        let windows = |kind: &Value| kind == "sliding_attention";
        // In a target's file they are those of its own layers.
        if family != DraftFamily::Mtp && fields.list("layer_types")?.iter().any(windows) {
            let expected = "full attention: sliding windows are not supported in draft layers";
            return Err(fields.invalid("layer_types", expected));
        }
        let qwen3 = fields.text("model_type")?.is_some_and(|kind| kind.starts_with("qwen3"));
        let hidden = fields.count("hidden_size", 1..=1 << 16)?;
        let heads = fields.count("num_attention_heads", 1..=1024)?;
        let default = if qwen3 { 128 } else { hidden / heads };
        let head_dim = fields.count_or("head_dim", 8..=256, default)?;
        let kv_heads = fields.count_or("num_key_value_heads", 1..=1024, heads)?;
        check_heads(fields, heads, ("head_dim", head_dim), ("num_key_value_heads", kv_heads))?;
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
            rope: Rope::in_part(fields, head_dim)?,
            layers: fields.count_or("num_hidden_layers", 1..=MOST_LAYERS, 1)?,
            qkv_bias: fields.flag("attention_bias")?,
            qk_norm: qwen3.then_some(QkNorm::Head),
            ..DraftConfig::new(target)
        })
    }

    /// Finds the optional parts of the layers from the names of tensors.
    pub(super) fn settle_layers<'a>(&mut self, names: impl Iterator<Item = &'a str> + Clone) {
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
    pub(super) fn settle_names<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<()> {
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
    pub(super) fn module(&self, name: &str) -> String {
        format!("{}{name}", self.names.prefix)
    }
}

/// Whether there is a tensor of this name, or of this module.
pub(super) fn has<'a>(mut names: impl Iterator<Item = &'a str>, module: &str) -> bool {
    names.any(|name| {
        name.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Refuses layers with experts, latent attention or windows.
fn expect_dense(fields: &Fields) -> Result<()> {
    for experts in ["num_experts", "num_local_experts", "n_routed_experts"] {
        let expected = "absent: draft layers with experts are not supported";
        fields.require(experts, &[json!(0)], expected)?;
    }
    for rank in ["kv_lora_rank", "q_lora_rank"] {
        fields.require(rank, &[], "absent: latent attention is not supported in draft layers")?;
    }
    let windows = "absent: draft layers with sliding windows are not supported";
    fields.require("use_sliding_window", &[json!(false)], windows)?;
    fields.require("mlp_bias", &[json!(false)], "false: biases in the MLP are not supported")
}

/// Checks the fields that describe the target of a head.
pub(super) fn expect_target(fields: &Fields, hidden: &str, target: &ModelConfig) -> Result<()> {
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
