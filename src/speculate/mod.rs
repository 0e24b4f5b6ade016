//! Speculative decoding: draft tokens, so that one step can compute several tokens of a sequence.
//!
//! Drafts only decide how many positions one step computes. The token of each position is sampled from
//! the model's logits with noise that depends on the position alone, and a draft is accepted if it
//! equals the sampled token. So the answer is the same with and without drafts.

mod acceptance;
mod batch;
mod costs;
mod drafts;
mod mean;
mod ngram;
mod policy;
mod times;

use std::fmt::Debug;

pub use batch::Source;
pub use costs::Observed;
pub use drafts::{Choice, Decoding, Drafts, Sampled};
pub use mean::{Mean, Rate};
pub use ngram::Ngram;
pub use policy::{Load, Room, Speculation};

/// Proposes draft tokens for one sequence.
pub trait Proposer: Debug {
    /// One of the same kind, for another sequence.
    fn fresh(&self) -> Box<dyn Proposer>;

    /// Prepares for proposals behind these tokens; each call has the tokens of the call before, and more.
    fn read(&mut self, _tokens: &[u32]) {}

    /// At most `most` tokens likely to follow `tokens`, in order; none if there is no basis for any. Each
    /// call has the tokens of the call before, and more.
    fn propose(&mut self, tokens: &[u32], most: usize) -> Vec<u32>;
}
