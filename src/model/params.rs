//! The weights of a model: their roles, shapes, and the checkpoint tensors that fill them.

use super::config::{ExpertModules, Experts, ModelConfig, Naming, Norms, QkNorm};
use super::names::{self, LONG_ROPE_FACTORS, ROPE_FACTORS, SHORT_ROPE_FACTORS};
use super::rope::{Rope, RopeScaling};
use crate::Error;

/// A weight by its role in the forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Param {
    /// `[vocab][hidden]`
    Embed,
    /// `[context][hidden]`
    Positions,
    /// `[vocab][hidden]`; absent if tied to [`Param::Embed`].
    Head,
    /// `[hidden]`
    FinalNorm,
    /// `[hidden]`
    FinalNormBias,
    /// `[hidden]`
    AttentionNorm(usize),
    /// `[hidden]`
    AttentionNormBias(usize),
    /// Query, key and value rows one after the other: `[(heads + 2 kv_heads)·head_dim][hidden]`
    Qkv(usize),
    /// `[(heads + 2 kv_heads)·head_dim]`
    QkvBias(usize),
    /// `[head_dim]`, or `[heads·head_dim]` for a norm over a row.
    QNorm(usize),
    /// `[head_dim]`, or `[kv_heads·head_dim]` for a norm over a row.
    KNorm(usize),
    /// `[hidden][heads·head_dim]`
    Output(usize),
    /// `[hidden]`
    OutputBias(usize),
    /// Sink logits: one per head, part of attention's softmax without a value, `[heads]`
    Sinks(usize),
    /// `[hidden]`
    AttentionOutNorm(usize),
    /// `[hidden]`
    MlpNorm(usize),
    /// `[hidden]`
    MlpNormBias(usize),
    /// Gate rows, then up rows: `[2·intermediate][hidden]`; without a gate, only up rows.
    GateUp(usize),
    /// One per row of `GateUp`.
    GateUpBias(usize),
    /// `[hidden][intermediate]`
    Down(usize),
    /// `[experts][hidden]`
    Router(usize),
    /// `[experts]`
    RouterBias(usize),
    /// For each expert gate rows, then up rows: `[experts·2·intermediate][hidden]`
    ExpertGateUp(usize),
    /// `[experts·2·intermediate]`
    ExpertGateUpBias(usize),
    /// `[experts·hidden][intermediate]`
    ExpertDown(usize),
    /// `[experts·hidden]`
    ExpertDownBias(usize),
    /// `[hidden]`
    DownBias(usize),
    /// `[hidden]`
    MlpOutNorm(usize),
    /// Divisors of the rotary frequencies: `[rotated dims / 2]`. With LongRoPE, for contexts up to the
    /// original length.
    RopeFactors,
    /// The same for longer contexts.
    LongRopeFactors,
    /// Of a draft head: the projection of its joined inputs to one row, see [`super::DraftConfig`]:
    /// `[hidden][streams·target's hidden]` or `[hidden][2·hidden]`
    Fuse,
    /// `[hidden]`
    FuseBias,
    /// Norm over all fused streams of the target, or over each on its own: `[streams·target's hidden]`
    FuseNorm,
    /// Norm of the embeddings that a draft head reads: `[hidden]`
    EmbedNorm,
    /// Norm of the features that a draft head reads: `[hidden]`
    HiddenNorm,
    /// Of Medusa, see [`super::DraftFamily::Medusa`]: `[hidden][hidden]`
    MedusaBlock(usize),
    /// `[hidden]`
    MedusaBlockBias(usize),
    /// `[vocab][hidden]`
    MedusaHead(usize),
}

impl Param {
    /// Whether it is a norm weight.
    pub fn is_norm(self) -> bool {
        matches!(
            self,
            Param::FinalNorm
                | Param::AttentionNorm(_)
                | Param::QNorm(_)
                | Param::KNorm(_)
                | Param::AttentionOutNorm(_)
                | Param::MlpNorm(_)
                | Param::MlpOutNorm(_)
                | Param::FuseNorm
                | Param::EmbedNorm
                | Param::HiddenNorm
        )
    }

