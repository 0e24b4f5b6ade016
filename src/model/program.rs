//! The forward pass as a list of operations, which each executor carries out in its own way.

use super::{ModelConfig, Param};

/// An activation, one row per token of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// The residual stream `[rows][hidden]`.
    Residual,
    /// Queries, keys and values before rotation `[rows][(heads + 2 kv_heads)·head_dim]`.
    Qkv,
    /// Rotated queries `[rows][heads·head_dim]`.
    Query,
    /// What attention returns `[rows][heads·head_dim]`.
    Attention,
    /// The gated hidden layer `[rows][intermediate]`.
    Gated,
    /// Residual rows whose logits are wanted `[logit rows][hidden]`.
    Last,
    /// `[logit rows][vocab]`
    Logits,
}

/// What a matrix product does with its result y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatmulOutput {
    /// out = y
    Store,
    /// out += y
    Add,
    /// out = silu(first half of y) · second half of y
    SiluGate,
}

impl MatmulOutput {
    /// Columns of out, for a matrix of `n` rows.
    pub fn width(self, n: usize) -> usize {
        if self == MatmulOutput::SiluGate { n / 2 } else { n }
    }
}

/// A matrix product: out = W · rms_norm(x) + bias, norm and bias optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    pub x: Act,
    pub norm: Option<Param>,
    pub weight: Param,
    pub bias: Option<Param>,
    pub out: Act,
    pub output: MatmulOutput,
}

/// One operation of the forward pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Residual = rows of the embedding matrix.
    Embed {
        weight: Param,
    },
    Matmul(Product),
    /// Normalises heads where asked, rotates queries and keys, writes keys and values to the cache.
    RopeKv {
        layer: usize,
        q_norm: Option<Param>,
        k_norm: Option<Param>,
    },
    /// Attention = softmax(Query · Kᵀ) · V over the paged cache of the layer.
    Attention {
        layer: usize,
    },
    /// Adds normalised Residual rows to the sums of embeddings. Does nothing in steps without any.
    Pool {
        norm: Param,
    },
    /// Last = the residual rows whose logits are wanted.
    Gather,
    /// Draws one token per sampling sequence from Logits.
    Sample,
}

/// Returns the operations that turn a step's rows into samples and embeddings.
pub fn program(config: &ModelConfig) -> Vec<Op> {
    let mut ops = vec![Op::Embed { weight: Param::Embed }];
    for i in 0..config.layers {
        ops.extend([
            Op::Matmul(Product {
                x: Act::Residual,
                norm: Some(Param::AttentionNorm(i)),
                weight: Param::Qkv(i),
                bias: config.qkv_bias.then_some(Param::QkvBias(i)),
                out: Act::Qkv,
                output: MatmulOutput::Store,
            }),
            Op::RopeKv {
                layer: i,
                q_norm: config.qk_norm.then_some(Param::QNorm(i)),
                k_norm: config.qk_norm.then_some(Param::KNorm(i)),
            },
            Op::Attention { layer: i },
            Op::Matmul(Product {
                x: Act::Attention,
                norm: None,
                weight: Param::Output(i),
                bias: None,
                out: Act::Residual,
                output: MatmulOutput::Add,
            }),
            Op::Matmul(Product {
                x: Act::Residual,
                norm: Some(Param::MlpNorm(i)),
                weight: Param::GateUp(i),
                bias: None,
                out: Act::Gated,
                output: MatmulOutput::SiluGate,
            }),
            Op::Matmul(Product {
                x: Act::Gated,
                norm: None,
                weight: Param::Down(i),
                bias: None,
                out: Act::Residual,
                output: MatmulOutput::Add,
            }),
        ]);
    }
    ops.extend([
        Op::Pool { norm: Param::FinalNorm },
        Op::Gather,
        Op::Matmul(Product {
            x: Act::Last,
            norm: Some(Param::FinalNorm),
            weight: config.head(),
            bias: None,
            out: Act::Logits,
            output: MatmulOutput::Store,
        }),
        Op::Sample,
    ]);
    ops
}
