//! Guesses of what comes next, so that one step can compute several tokens of a sequence.
//!
//! A guess only decides how many positions are computed at once. Each of them is drawn from what the
//! model says, with noise that depends on its position alone, and a guess counts where it is the
//! token drawn in its place: the answer is the same without.

mod ledger;
mod length;
mod mean;
mod ngram;
mod rests;

use std::fmt::Debug;

pub use ledger::{ByBatch, Ledger, PlainCosts};
pub use length::{Acceptance, Costs, Guesses, Worth};
pub use ngram::Ngram;
pub use rests::Rests;

/// Proposes tokens that are likely to follow.
pub trait Drafter: Debug {
    /// At most `most` tokens that may follow `tokens`, the next one first; none if there is nothing to
    /// go by.
    fn propose(&self, tokens: &[u32], most: usize) -> Vec<u32>;
}
