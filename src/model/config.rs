//! Sizes and options of a decoder, and the fields of `config.json` that several families share.

use super::json::Fields;
use super::rope::Rope;
use crate::error::Result;
use serde_json::Value;

/// A decoder-only transformer as its checkpoint describes it, checked and normalised.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelConfig {
    /// The checkpoint's name for it, for example `LlamaForCausalLM`.
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
    /// Epsilon that norms add to the mean square.
    pub norm_eps: f32,
    /// Norms are LayerNorms with biases instead of RMSNorms.
    pub layer_norm: bool,
    /// Learned position embeddings are added to the token embeddings.
    pub positions: bool,
    /// The output matrix is the embedding matrix (tied embeddings).
    pub tied: bool,
    /// Query, key and value projections are one tensor of the checkpoint; gate and up projections are
    /// another.
    pub fused: bool,
    pub qkv_bias: bool,
    /// The output projection of attention has a bias.
    pub output_bias: bool,
    /// The MLP has a gate.
    pub gated: bool,
    pub mlp_bias: bool,
    /// Each head has a sink logit that takes part in its softmax and has no value, see
    /// [`super::Param::Sinks`].
    pub sinks: bool,
    /// RMS norms of queries and keys before the rotation.
    pub qk_norm: Option<QkNorm>,
    pub norms: Norms,
    /// Norm weights are stored minus one.
    pub norms_less_one: bool,
    /// Of the gate; without a gate, of the up projection.
    pub activation: Activation,
    pub scales: Scales,
    pub caps: Caps,
    /// Per layer.
    pub attention: Vec<LayerAttention>,
    pub experts: Option<Experts>,
    pub naming: Naming,
}

/// Mixture of experts: layers with several MLPs, of which a router chooses some for each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    pub count: usize,
    /// Experts chosen per row.
    pub active: usize,
    pub intermediate: usize,
    /// The weights of the chosen experts add up to 1; otherwise those of all experts do.
    pub normalise: bool,
    /// Of the router and of all products.
    pub biases: bool,
    /// Whether each layer has experts; others have one MLP.
    pub layers: Vec<bool>,
    pub modules: ExpertModules,
}

/// Names of the modules of a layer's experts: one per expert, with its number in place of `*`, or one
/// whose tensors hold all experts, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertModules {
    pub router: &'static str,
    /// Gate and up; or one name for both, whose rows alternate.
    pub gate_up: &'static [&'static str],
    pub down: &'static str,
}

/// The range of the norms of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Each head on its own.
    Head,
    /// All query heads of a row together, and all its key heads together.
    Row,
}

/// Position of the norms of a layer, which has two blocks: attention and MLP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Norms {
    /// On the input of a block.
    #[default]
    Before,
    /// On the output of a block, before it is added to the residual stream.
    After,
    /// Both.
    Around,
}

/// The activation function of an MLP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    #[default]
    Silu,
    /// GELU, tanh approximation.
    GeluTanh,
    /// See [`super::MatmulOutput::ClampedGate`].
    Clamped,
}

/// Multipliers in the forward pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scales {
    /// Of the embeddings.
    pub embedding: f32,
    /// Of attention scores; if none, 1 / sqrt(head_dim).
    pub attention: Option<f32>,
    /// Of a block's output before it is added to the residual stream, if there is no norm after it.
    pub residual: f32,
    /// Of the logits.
    pub logits: f32,
}

impl Default for Scales {
    fn default() -> Scales {
        Scales { embedding: 1.0, attention: None, residual: 1.0, logits: 1.0 }
    }
}

/// Soft caps: x becomes cap · tanh(x / cap).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Caps {
    /// Of attention scores.
    pub attention: Option<f32>,
    pub logits: Option<f32>,
}

/// Window and rotary embedding of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerAttention {
    /// A row attends only to the last `window` positions, its own included.
    pub window: Option<usize>,
    /// Rotary embedding of queries and keys, if any.
    pub rope: Option<Rope>,
}

/// Names of a checkpoint's tensors, and order of their rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// Hugging Face folders.
    #[default]
    HuggingFace,
    /// GGUF files. If `interleaved`, the rows of a rotated pair of a query or key head are neighbours,
    /// 2i and 2i + 1; here they are rows i and i + head_dim / 2.
    Gguf { interleaved: bool },
    /// Hugging Face folders of GPT-2.
    Gpt2,
}

/// Limits: experts per layer, and chosen experts per row.
const MOST_EXPERTS: usize = 1024;
const MOST_IN_ALL: usize = 1 << 16;
const MOST_ACTIVE: usize = 32;

impl ModelConfig {
    /// Multiplier of attention scores.
    pub fn attention_scale(&self) -> f32 {
        self.scales.attention.unwrap_or_else(|| (self.head_dim as f32).sqrt().recip())
    }

