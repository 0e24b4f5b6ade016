//! Speculative decoding: draft tokens, so that one step can compute several tokens of a sequence.
//!
//! Drafts only decide how many positions one step computes. The token of each position is sampled from
//! the model's logits with noise that depends on the position alone, and a draft is accepted if it
//! equals the sampled token. So the answer is the same with and without drafts.

mod ledger;
mod length;
mod mean;
mod ngram;
mod pauses;

use std::fmt::Debug;

pub use ledger::{ByBatch, Ledger, PlainCosts};
pub use length::{Acceptance, Costs, SeqDrafts, Worth};
pub use mean::Mean;
pub use ngram::Ngram;
pub use pauses::Pauses;

/// Proposes draft tokens.
pub trait Drafter: Debug {
    /// At most `most` tokens likely to follow `tokens`, in order; none if there is no basis for any.
    fn propose(&self, tokens: &[u32], most: usize) -> Vec<u32>;
}