    /// The bias that belongs to this LayerNorm weight.
    pub fn norm_bias(self) -> Option<Param> {
        match self {
            Param::FinalNorm => Some(Param::FinalNormBias),
            Param::AttentionNorm(i) => Some(Param::AttentionNormBias(i)),
            Param::MlpNorm(i) => Some(Param::MlpNormBias(i)),
            _ => None,
        }
    }

    /// Whether it has one row per token.
    pub fn is_of_tokens(self) -> bool {
        matches!(self, Param::Embed | Param::Head | Param::MedusaHead(_))
    }

    /// Whether it has rows for each expert.
    pub fn is_of_experts(self) -> bool {
        matches!(self, Param::ExpertGateUp(_) | Param::ExpertDown(_))
    }

    /// The error for a weight that the forward pass needs and that was not loaded.
    pub fn missing(self) -> Error {
        Error::MissingTensor { name: format!("{self:?}") }
    }
}

/// The shape of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `n` numbers, stored as f32.
    Vector { n: usize },
    /// `n` rows of `k` columns, stored in a [`crate::layout::Layout`].
    Matrix { n: usize, k: usize },
}

/// A weight and the checkpoint tensors that fill it, top rows first.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSpec {
    pub param: Param,
    pub shape: Shape,
    pub sources: Vec<ParamSource>,
    /// Rows that must stay together: a matrix may be split only between them.
    pub unit: usize,
    /// The checkpoint stores this vector minus one.
    pub less_one: bool,
}

/// Rows of a weight that come from one checkpoint tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSource {
    /// Tensor name, for example `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    pub rows: usize,
    /// Rows per head, if they are interleaved: the two of a rotated pair are neighbours.
    pub interleaved: Option<usize>,
    /// The matrix is in column-major order.
    pub by_columns: bool,
    /// The part of the tensor that is used, if not all of it.
    pub slice: Option<Slice>,
}

impl ParamSpec {
    /// A weight filled by one tensor.
    pub(super) fn one(param: Param, name: String, shape: Shape) -> ParamSpec {
        let (Shape::Vector { n: rows } | Shape::Matrix { n: rows, .. }) = shape;
        ParamSpec::joined(param, shape, [(name, rows)])
    }

    /// A weight filled by tensors with these numbers of rows.
    pub(super) fn joined(
        param: Param,
        shape: Shape,
        modules: impl IntoIterator<Item = (String, usize)>,
    ) -> ParamSpec {
        let sources = modules.into_iter().map(|(name, rows)| ParamSource::new(name, rows));
        let sources: Vec<_> = sources.collect();
        let rows = sources.iter().map(|source| source.rows).sum();
        let unit = if param.is_of_tokens() { 1 } else { rows };
        ParamSpec { param, shape, sources, unit, less_one: false }
    }
}

impl ParamSource {
    fn new(name: String, rows: usize) -> ParamSource {
        ParamSource { name, rows, interleaved: None, by_columns: false, slice: None }
    }
}

/// One of `count` equal parts of a tensor along its first dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub index: usize,
    pub of: usize,
}

