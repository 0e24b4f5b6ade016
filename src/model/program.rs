//! The forward pass as a list of operations, which every executor runs.

use super::{Activation, Features, ModelConfig, Norms, Param};

/// An activation, one row per token of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// The residual stream `[rows][hidden]`.
    Residual,
    /// Queries, keys and values before rotation `[rows][(heads + 2 kv_heads)·head_dim]`.
    Qkv,
    /// Rotated queries `[rows][heads·head_dim]`.
    Query,
    /// Output of attention `[rows][heads·head_dim]`.
    Attention,
    /// The gated hidden layer `[rows][intermediate]`; with experts `[rows·active][intermediate]`.
    Gated,
    /// Router logits `[rows][experts]`.
    Router,
    /// Outputs of the chosen experts `[rows·active][hidden]`.
    Chosen,
    /// Output of a block that is normalised before it is added `[rows][hidden]`.
    Block,
    /// Draft head: embeddings of the next tokens `[rows][hidden]`.
    Embedded,
    /// Draft head: hidden states of the target, side by side `[rows][features]`.
    Features,
    /// Draft head: its joined inputs `[rows][2·hidden]`.
    Joined,
    /// Residual rows whose logits are computed `[logit rows][hidden]`.
    Last,
    /// `[logit rows][vocab]`
    Logits,
}

impl Act {
    /// Every activation.
    pub const ALL: [Act; 13] = [
        Act::Residual,
        Act::Qkv,
        Act::Query,
        Act::Attention,
        Act::Gated,
        Act::Router,
        Act::Chosen,
        Act::Block,
        Act::Embedded,
        Act::Features,
        Act::Joined,
        Act::Last,
        Act::Logits,
    ];
}

/// How a matrix product writes its result y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatmulOutput {
    /// out = y
    Store,
    /// out += y
    Add,
    /// out += silu(y)
    AddSilu,
    /// out = silu(y)
    Silu,
    /// out = out · y
    Times,
    /// out = silu(first half of y) · second half of y
    SiluGate,
    /// out = gelu(first half of y) · second half of y, tanh approximation
    GeluGate,
    /// out = gelu(y), tanh approximation
    Gelu,
    /// out = g · sigmoid(1.702·g) · (u + 1), where g is the first half of y, clamped to at most 7, and
    /// u the second half, clamped to -7 .. 7
    ClampedGate,
}

impl MatmulOutput {
    /// Whether one half of y gates the other.
    pub fn gates(self) -> bool {
        use MatmulOutput::{ClampedGate, GeluGate, SiluGate};
        matches!(self, SiluGate | GeluGate | ClampedGate)
    }

    /// The same with two products, one of the gate rows, then one of the up rows.
    pub fn apart(self) -> Option<[MatmulOutput; 2]> {
        match self {
            MatmulOutput::SiluGate => Some([MatmulOutput::Silu, MatmulOutput::Times]),
            MatmulOutput::GeluGate => Some([MatmulOutput::Gelu, MatmulOutput::Times]),
            _ => None,
        }
    }

    /// Columns of out, for a matrix of `n` rows.
    pub fn width(self, n: usize) -> usize {
        if self.gates() { n / 2 } else { n }
    }
}

/// A matrix product: y = scale · (W · rms_norm(x) + bias), norm and bias optional.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    pub x: Act,
    pub norm: Option<Param>,
    /// Parts of a row of x, each normalised on its own.
    pub parts: usize,
    pub weight: Param,
    pub bias: Option<Param>,
    pub scale: f32,
    /// Replaces y by cap · tanh(y / cap).
    pub cap: Option<f32>,
    pub out: Act,
    pub output: MatmulOutput,
    /// Weight and bias have rows for each expert. There is one product, and one row of out, for each
    /// row and each of its chosen experts.
    pub experts: bool,
}

impl Product {
    /// out = W · x
    pub fn new(x: Act, weight: Param, out: Act) -> Product {
        let output = MatmulOutput::Store;
        Product {
            x,
            norm: None,
            parts: 1,
            weight,
            bias: None,
            scale: 1.0,
            cap: None,
            out,
            output,
            experts: false,
        }
    }
}

/// One operation of the forward pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Out = scale · rows of the embedding matrix; for positions, out += these.
    Embed {
        weight: Param,
        scale: f32,
        positions: bool,
        out: Act,
    },
    Matmul(Product),
    /// Normalises heads if asked, rotates queries and keys, writes keys and values to the KV cache.
    RopeKv {
        layer: usize,
        q_norm: Option<Param>,
        k_norm: Option<Param>,
    },
    /// Attention = softmax(Query · Kᵀ) · V over the paged KV cache of the layer.
    Attention {
        layer: usize,
    },
    /// Chooses experts for each row by the router logits.
    Route,
    /// Residual += scale · weighted sum of the chosen experts' outputs
    Combine {
        scale: f32,
    },
    /// Out, from `column` on, = norm(x)
    Norm {
        x: Act,
        norm: Param,
        out: Act,
        column: usize,
    },
    /// Out, from `column` on, = x
    Copy {
        x: Act,
        out: Act,
        column: usize,
    },
    /// Residual += rms_norm(Block)
    AddNormed {
        norm: Param,
    },
    /// Adds normalised Residual rows to the sums of embeddings; only in steps with embeddings.
    Pool {
        norm: Param,
    },
    /// Last = the residual rows whose logits are computed.
    Gather,
    /// Samples from Logits, and verifies drafts.
    Sample,
    /// Draft head: stores, for each sampling sequence, the residual row from which the last accepted
    /// token was sampled.
    StoreStates,
    /// Residual = the stored rows
    LoadStates,
    /// Samples one draft per sequence from Logits.
    DraftSample,
}

