//! What a step's results mean.

use crate::step::{Logprobs, Pool, Sample, SeqPlan, StepPlan};

/// What a plan asked for: samples and scores in the order of the words of its results
/// ([`crate::kernels::Batch::result_words`]), and embeddings.
pub struct Outcome {
    /// Slot, and how many of the likeliest tokens come along, if log-probabilities do.
    samples: Vec<(u32, Option<u32>)>,
    /// The same for each scored row.
    scores: Vec<u32>,
    /// The slots whose pooling ends, in the plan's order.
    pub embedded: Vec<u32>,
}

impl Outcome {
    /// What a valid plan for a vocabulary of `vocab` tokens asks for.
    pub fn of(plan: &StepPlan, vocab: usize) -> Outcome {
        let top = |asked: u32| asked.min(vocab as u32);
        let sample = |seq: &SeqPlan| Some((seq.slot, seq.sample?.logprobs.map(top)));
        let scores = plan.seqs.iter().filter_map(|seq| seq.score.as_ref());
        let ends = |seq: &&SeqPlan| matches!(seq.pool, Some(Pool { last: true, .. }));
        Outcome {
            samples: plan.seqs.iter().filter_map(sample).collect(),
            scores: scores.flat_map(|s| s.targets.iter().map(|_| top(s.top))).collect(),
            embedded: plan.seqs.iter().filter(ends).map(|seq| seq.slot).collect(),
        }
    }

    /// The samples and scores in the results.
    pub fn read(&self, words: &[u32]) -> (Vec<Sample>, Vec<Logprobs>) {
        let (pairs, mut rest) = words.split_at(2 * self.samples.len());
        let samples = self.samples.iter().zip(pairs.chunks_exact(2));
        let samples = samples.map(|(&(slot, top), pair)| Sample {
            slot,
            token: pair[0],
            not_finite: pair[1],
            logprobs: top.map(|top| logprobs(&mut rest, top)),
        });
        let samples = samples.collect();
        (samples, self.scores.iter().map(|top| logprobs(&mut rest, *top)).collect())
    }
}

/// Takes a log-probability and `top` of the likeliest tokens off the front of the words.
fn logprobs(words: &mut &[u32], top: u32) -> Logprobs {
    let (mine, rest) = words.split_at(1 + 2 * top as usize);
    *words = rest;
    let chosen = f32::from_bits(mine[0]);
    let pairs = mine[1..].chunks_exact(2).map(|pair| (pair[0], f32::from_bits(pair[1])));
    Logprobs { chosen, top: if chosen.is_nan() { Vec::new() } else { pairs.collect() } }
}