impl ModelConfig {
    /// Lists every weight of the model.
    pub fn params(&self) -> Vec<ParamSpec> {
        let one = |param, name: String, shape: Shape| {
            let less_one = self.norms_less_one && Param::is_norm(param);
            ParamSpec { less_one, ..ParamSpec::one(param, name, shape) }
        };
        let vector = |n| Shape::Vector { n };
        let matrix = |n, k| Shape::Matrix { n, k };
        let (hidden, ff) = (self.hidden, self.intermediate);
        let (q, kv) = (self.attention_width(), self.kv_heads * self.head_dim);

        let (before, after) = (self.norms != Norms::After, self.norms != Norms::Before);
        let mut list =
            vec![one(Param::Embed, "model.embed_tokens.weight".into(), matrix(self.vocab, hidden))];
        if self.positions {
            let name = "model.embed_positions.weight".into();
            list.push(one(Param::Positions, name, matrix(self.context, hidden)));
        }
        for i in 0..self.layers {
            let layer = |name: &str| format!("model.layers.{i}.{name}");
            let norm =
                |param, name: &str| one(param, layer(&format!("{name}.weight")), vector(hidden));
            let joined = |param, shape, names: &[(&str, usize)]| {
                let modules = names.iter().map(|(name, rows)| (layer(name), *rows));
                ParamSpec::joined(param, shape, modules)
            };
            if before {
                list.push(norm(Param::AttentionNorm(i), "input_layernorm"));
            }
            let qkv: &[_] = match self.fused {
                true => &[("self_attn.qkv_proj.weight", self.qkv_rows())],
                false => &[
                    ("self_attn.q_proj.weight", q),
                    ("self_attn.k_proj.weight", kv),
                    ("self_attn.v_proj.weight", kv),
                ],
            };
            list.push(joined(Param::Qkv(i), matrix(self.qkv_rows(), hidden), qkv));
            if self.qkv_bias {
                let biases: &[_] = match self.fused {
                    true => &[("self_attn.qkv_proj.bias", self.qkv_rows())],
                    false => &[
                        ("self_attn.q_proj.bias", q),
                        ("self_attn.k_proj.bias", kv),
                        ("self_attn.v_proj.bias", kv),
                    ],
                };
                list.push(joined(Param::QkvBias(i), vector(self.qkv_rows()), biases));
            }
            if let Some(over) = self.qk_norm {
                let (q, k) = match over {
                    QkNorm::Head => (self.head_dim, self.head_dim),
                    QkNorm::Row => (q, kv),
                };
                list.push(one(Param::QNorm(i), layer("self_attn.q_norm.weight"), vector(q)));
                list.push(one(Param::KNorm(i), layer("self_attn.k_norm.weight"), vector(k)));
            }
            list.push(one(Param::Output(i), layer("self_attn.o_proj.weight"), matrix(hidden, q)));
            if self.output_bias {
                let name = layer("self_attn.o_proj.bias");
                list.push(one(Param::OutputBias(i), name, vector(hidden)));
            }
            if self.sinks {
                let name = match self.naming {
                    Naming::Gguf { .. } => "self_attn.sinks.weight",
                    _ => "self_attn.sinks",
                };
                list.push(one(Param::Sinks(i), layer(name), vector(self.heads)));
            }
            if after {
                list.push(norm(Param::AttentionOutNorm(i), "post_attention_layernorm"));
            }
            match self.norms {
                Norms::Before => list.push(norm(Param::MlpNorm(i), "post_attention_layernorm")),
                Norms::Around => list.push(norm(Param::MlpNorm(i), "pre_feedforward_layernorm")),
                Norms::After => {}
            }
            if let Some(experts) = self.experts_of(i) {
                let router = layer(experts.modules.router);
                let named = |kind| format!("{router}.{kind}");
                let count = experts.count;
                list.push(one(Param::Router(i), named("weight"), matrix(count, hidden)));
                if experts.biases {
                    list.push(one(Param::RouterBias(i), named("bias"), vector(count)));
                }
                list.extend(experts.params(i, hidden));
            } else {
                let gate_up: &[_] = match (self.gated, self.fused) {
                    (false, _) => &[("mlp.up_proj.weight", ff)],
                    (true, true) => &[("mlp.gate_up_proj.weight", 2 * ff)],
                    (true, false) => &[("mlp.gate_proj.weight", ff), ("mlp.up_proj.weight", ff)],
                };
                let up = if self.gated { 2 * ff } else { ff };
                list.push(joined(Param::GateUp(i), matrix(up, hidden), gate_up));
                list.push(one(Param::Down(i), layer("mlp.down_proj.weight"), matrix(hidden, ff)));
                if self.mlp_bias {
                    let (up, down) = (layer("mlp.up_proj.bias"), layer("mlp.down_proj.bias"));
                    list.push(one(Param::GateUpBias(i), up, vector(ff)));
                    list.push(one(Param::DownBias(i), down, vector(hidden)));
                }
            }
            if after {
                list.push(norm(Param::MlpOutNorm(i), "post_feedforward_layernorm"));
            }
        }
        list.push(one(Param::FinalNorm, "model.norm.weight".into(), vector(hidden)));
        if !self.tied {
            list.push(one(Param::Head, "lm_head.weight".into(), matrix(self.vocab, hidden)));
        }
        let mut factors = |param, name: &str, n| list.push(one(param, name.into(), vector(n)));
        match self.stored_rope() {
            Some(Rope { scaling: RopeScaling::Factors, dims, .. }) => {
                factors(Param::RopeFactors, ROPE_FACTORS, dims / 2);
            }
            Some(Rope { dims, .. }) => {
                factors(Param::RopeFactors, SHORT_ROPE_FACTORS, dims / 2);
                factors(Param::LongRopeFactors, LONG_ROPE_FACTORS, dims / 2);
            }
            None => {}
        }
        if self.layer_norm {
            let biases: Vec<_> = list.iter().filter_map(norm_bias).collect();
            list.extend(biases);
        }
        for source in list.iter_mut().flat_map(|spec| &mut spec.sources) {
            match self.naming {
                Naming::HuggingFace => {}
                Naming::Gguf { interleaved } => {
                    let turns = source.name.contains("q_proj") || source.name.contains("k_proj");
                    if interleaved && turns {
                        source.interleaved = Some(self.head_dim);
                    }
                    source.name = names::in_gguf(&source.name, after || self.sinks);
                }
                Naming::Gpt2 => {
                    // The matrices of layers are in column-major order.
                    source.by_columns = source.name.ends_with("_proj.weight");
                    source.name = names::in_gpt2(&source.name);
                }
            }
        }
        list
    }