/// Returns the operations that compute a step's samples and embeddings.
pub fn program(config: &ModelConfig) -> Vec<Op> {
    program_with(config, None)
}

/// The same, with the hidden states that a draft head reads.
pub fn program_with(config: &ModelConfig, features: Option<&Features>) -> Vec<Op> {
    let mut ops = body(config, config.layers, features);
    ops.extend([
        Op::Pool { norm: Param::FinalNorm },
        Op::Gather,
        Op::Matmul(output(config, Act::Last)),
        Op::Sample,
    ]);
    ops
}

/// Logits from rows `x` of the residual stream.
pub(super) fn output(config: &ModelConfig, x: Act) -> Product {
    Product {
        norm: Some(Param::FinalNorm),
        scale: config.scales.logits,
        cap: config.caps.logits,
        ..Product::new(x, config.head(), Act::Logits)
    }
}

/// The first `layers` layers, from tokens on, with the hidden states that a draft head reads.
pub(super) fn body(config: &ModelConfig, layers: usize, features: Option<&Features>) -> Vec<Op> {
    let (scale, out) = (config.scales.embedding, Act::Residual);
    let mut ops = vec![Op::Embed { weight: Param::Embed, scale, positions: false, out }];
    if config.positions {
        ops.push(Op::Embed { weight: Param::Positions, scale: 1.0, positions: true, out });
    }
    let capture = |applied: usize, ops: &mut Vec<Op>| {
        let Some(Features::Streams(streams)) = features else { return };
        if let Some(place) = streams.iter().position(|stream| *stream == applied) {
            let column = place * config.hidden;
            ops.push(Op::Copy { x: Act::Residual, out: Act::Features, column });
        }
    };
    for i in 0..layers {
        capture(i, &mut ops);
        let norm = (config.norms != Norms::After).then_some(Param::AttentionNorm(i));
        layer(config, i, Act::Residual, norm, &mut ops);
    }
    capture(layers, &mut ops);
    if let Some(Features::Last) = features {
        let (x, norm, out) = (Act::Residual, Param::FinalNorm, Act::Features);
        ops.push(Op::Norm { x, norm, out, column: 0 });
    }
    ops
}

/// Appends the operations of layer `i`. Its attention reads `x`, normalised if there is a `norm`.
pub(super) fn layer(
    config: &ModelConfig,
    i: usize,
    x: Act,
    norm: Option<Param>,
    ops: &mut Vec<Op>,
) {
    let before = |norm| (config.norms != Norms::After).then_some(norm);
    ops.extend([
        Op::Matmul(Product {
            norm,
            bias: config.qkv_bias.then_some(Param::QkvBias(i)),
            ..Product::new(x, Param::Qkv(i), Act::Qkv)
        }),
        Op::RopeKv {
            layer: i,
            q_norm: config.qk_norm.map(|_| Param::QNorm(i)),
            k_norm: config.qk_norm.map(|_| Param::KNorm(i)),
        },
        Op::Attention { layer: i },
    ]);
    let output = Product {
        bias: config.output_bias.then_some(Param::OutputBias(i)),
        ..Product::new(Act::Attention, Param::Output(i), Act::Residual)
    };
    end_block(config, output, Param::AttentionOutNorm(i), ops);
    let gated = Product {
        norm: before(Param::MlpNorm(i)),
        bias: config.mlp_bias.then_some(Param::GateUpBias(i)),
        output: match (config.gated, config.activation) {
            (false, _) => MatmulOutput::Gelu,
            (true, Activation::Silu) => MatmulOutput::SiluGate,
            (true, Activation::GeluTanh) => MatmulOutput::GeluGate,
            (true, Activation::Clamped) => MatmulOutput::ClampedGate,
        },
        ..Product::new(Act::Residual, Param::GateUp(i), Act::Gated)
    };
    match config.experts_of(i) {
        None => {
            ops.push(Op::Matmul(gated));
            let down = Product {
                bias: config.mlp_bias.then_some(Param::DownBias(i)),
                ..Product::new(Act::Gated, Param::Down(i), Act::Residual)
            };
            end_block(config, down, Param::MlpOutNorm(i), ops);
        }
        Some(experts) => {
            let bias = |param| experts.biases.then_some(param);
            ops.extend([
                Op::Matmul(Product {
                    norm: gated.norm,
                    bias: bias(Param::RouterBias(i)),
                    ..Product::new(Act::Residual, Param::Router(i), Act::Router)
                }),
                Op::Route,
                Op::Matmul(Product {
                    weight: Param::ExpertGateUp(i),
                    bias: bias(Param::ExpertGateUpBias(i)),
                    experts: true,
                    ..gated
                }),
                Op::Matmul(Product {
                    bias: bias(Param::ExpertDownBias(i)),
                    experts: true,
                    ..Product::new(Act::Gated, Param::ExpertDown(i), Act::Chosen)
                }),
                Op::Combine { scale: config.scales.residual },
            ]);
        }
    }
}

/// Adds the output of a block's last product to the residual stream.
fn end_block(config: &ModelConfig, product: Product, norm: Param, ops: &mut Vec<Op>) {
    if config.norms == Norms::Before {
        let (scale, output) = (config.scales.residual, MatmulOutput::Add);
        ops.push(Op::Matmul(Product { scale, output, ..product }));
    } else {
        ops.push(Op::Matmul(Product { out: Act::Block, ..product }));
        ops.push(Op::AddNormed { norm });
    }
}
