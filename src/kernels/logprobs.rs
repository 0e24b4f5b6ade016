//! Log-probabilities of tokens.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Tuning, batch::LAST_SAMPLE};
use crate::{gpu::Shader, layout::row_stride};

/// Log-probabilities under unadjusted logit rows: of one token, of the most likely tokens (ties: lowest
/// id first), and of named tokens.
///
/// Bindings: step, logits `[logit rows][row_stride(vocab)]`, results (in and out): those of
/// [`super::Sample`], then per log-probability 1 + 2n + m words: the token's log-probability, n pairs
/// (token, log-probability), and the log-probabilities of the m named tokens. The first is NaN, and the
/// others are undefined, if a logit of the row is NaN or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logprobs {
    pub vocab: usize,
}

impl Logprobs {
    /// CPU reference: appends to the samples' results.
    pub fn reference(&self, batch: &Batch, logits: &[f32], results: &mut Vec<u32>) {
        for i in 0..batch.logprobs as usize {
            let &[row, token, count, at, named, names] = batch.logprob(i) else {
                unreachable!("a log-probability has LOGPROB_WORDS words");
            };
            debug_assert_eq!(at as usize, results.len());
            let token = match token & LAST_SAMPLE {
                0 => token,
                _ => results[2 * (token & !LAST_SAMPLE) as usize],
            };
            let row = &logits[row as usize * row_stride(self.vocab)..][..self.vocab];
            let finite = row.iter().all(|logit| logit.is_finite());
            let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mass: f64 = row.iter().map(|logit| f64::from(logit - top).exp()).sum();
            let log = |logit: f32| match finite {
                true => (f64::from(logit - top) - mass.ln()) as f32,
                false => f32::NAN,
            };
            results.push(log(row[token as usize]).to_bits());
            for token in most_likely(row, count as usize) {
                results.extend([token, log(row[token as usize]).to_bits()]);
            }
            let named = &batch.words[named as usize..][..names as usize];
            results.extend(named.iter().map(|token| log(row[*token as usize]).to_bits()));
        }
    }
}

/// The tokens with the `count` largest logits, largest first; `count` is at most their number.
fn most_likely(logits: &[f32], count: usize) -> Vec<u32> {
    let mut tokens: Vec<u32> = (0..logits.len() as u32).collect();
    // Both zeros are equal.
    let key = |token: &u32| logits[*token as usize] + 0.0;
    let order = |a: &u32, b: &u32| key(b).total_cmp(&key(a)).then(a.cmp(b));
    if count < tokens.len() {
        tokens.select_nth_unstable_by(count, order);
        tokens.truncate(count);
    }
    tokens.sort_unstable_by(order);
    tokens
}

impl Kernel for Logprobs {
    fn shader(&self, tuning: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "logits"]).write("result");
        let values = context! {
            vocab => self.vocab,
            stride => row_stride(self.vocab),
            // At least 32, see `Sample`.
            threads => if tuning.barriers { 256 } else { 32 },
        };
        Shader::render("logprobs", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [batch.logprobs, 1, 1]
    }
}
