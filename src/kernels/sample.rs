//! Samples tokens from logits.

use minijinja::context;

use super::{
    Batch, Bindings, HostTables, Kernel, Tuning,
    adjust::{self, BIAS_AT},
    batch::{DRAFTS_AT, SAMPLED, SLOT_TOKENS},
    noise::{gumbel, philox},
};
use crate::{
    gpu::Shader,
    layout::row_stride,
    step::{MAX_BIAS, MAX_DRAFTS, Sampling},
};

/// Samples one token per sample of the step, as [`Sampling`] says, on the assumption that the drafts
/// before it are accepted.
///
/// The filters top-k, top-p and min-p act in this order on the distribution at the given temperature,
/// each on the renormalised output of the one before, as in Hugging Face transformers; tokens that tie
/// at a threshold are all kept. Word i mod 4 of `philox([position, i / 4, 0, 0], seed)` makes the noise
/// of token i.
///
/// Before the filters come, in this order, the mask, the bias and the penalties: repetition as in
/// Hugging Face transformers, frequency and presence as in OpenAI, `mu[j] - c[j] * alpha_frequency -
/// float(c[j] > 0) * alpha_presence`.
///
/// In a step without drafts the kernel also does the work of [`super::Accept`], which saves a dispatch.
///
/// Bindings: step, logits `[logit rows][row_stride(vocab)]`, last samples (in and out)
/// `[slots][SLOT_TOKENS]`, tallies (in and out), bias, masks, results (out) `[samples][2]`: the token,
/// and how many logits are NaN or infinite. See [`super::adjust::Table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// At most 2^24: counts are exact in f32.
    pub vocab: usize,
}

impl Sample {
    /// Threads of a workgroup. At least 32: lavapipe silently ends the loops of an invocation after
    /// 65,535 iterations in all.
    fn threads(&self, tuning: Tuning) -> usize {
        if tuning.barriers { 256 } else { 32 }
    }

    /// CPU reference, with a sort instead of a search; returns the results.
    pub fn reference(
        &self,
        batch: &Batch,
        logits: &[f32],
        tables: &HostTables,
        last_samples: &[u32],
    ) -> Vec<u32> {
        let mut results = Vec::new();
        for i in 0..batch.samples as usize {
            let words = batch.sample(i);
            let &[row, _, position, temperature, top_k, top_p, min_p, low, high, ..] = words else {
                unreachable!("a sample has SAMPLE_WORDS words");
            };
            let sampling = Sampling {
                temperature: f32::from_bits(temperature),
                top_k,
                top_p: f32::from_bits(top_p),
                min_p: f32::from_bits(min_p),
                seed: u64::from(low) | u64::from(high) << 32,
                ..Sampling::GREEDY
            };
            let row = &logits[row as usize * row_stride(self.vocab)..][..self.vocab];
            let adjusted = tables.adjusted(self.vocab, batch, i, last_samples, row);
            let token = sample_token(&adjusted, position, &sampling);
            results.extend([token, row.iter().filter(|v| !v.is_finite()).count() as u32]);
        }
        results
    }
}

/// The token at `position`; the lowest id wins ties. 0 if no logit is finite.
fn sample_token(logits: &[f32], position: u32, sampling: &Sampling) -> u32 {
    let top = top(logits);
    let lowest = lowest_kept(logits, sampling);
    let scale = 1.0 / sampling.temperature.max(1e-6);
    let seed = [sampling.seed as u32, (sampling.seed >> 32) as u32];
    let mut best = (f32::NEG_INFINITY, 0);
    for (four, logits) in (0..).zip(logits.chunks(4)) {
        if logits.iter().all(|v| !v.is_finite() || *v < lowest) {
            continue;
        }
        let words = match sampling.temperature > 0.0 {
            true => philox([position, four, 0, 0], seed).map(gumbel),
            false => [0.0; 4],
        };
        for ((token, logit), noise) in (4 * four..).zip(logits).zip(words) {
            let score = (logit - top) * scale + noise;
            if logit.is_finite() && *logit >= lowest && score > best.0 {
                best = (score, token);
            }
        }
    }
    best.1
}

fn top(logits: &[f32]) -> f32 {
    logits.iter().copied().filter(|v| v.is_finite()).fold(f32::NEG_INFINITY, f32::max)
}

/// The lowest logit that the filters of `sampling` keep; logits that are not finite are ignored. At
/// temperature 0 it is the largest.
pub fn lowest_kept(logits: &[f32], sampling: &Sampling) -> f32 {
    let Sampling { temperature, top_k, top_p, .. } = *sampling;
    let top = top(logits);
    if temperature <= 0.0 {
        return top;
    }
    if top_k == 0 && top_p >= 1.0 {
        return min_p_limit(top, sampling).unwrap_or(f32::MIN);
    }
    let mut kept: Vec<f32> = logits.iter().copied().filter(|v| v.is_finite()).collect();
    kept.sort_unstable_by(|a, b| b.total_cmp(a));
    if top_k > 0
        && let Some(limit) = kept.get(top_k as usize - 1).copied()
    {
        kept.truncate(kept.partition_point(|v| *v >= limit));
    }
    if top_p < 1.0 {
        let mass = |v: f32| f64::from((v - top) / temperature).exp();
        let goal = f64::from(top_p) * kept.iter().map(|v| mass(*v)).sum::<f64>();
        let (mut above, mut count) = (0.0, 0);
        // Tokens with equal logits are kept or dropped together.
        for equal in kept.chunk_by(|a, b| a == b) {
            if count > 0 && above >= goal {
                break;
            }
            above += equal.len() as f64 * mass(equal[0]);
            count += equal.len();
        }
        kept.truncate(count);
    }
    let lowest = kept.last().copied().unwrap_or(f32::MIN);
    min_p_limit(top, sampling).map_or(lowest, |limit| limit.max(lowest))
}

fn min_p_limit(top: f32, sampling: &Sampling) -> Option<f32> {
    let limit = || (top + sampling.min_p.ln() * sampling.temperature).min(top);
    (sampling.min_p > 0.0).then(limit)
}

impl Kernel for Sample {
    fn shader(&self, tuning: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "logits"]).write("last_samples").write("tallies");
        let bindings = bindings.and("bias", true).and("masks", true).write("result");
        let values = context! {
            vocab => self.vocab,
            stride => row_stride(self.vocab),
            threads => self.threads(tuning),
            max_bias => MAX_BIAS,
            max_drafts => MAX_DRAFTS,
            drafts_at => DRAFTS_AT,
            bias_at => BIAS_AT,
            count => adjust::COUNT,
            slot_tokens => SLOT_TOKENS,
            sampled_at => SAMPLED,
        };
        Shader::render("sample", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [batch.samples, 1, 1]
    }
}
