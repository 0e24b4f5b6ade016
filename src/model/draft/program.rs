//! The operations of drafters: heads with layers, smaller models, and early exit.

use super::{DraftConfig, DraftFamily, Features, FuseNorm};
use crate::{
    Error, Result,
    model::{
        Act, Caps, LayerAttention, MatmulOutput, ModelConfig, Op, Param, Product, Scales,
        program::{body, layer, output},
    },
};

/// A drafter as the operations of a small model beside its target, or inside it.
///
/// Before a step it drafts the tokens of each sequence, one after the other. After the step it follows
/// the target, so that its KV cache holds the same tokens. A head reads the features of the step's rows
/// and the tokens after them, and stores a state per sequence to draft from. A separate model reads the
/// rows' tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftProgram {
    /// Its layers as a model config.
    pub config: ModelConfig,
    /// It uses the target's weights and KV cache.
    pub is_inside: bool,
    /// It reads the token after each row instead of the row's own token.
    pub reads_next: bool,
    /// Columns of [`Act::Features`].
    pub features: usize,
    /// Columns of [`Act::Joined`].
    pub joined: usize,
    /// Runs over all rows of a step, after the step.
    pub follow: Vec<Op>,
    /// Run over one row per sequence, one pass for each draft: the first from the state or the last
    /// token, the others also from the draft before. The last pass repeats for all further drafts. A
    /// head without its own embeddings or output matrix uses the target's.
    pub passes: Vec<Vec<Op>>,
    /// Most drafts per step, if the drafter has a limit.
    pub most: Option<usize>,
    /// Distance in positions between a state's row and the token that follows it.
    pub behind: u32,
}

impl DraftProgram {
    /// The operations for the next draft after `drafts` drafts.
    pub fn pass(&self, drafts: usize) -> &[Op] {
        self.passes.get(drafts).or(self.passes.last()).map_or(&[], Vec::as_slice)
    }

    /// Tokens after a row that its keys and values depend on.
    pub fn lookahead(&self) -> usize {
        usize::from(self.reads_next && self.config.layers > 0)
    }

    /// The operations of a target that drafts with its first `layers` layers (Elhoushi et al.,
    /// "LayerSkip", 2024). They are computed again when the drafts are verified.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if the target does not have more layers.
    pub fn early_exit(target: &ModelConfig, layers: usize) -> Result<DraftProgram> {
        if !(1..target.layers).contains(&layers) {
            let most = target.layers - 1;
            return Err(Error::InvalidRequest {
                param: "draft".into(),
                message: format!("found {layers} layers, expected 1 to {most}"),
            });
        }
        let pass = body(target, layers, None);
        Ok(DraftProgram { is_inside: true, ..DraftProgram::of_layers(target, pass) })
    }

    /// The operations of a smaller model with the target's vocabulary.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] if its vocabulary has another size.
    pub fn model(config: &ModelConfig, target: &ModelConfig) -> Result<DraftProgram> {
        if config.vocab != target.vocab {
            return Err(Error::InvalidConfig {
                file: "config.json".into(),
                field: "vocab_size".into(),
                found: config.vocab.to_string(),
                expected: format!("{}, the target's, of a draft model", target.vocab),
            });
        }
        let pass = body(config, config.layers, None);
        Ok(DraftProgram { follow: pass.clone(), ..DraftProgram::of_layers(config, pass) })
    }

    /// A drafter that starts with the last token and repeats one pass for each draft.
    fn of_layers(config: &ModelConfig, mut pass: Vec<Op>) -> DraftProgram {
        pass.extend([Op::Matmul(output(config, Act::Residual)), Op::DraftSample]);
        DraftProgram {
            config: config.clone(),
            is_inside: false,
            reads_next: false,
            features: 0,
            joined: 0,
            follow: Vec::new(),
            passes: vec![pass],
            most: None,
            behind: 0,
        }
    }

