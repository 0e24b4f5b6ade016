//! Decodes the results of a step.

use std::sync::Arc;

use crate::step::{Logprobs, Pool, Sample, SeqPlan, StepPlan};

/// What a plan asks for: samples and scores, in the order of the result words
/// ([`crate::kernels::Batch::result_words`]), and embeddings.
pub struct Outcome {
    /// Slot, number of samples, and which log-probabilities were asked for.
    samples: Vec<(u32, usize, Option<LogprobsAsked>)>,
    /// For each scored row: how many of the most likely tokens.
    scores: Vec<u32>,
    /// The slots whose pooling ends, in the plan's order.
    pub embedded: Vec<u32>,
}

/// How many of the most likely tokens, and which named tokens.
type LogprobsAsked = (u32, Arc<[u32]>);

impl Outcome {
    /// The results that a valid plan asks for. `vocab`: size of the vocabulary.
    pub fn of(plan: &StepPlan, vocab: usize) -> Outcome {
        let top = |asked: u32| asked.min(vocab as u32);
        let sample = |seq: &SeqPlan| {
            let logprobs = seq.sample?.logprobs;
            let asked = logprobs.map(|asked| (top(asked), seq.logprob_tokens.clone()));
            Some((seq.slot, seq.sampled(), asked))
        };
        let scores = plan.seqs.iter().filter_map(|seq| seq.score.as_ref());
        let ends = |seq: &&SeqPlan| matches!(seq.pool, Some(Pool { last: true, .. }));
        Outcome {
            samples: plan.seqs.iter().filter_map(sample).collect(),
            scores: scores.flat_map(|s| s.targets.iter().map(|_| top(s.top))).collect(),
            embedded: plan.seqs.iter().filter(ends).map(|seq| seq.slot).collect(),
        }
    }

    /// The accepted samples, and the scores, from the result words.
    pub fn read(&self, words: &[u32]) -> (Vec<Sample>, Vec<Logprobs>) {
        let count = self.samples.iter().map(|(_, count, _)| count).sum::<usize>();
        let (pairs, rest) = words.split_at(2 * count);
        let (accepted, mut rest) = rest.split_at(self.samples.len());
        let mut pairs = pairs.chunks_exact(2);
        let mut samples = Vec::with_capacity(self.samples.len());
        for ((slot, count, asked), accepted) in self.samples.iter().zip(accepted) {
            for (i, pair) in (0..).zip(pairs.by_ref().take(*count)) {
                let logprobs = asked.as_ref().map(|(top, named)| logprobs(&mut rest, *top, named));
                if i <= *accepted {
                    let (token, not_finite) = (pair[0], pair[1]);
                    samples.push(Sample { slot: *slot, token, not_finite, logprobs });
                }
            }
        }
        (samples, self.scores.iter().map(|top| logprobs(&mut rest, *top, &[])).collect())
    }
}

/// Reads one log-probability, with those of the `top` most likely tokens and of the `named` ones, and
/// removes it from the front of `words`.
fn logprobs(words: &mut &[u32], top: u32, named: &[u32]) -> Logprobs {
    let (mine, rest) = words.split_at(1 + 2 * top as usize + named.len());
    *words = rest;
    let chosen = f32::from_bits(mine[0]);
    let (pairs, others) = mine[1..].split_at(2 * top as usize);
    let pairs = pairs.chunks_exact(2).map(|pair| (pair[0], f32::from_bits(pair[1])));
    let others = named.iter().zip(others).map(|(token, word)| (*token, f32::from_bits(*word)));
    let top = pairs.chain(others);
    Logprobs { chosen, top: if chosen.is_nan() { Vec::new() } else { top.collect() } }
}