    /// Rows of the fused query, key and value projection.
    pub fn qkv_rows(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// The experts of a layer, if it has any.
    pub fn experts_of(&self, layer: usize) -> Option<&Experts> {
        self.experts.as_ref().filter(|experts| experts.layers[layer])
    }

    /// Gives all layers experts; the field named `active` has how many of `count` are chosen.
    pub(super) fn set_experts(
        &mut self,
        fields: &Fields,
        [count, active]: [&str; 2],
        modules: ExpertModules,
    ) -> Result<&mut Experts> {
        let count = fields.count(count, 1..=MOST_EXPERTS.min(MOST_IN_ALL / self.layers))?;
        Ok(self.experts.insert(Experts {
            count,
            active: fields.count(active, 1..=count.min(MOST_ACTIVE))?,
            intermediate: self.intermediate,
            normalise: true,
            biases: false,
            layers: vec![true; self.layers],
            modules,
        }))
    }

    /// The largest window of all layers; none if a layer has full attention.
    pub fn window(&self) -> Option<usize> {
        let windows = self.attention.iter().map(|layer| layer.window);
        windows.reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// Sets the rotary embedding of all layers as in the file, for heads whose dims are all rotated.
    pub(super) fn read_rope(&mut self, fields: &Fields) -> Result<()> {
        self.read_rope_or(fields, 10_000.0)
    }

    /// The same with another default for `rope_theta`.
    pub(super) fn read_rope_or(&mut self, fields: &Fields, theta: f64) -> Result<()> {
        let rope = Rope::from_fields(fields, self.head_dim, theta)?;
        self.set_rope(&rope);
        Ok(())
    }

    /// Sets the rotary embedding of all layers.
    pub(super) fn set_rope(&mut self, rope: &Rope) {
        self.attention.iter_mut().for_each(|layer| layer.rope = Some(rope.clone()));
    }

    /// Gives the layers chosen by `slides` a window of `tokens`.
    pub(super) fn set_windows(&mut self, tokens: usize, slides: impl Fn(usize) -> bool) {
        for (i, layer) in self.attention.iter_mut().enumerate() {
            layer.window = slides(i).then_some(tokens);
        }
    }

    /// Width of the attention's output.
    pub fn attention_width(&self) -> usize {
        self.heads * self.head_dim
    }
}

/// Checks that sizes of heads fit together. `head_dim` and `kv_heads` come with their field names, for
/// error messages.
pub(super) fn check_heads(
    fields: &Fields,
    heads: usize,
    (head_dim_field, head_dim): (&str, usize),
    (kv_heads_field, kv_heads): (&str, usize),
) -> Result<()> {
    if !head_dim.is_multiple_of(8) || !(8..=256).contains(&head_dim) {
        let expected = "a multiple of 8 from 8 to 256";
        return Err(fields.invalid_as(head_dim_field, head_dim, expected));
    }
    if !heads.is_multiple_of(kv_heads) {
        let expected = format!("a divisor of the number of query heads, {heads}");
        return Err(fields.invalid_as(kv_heads_field, kv_heads, expected));
    }
    Ok(())
}

pub(super) fn activation(fields: &Fields) -> Result<Activation> {
    match fields.text("hidden_act")? {
        None | Some("silu") => Ok(Activation::Silu),
        Some("gelu_pytorch_tanh") => Ok(Activation::GeluTanh),
        _ => Err(fields.invalid("hidden_act", "\"silu\" or \"gelu_pytorch_tanh\"")),
    }
}

/// Sets windows of `sliding_window` tokens, or the config's present one if that field is absent, on the
/// layers that `layer_types` calls sliding; without `layer_types`, on those chosen by `slides`.
pub(super) fn window(
    fields: &Fields,
    config: &mut ModelConfig,
    absent: Option<usize>,
    slides: impl Fn(usize) -> bool,
) -> Result<()> {
    let types = fields.list("layer_types")?;
    let known = |kind: &Value| kind == "full_attention" || kind == "sliding_attention";
    if !types.is_empty() && (types.len() != config.layers || !types.iter().all(known)) {
        let expected =
            format!("\"full_attention\" or \"sliding_attention\" for {} layers", config.layers);
        return Err(fields.invalid("layer_types", expected));
    }
    let tokens = match fields.has("sliding_window") {
        false => absent,
        true => {
            let range = 1..=u32::MAX as usize;
            fields
                .get("sliding_window")
                .map(|_| fields.count("sliding_window", range))
                .transpose()?
        }
    };
    if let Some(tokens) = tokens {
        config.set_windows(tokens, |layer| match types.get(layer) {
            Some(kind) => kind == "sliding_attention",
            None => slides(layer),
        });
    }
    Ok(())
}