    /// The operations of a draft head.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] for heads that can be read but not run.
    pub fn head(draft: &DraftConfig, target: &ModelConfig) -> Result<DraftProgram> {
        let refuse = |field: &str, found: String, expected: &str| {
            Err(Error::InvalidConfig {
                file: "config.json".into(),
                field: field.into(),
                found,
                expected: expected.into(),
            })
        };
        for (field, width) in
            [("hidden_size", draft.hidden), ("target_hidden_size", draft.feature_width)]
        {
            if !width.is_multiple_of(32) {
                return refuse(field, width.to_string(), "a multiple of 32, for a draft head");
            }
        }
        if let DraftFamily::Medusa { heads, blocks } = draft.family {
            return Ok(DraftProgram::medusa(target, heads, blocks));
        }
        if draft.output_gate {
            let expected = "false, in draft layers";
            return refuse("attn_output_gate", "true".into(), expected);
        }
        let config = layers(draft, target);
        let mut program = DraftProgram {
            features: match &draft.features {
                Features::Streams(streams) => streams.len() * draft.feature_width,
                Features::Last => draft.feature_width,
            },
            joined: match draft.family {
                DraftFamily::Eagle3 => 2 * draft.hidden,
                _ => draft.hidden + draft.feature_width,
            },
            follow: Vec::new(),
            passes: Vec::new(),
            most: None,
            behind: 1,
            is_inside: false,
            reads_next: true,
            config,
        };
        let config = &program.config;
        let out = Act::Embedded;
        let embed = Op::Embed { weight: Param::Embed, scale: 1.0, positions: false, out };
        let parts = match (draft.fuse_norm, &draft.features) {
            (Some(FuseNorm::Each), Features::Streams(streams)) => streams.len(),
            _ => 1,
        };
        let fused = |x: Act| Product {
            bias: draft.fuse_bias.then_some(Param::FuseBias),
            ..Product::new(x, Param::Fuse, Act::Residual)
        };
        let mut advance = Vec::new();
        for (ops, feature) in [(&mut program.follow, Act::Features), (&mut advance, Act::Residual)]
        {
            ops.push(embed.clone());
            match draft.family {
                DraftFamily::Eagle3 => {
                    if feature == Act::Features {
                        let norm = draft.fuse_norm.map(|_| Param::FuseNorm);
                        ops.push(Op::Matmul(Product { norm, parts, ..fused(feature) }));
                    }
                    join(draft, Act::Residual, ops);
                    if draft.norm_before_residual {
                        let (x, norm, out) = (Act::Residual, Param::HiddenNorm, Act::Block);
                        ops.push(Op::Norm { x, norm, out, column: 0 });
                        ops.push(Op::Copy { x: out, out: x, column: 0 });
                    }
                    layer(config, 0, Act::Joined, None, ops);
                }
                _ => {
                    join(draft, feature, ops);
                    ops.push(Op::Matmul(fused(Act::Joined)));
                    let norm = draft.has_attention_norm(0).then_some(Param::AttentionNorm(0));
                    layer(config, 0, Act::Residual, norm, ops);
                }
            }
            for i in 1..config.layers {
                layer(config, i, Act::Residual, Some(Param::AttentionNorm(i)), ops);
            }
            if draft.norm_output {
                let (x, norm, out) = (Act::Residual, Param::FinalNorm, Act::Block);
                ops.push(Op::Norm { x, norm, out, column: 0 });
                ops.push(Op::Copy { x: out, out: x, column: 0 });
            }
        }
        program.follow.push(Op::StoreStates);
        let sample = [
            Op::Matmul(Product {
                norm: (draft.final_norm && !draft.norm_output).then_some(Param::FinalNorm),
                scale: config.scales.logits,
                cap: config.caps.logits,
                ..Product::new(Act::Residual, Param::Head, Act::Logits)
            }),
            Op::DraftSample,
        ];
        advance.extend(sample.clone());
        program.passes = vec![[Op::LoadStates].into_iter().chain(sample).collect(), advance];
        Ok(program)
    }

    /// Medusa: every head drafts from the state alone, each one token further.
    fn medusa(target: &ModelConfig, heads: usize, blocks: usize) -> DraftProgram {
        let whole = |x, out| Op::Copy { x, out, column: 0 };
        let pass = |head: usize| {
            let mut ops = vec![Op::LoadStates];
            for block in head * blocks..(head + 1) * blocks {
                ops.push(whole(Act::Residual, Act::Joined));
                ops.push(Op::Matmul(Product {
                    bias: Some(Param::MedusaBlockBias(block)),
                    output: MatmulOutput::AddSilu,
                    ..Product::new(Act::Joined, Param::MedusaBlock(block), Act::Residual)
                }));
            }
            let logits = Product::new(Act::Residual, Param::MedusaHead(head), Act::Logits);
            ops.extend([Op::Matmul(logits), Op::DraftSample]);
            ops
        };
        DraftProgram {
            // It has no layers.
            config: ModelConfig { layers: 0, attention: Vec::new(), ..target.clone() },
            is_inside: false,
            reads_next: true,
            features: target.hidden,
            joined: target.hidden,
            follow: vec![whole(Act::Features, Act::Residual), Op::StoreStates],
            passes: (0..heads).map(pass).collect(),
            most: Some(heads),
            behind: 1,
        }
    }
}

/// Joins embeddings and features, normalised if the head does so.
fn join(draft: &DraftConfig, feature: Act, ops: &mut Vec<Op>) {
    let (out, norms) = (Act::Joined, draft.has_input_norms());
    let mut put = |x, norm, column| {
        ops.push(match norms {
            true => Op::Norm { x, norm, out, column },
            false => Op::Copy { x, out, column },
        });
    };
    let (embedding, hidden) = match draft.embedding_first {
        true => (0, draft.hidden),
        false => (draft.feature_width, 0),
    };
    put(Act::Embedded, Param::EmbedNorm, embedding);
    put(feature, Param::HiddenNorm, hidden);
}

/// The head's layers as a model config.
fn layers(draft: &DraftConfig, target: &ModelConfig) -> ModelConfig {
    let shared = !draft.own_head;
    ModelConfig {
        architecture: target.architecture.clone(),
        hidden: draft.hidden,
        intermediate: draft.intermediate,
        layers: draft.layers,
        heads: draft.heads,
        kv_heads: draft.kv_heads,
        head_dim: draft.head_dim,
        vocab: draft.vocab,
        context: target.context,
        norm_eps: draft.norm_eps,
        qkv_bias: draft.qkv_bias,
        output_bias: draft.output_bias,
        gated: true,
        qk_norm: draft.qk_norm,
        norms_less_one: draft.norms_less_one,
        activation: draft.activation,
        scales: Scales {
            logits: if shared { target.scales.logits } else { 1.0 },
            ..Scales::default()
        },
        caps: Caps { attention: None, logits: target.caps.logits.filter(|_| shared) },
        attention: vec![
            LayerAttention { window: None, rope: Some(draft.rope.clone()) };
            draft.layers
        ],
        naming: target.naming,
        ..ModelConfig::default()
    }
}
