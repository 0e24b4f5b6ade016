//! Drafters that know the answers.

use tabloom::speculate::Proposer;

use super::scripted::{VOCAB, next_token};

/// Quality of the proposals.
#[derive(Clone, Copy, Debug)]
pub enum Quality {
    /// The tokens that will be sampled, as far as only the seed decides.
    Right,
    /// Right, except for tokens at certain positions.
    Mixed,
    /// All wrong.
    Wrong,
}

/// Knows the seeds of all requests, and so the tokens that they will sample.
#[derive(Clone, Debug)]
pub struct Oracle {
    pub seeds: Vec<u64>,
    pub quality: Quality,
}

impl Proposer for Oracle {
    fn fresh(&self) -> Box<dyn Proposer> {
        Box::new(self.clone())
    }

    fn propose(&mut self, tokens: &[u32], most: usize) -> Vec<u32> {
        let Some((last, before)) = tokens.split_last() else { return Vec::new() };
        let is_next = |seed: &&u64| next_token(before, **seed, u32::MAX) == *last;
        let seed = self.seeds.iter().find(is_next).or(self.seeds.first()).copied().unwrap_or(0);
        let mut tokens = tokens.to_vec();
        let proposal = (0..most).map(|at| {
            let right = next_token(&tokens, seed, u32::MAX);
            let errs = match self.quality {
                Quality::Right => false,
                Quality::Mixed => (at + tokens.len()).is_multiple_of(3),
                Quality::Wrong => true,
            };
            tokens.push(right);
            if errs { (right + 1) % VOCAB } else { right }
        });
        proposal.collect()
    }
}
