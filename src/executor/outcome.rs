//! What a step's results mean.

use std::sync::Arc;

use crate::step::{Logprobs, Pool, Sample, SeqPlan, StepPlan};

/// What a plan asked for: samples and scores in the order of the words of its results
/// ([`crate::kernels::Batch::result_words`]), and embeddings.
pub struct Outcome {
    /// Slot, number of draws, and what log-probabilities come along, if any do.
    samples: Vec<(u32, usize, Option<Told>)>,
    /// The same for each scored row.
    scores: Vec<u32>,
    /// The slots whose pooling ends, in the plan's order.
    pub embedded: Vec<u32>,
}

/// How many of the likeliest tokens are told of, and which others.
type Told = (u32, Arc<[u32]>);

impl Outcome {
    /// What a valid plan for a vocabulary of `vocab` tokens asks for.
    pub fn of(plan: &StepPlan, vocab: usize) -> Outcome {
        let top = |asked: u32| asked.min(vocab as u32);
        let sample = |seq: &SeqPlan| {
            let logprobs = seq.sample?.logprobs;
            let told = logprobs.map(|asked| (top(asked), seq.logprob_tokens.clone()));
            Some((seq.slot, seq.draws(), told))
        };
        let scores = plan.seqs.iter().filter_map(|seq| seq.score.as_ref());
        let ends = |seq: &&SeqPlan| matches!(seq.pool, Some(Pool { last: true, .. }));
        Outcome {
            samples: plan.seqs.iter().filter_map(sample).collect(),
            scores: scores.flat_map(|s| s.targets.iter().map(|_| top(s.top))).collect(),
            embedded: plan.seqs.iter().filter(ends).map(|seq| seq.slot).collect(),
        }
    }

    /// The samples that stand, and the scores, in the results.
    pub fn read(&self, words: &[u32]) -> (Vec<Sample>, Vec<Logprobs>) {
        let draws = self.samples.iter().map(|(_, draws, _)| draws).sum::<usize>();
        let (pairs, rest) = words.split_at(2 * draws);
        let (accepted, mut rest) = rest.split_at(self.samples.len());
        let mut pairs = pairs.chunks_exact(2);
        let mut samples = Vec::with_capacity(self.samples.len());
        for ((slot, draws, told), accepted) in self.samples.iter().zip(accepted) {
            for (i, pair) in (0..).zip(pairs.by_ref().take(*draws)) {
                let logprobs = told.as_ref().map(|(top, named)| logprobs(&mut rest, *top, named));
                if i <= *accepted {
                    let (token, not_finite) = (pair[0], pair[1]);
                    samples.push(Sample { slot: *slot, token, not_finite, logprobs });
                }
            }
        }
        (samples, self.scores.iter().map(|top| logprobs(&mut rest, *top, &[])).collect())
    }
}

/// Takes a log-probability, `top` of the likeliest tokens and those of the tokens `named` off the
/// front of the words.
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
