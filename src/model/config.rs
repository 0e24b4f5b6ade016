//! The sizes and options of a decoder, and what families read alike of `config.json`.

use super::json::Fields;
use super::rope::Rope;
use crate::error::Result;
use serde_json::Value;

/// A decoder-only transformer as its checkpoint describes it, checked and normalised.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// What norms add to a mean square.
    pub norm_eps: f32,
    /// Norms are LayerNorms, with biases, in place of RMSNorms.
    pub layer_norm: bool,
    /// Embeddings of positions are added to those of tokens.
    pub positions: bool,
    /// The output matrix is the embedding matrix.
    pub tied: bool,
    /// The projections to queries, keys and values are one tensor of the checkpoint, gate and up
    /// another.
    pub fused: bool,
    pub qkv_bias: bool,
    /// The projection from attention's output has biases.
    pub output_bias: bool,
    /// The MLP has a gate.
    pub gated: bool,
    pub mlp_bias: bool,
    /// Each head has a logit that takes part in its softmax and has no value, see [`super::Param::Sinks`].
    pub sinks: bool,
    /// RMS norms of queries and keys before the rotation.
    pub qk_norm: Option<QkNorm>,
    pub norms: Norms,
    /// Norm weights are stored less one.
    pub norms_less_one: bool,
    /// Of the gate; without one, of what goes up.
    pub activation: Activation,
    pub scales: Scales,
    pub caps: Caps,
    /// Of each layer, from the first on.
    pub attention: Vec<LayerAttention>,
    pub experts: Option<Experts>,
    pub naming: Naming,
}

/// Layers with several MLPs, the experts, of which a router chooses some for each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    pub count: usize,
    /// Chosen for a row.
    pub active: usize,
    pub intermediate: usize,
    /// The weights of the chosen experts add up to 1; else those of all do.
    pub normalise: bool,
    /// Of the router and of all products.
    pub biases: bool,
    /// Whether a layer has experts; others have one MLP.
    pub layers: Vec<bool>,
    pub modules: ExpertModules,
}

/// The modules of a layer's experts: one for each, whose number takes the place of `*`, or one whose
/// tensors are those of all experts, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertModules {
    pub router: &'static str,
    /// Gate and up; or both in one, whose rows take turns.
    pub gate_up: &'static [&'static str],
    pub down: &'static str,
}

/// What the norms of queries and keys run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Each head by itself.
    Head,
    /// All query heads of a row together, and all its key heads.
    Row,
}

/// Where the norms of a layer are, which has two blocks: attention and MLP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Norms {
    /// Of what a block reads.
    #[default]
    Before,
    /// Of what a block adds to the residual stream.
    After,
    /// Both.
    Around,
}

/// The function in the middle of an MLP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    #[default]
    Silu,
    /// GELU in its approximation by a hyperbolic tangent.
    GeluTanh,
    /// See [`super::MatmulOutput::ClampedGate`].
    Clamped,
}

/// What numbers of the forward pass are multiplied by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scales {
    /// The embeddings.
    pub embedding: f32,
    /// The products of queries and keys; if none, 1 / sqrt(head_dim).
    pub attention: Option<f32>,
    /// What a block adds to the residual stream, if there is no norm after it.
    pub residual: f32,
    /// The logits.
    pub logits: f32,
}

impl Default for Scales {
    fn default() -> Scales {
        Scales { embedding: 1.0, attention: None, residual: 1.0, logits: 1.0 }
    }
}

/// Soft limits: x becomes cap · tanh(x / cap).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Caps {
    /// Of attention's scores.
    pub attention: Option<f32>,
    pub logits: Option<f32>,
}

/// What the rows of a layer see of their sequence, and how they tell positions apart.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerAttention {
    /// A row sees only the last `window` positions, itself included.
    pub window: Option<usize>,
    /// How queries and keys turn; if none, they do not.
    pub rope: Option<Rope>,
}

/// How a checkpoint names its tensors and orders their rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// As the folders of Hugging Face do.
    #[default]
    HuggingFace,
    /// As GGUF files do. If `interleaved`, rows 2i and 2i + 1 of a query or key head are those
    /// that turn together; here these are rows i and i + head_dim / 2.
    Gguf { interleaved: bool },
    /// As the folders of GPT-2 do.
    Gpt2,
}

/// Most experts of a layer, of all layers, and most that are chosen for a row.
const MOST_EXPERTS: usize = 1024;
const MOST_IN_ALL: usize = 1 << 16;
const MOST_ACTIVE: usize = 32;

impl ModelConfig {
    /// What the products of queries and keys are multiplied by.
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

    /// Gives all layers experts; `fields` say in `active` how many of `count` are chosen.
    pub(super) fn mix(
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

    /// The most positions that rows of any layer see; everything if none.
    pub fn window(&self) -> Option<usize> {
        let windows = self.attention.iter().map(|layer| layer.window);
        windows.reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// Turns the queries and keys of all layers as the file says for heads all of whose dims turn.
    pub(super) fn turn(&mut self, fields: &Fields) -> Result<()> {
        self.turn_from(fields, 10_000.0)
    }

    /// The same with another default for `rope_theta`.
    pub(super) fn turn_from(&mut self, fields: &Fields, theta: f64) -> Result<()> {
        let rope = Rope::from_fields(fields, self.head_dim, theta)?;
        self.set_rope(&rope);
        Ok(())
    }

    /// Gives all layers a rotation.
    pub(super) fn set_rope(&mut self, rope: &Rope) {
        self.attention.iter_mut().for_each(|layer| layer.rope = Some(rope.clone()));
    }

    /// Gives the layers that `slides` picks a window of `tokens`.
    pub(super) fn slide(&mut self, tokens: usize, slides: impl Fn(usize) -> bool) {
        for (i, layer) in self.attention.iter_mut().enumerate() {
            layer.window = slides(i).then_some(tokens);
        }
    }

    /// Width of the attention's output.
    pub fn attention_width(&self) -> usize {
        self.heads * self.head_dim
    }
}

/// Checks how the size of a head, and how many have keys and values, fit the number of heads; both with
/// the names of their fields.
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

/// Gives the layers that `layer_types` calls sliding the window of `sliding_window`, or the one it
/// has if it is absent; without these types, those that `slides` picks.
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
        config.slide(tokens, |layer| match types.get(layer) {
            Some(kind) => kind == "sliding_attention",
            None => slides(layer),
        });
    }
    Ok(())
}
