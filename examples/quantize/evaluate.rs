//! Compares a quantised model with its original on held-out text.

use anyhow::Result;
use pollster::block_on;
use tabloom::{
    executor::CpuExecutor,
    step::{Executor, RowTokens, SeqPlan, StepPlan},
};

use super::model::Model;

/// Rows per step: few enough to store their logits.
const ROWS: usize = 64;

/// A comparison of two models on the same text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Comparison {
    /// Perplexity of the original and of the other.
    pub perplexity: [f64; 2],
    /// The mean of KL(original ‖ other) over all positions, in nats.
    pub divergence: f64,
    /// Σ(a−b)² / Σa² of the logits.
    pub nmse: f64,
}

/// Runs both models over the same sequences.
pub fn compare(original: Model, other: Model, sequences: &[Vec<u32>]) -> Result<Comparison> {
    let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
    let vocab = original.config.vocab;
    let executor = |model: Model| model.executor(1, longest, ROWS, ROWS);
    let (mut original, mut other) = (executor(original)?, executor(other)?);
    let (mut losses, mut divergence, mut counts) = ([0.0; 2], 0.0, [0.0; 2]);
    let mut squares = [0.0; 2];
    for tokens in sequences {
        for start in (0..tokens.len()).step_by(ROWS) {
            let end = tokens.len().min(start + ROWS);
            let a = logits(&mut original, tokens, start, end)?;
            let b = logits(&mut other, tokens, start, end)?;
            for (row, (a, b)) in a.chunks_exact(vocab).zip(b.chunks_exact(vocab)).enumerate() {
                for (a, b) in a.iter().zip(b) {
                    squares[0] += f64::from(a - b).powi(2);
                    squares[1] += f64::from(*a).powi(2);
                }
                let (a, b) = (log_softmax(a), log_softmax(b));
                divergence += a.iter().zip(&b).map(|(a, b)| a.exp() * (a - b)).sum::<f64>();
                counts[0] += 1.0;
                if let Some(next) = tokens.get(start + row + 1) {
                    losses[0] -= a[*next as usize];
                    losses[1] -= b[*next as usize];
                    counts[1] += 1.0;
                }
            }
        }
    }
    Ok(Comparison {
        perplexity: losses.map(|loss| (loss / counts[1]).exp()),
        divergence: divergence / counts[0],
        nmse: squares[0] / squares[1],
    })
}

/// The logits of tokens `start` to `end` of the single sequence: `[end − start][vocab]`.
fn logits(
    executor: &mut CpuExecutor,
    tokens: &[u32],
    start: usize,
    end: usize,
) -> Result<Vec<f32>> {
    let seq = SeqPlan {
        tokens: RowTokens::Known(tokens[start..end].to_vec()),
        start: start as u32,
        blocks: (1..=executor.capacity().groups.blocks(end) as u32).collect(),
        ..SeqPlan::default()
    };
    executor.submit(&StepPlan { seqs: vec![seq], read_logits: true, ..StepPlan::default() })?;
    Ok(block_on(executor.result(async || {}))?.logits)
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let peak = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - peak).exp()).sum();
    logits.iter().map(|logit| f64::from(logit - peak) - sum.ln()).collect()
}