    /// The divisors of the rotary frequencies for conversations of up to `context` tokens.
    pub fn rope_factors(&self, context: usize) -> Option<Param> {
        match self.stored_rope()?.scaling {
            RopeScaling::Long { original_context, .. } if context > original_context => {
                Some(Param::LongRopeFactors)
            }
            _ => Some(Param::RopeFactors),
        }
    }

    /// A rotary embedding whose divisors are weights.
    fn stored_rope(&self) -> Option<&Rope> {
        self.attention.iter().flat_map(|layer| &layer.rope).find(|rope| match &rope.scaling {
            RopeScaling::Factors => true,
            RopeScaling::Long { short, .. } => short.is_empty(),
            _ => false,
        })
    }

    /// The matrix that computes logits from hidden states.
    pub fn head(&self) -> Param {
        if self.tied { Param::Embed } else { Param::Head }
    }
}

/// The bias that belongs to a LayerNorm weight.
fn norm_bias(weight: &ParamSpec) -> Option<ParamSpec> {
    let param = weight.param.norm_bias()?;
    let sources = weight.sources.iter().map(|source| {
        let name = source.name.strip_suffix("weight").unwrap_or(&source.name);
        ParamSource::new(format!("{name}bias"), source.rows)
    });
    let sources = sources.collect();
    Some(ParamSpec { param, sources, less_one: false, ..*weight })
}

impl Experts {
    /// The weights of a layer's experts.
    fn params(&self, layer: usize, hidden: usize) -> Vec<ParamSpec> {
        let ExpertModules { gate_up, down, .. } = self.modules;
        let matrices = [
            (Param::ExpertGateUp(layer), gate_up, 2 * self.intermediate, Some(hidden)),
            (Param::ExpertDown(layer), &[down][..], hidden, Some(self.intermediate)),
        ];
        let vectors = [
            (Param::ExpertGateUpBias(layer), gate_up, 2 * self.intermediate, None),
            (Param::ExpertDownBias(layer), &[down][..], hidden, None),
        ];
        let vectors = vectors.into_iter().filter(|_| self.biases);
        let specs = matrices.into_iter().chain(vectors).map(|(param, modules, unit, k)| {
            let kind = match (k, gate_up.len()) {
                (Some(_), _) => ".weight",
                // Fused gate and up tensors have no module of their own.
                (None, 1) => "_bias",
                (None, _) => ".bias",
            };
            let source = |index: usize, module: &str| {
                let name = module.replace('*', &index.to_string());
                let name = format!("model.layers.{layer}.{name}{kind}");
                ParamSource {
                    interleaved: (gate_up.len() == 1 && module == gate_up[0]).then_some(unit),
                    slice: (!module.contains('*')).then_some(Slice { index, of: self.count }),
                    ..ParamSource::new(name, unit / modules.len())
                }
            };
            let n = self.count * unit;
            ParamSpec {
                param,
                shape: k.map_or(Shape::Vector { n }, |k| Shape::Matrix { n, k }),
                sources: (0..self.count)
                    .flat_map(|index| modules.iter().map(move |module| source(index, module)))
                    .collect(),
                unit,
                less_one: false,
            }
        });
        specs.collect()
    }
}
