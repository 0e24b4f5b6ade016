//! The tokens of one request, and how many of them have been computed.

use super::request::{Event, FinishReason, Request, RequestId, Usage};
use crate::{
    Error,
    cache::BlockTable,
    step::{RowTokens, Sample, Sampling, SeqPlan},
};

/// A request on its way: `computed` catches up with [`Sequence::known`].
///
/// ```text
///   prompt                output          sampled by steps in flight
/// ├─────────────────────┼───────────────┼───────────┤
///   tokens: known to the host             pending: known to the device
///            computed ─►                             known() <= limit
/// ```
#[derive(Debug)]
pub struct Sequence {
    pub id: RequestId,
    /// Place in the executor's table of last samples; set on admission.
    pub slot: u32,
    pub table: BlockTable,
    /// Steps in flight that have rows of this sequence, and so use its slot and blocks.
    pub in_flight: usize,
    tokens: Vec<u32>,
    prompt: usize,
    pending: usize,
    computed: usize,
    /// The length at which it ends.
    limit: usize,
    end_tokens: Vec<u32>,
    sampling: Sampling,
}

impl Sequence {
    /// The sequence of a valid request, which ends at `context` tokens if nothing ends it before.
    pub fn new(id: RequestId, request: Request, context: usize) -> Sequence {
        let prompt = request.prompt.len();
        let wanted = request.max_tokens.map_or(context, |max| prompt.saturating_add(max));
        Sequence {
            id,
            slot: 0,
            table: BlockTable::default(),
            in_flight: 0,
            tokens: request.prompt,
            prompt,
            pending: 0,
            computed: 0,
            limit: wanted.min(context),
            end_tokens: request.end_tokens,
            sampling: request.sampling,
        }
    }

    /// Tokens that the device can compute, though the host may not have seen the last ones.
    pub fn known(&self) -> usize {
        self.tokens.len() + self.pending
    }

    /// Tokens whose keys and values are in the cache once the steps in flight are over.
    pub fn computed(&self) -> usize {
        self.computed
    }

    /// Rows left to compute. None once the last token is on its way: nothing follows it.
    pub fn remaining(&self) -> usize {
        if self.known() == self.limit { 0 } else { self.known() - self.computed }
    }

    /// Puts the next `count` rows into a step, where 1 <= `count` <= [`Sequence::remaining`].
    pub fn advance(&mut self, count: usize) -> SeqPlan {
        let (start, end) = (self.computed, self.computed + count);
        debug_assert!(start < end && end <= self.known());
        let tokens = match self.tokens.get(start..end) {
            Some(tokens) => RowTokens::Known(tokens.to_vec()),
            None => RowTokens::LastSample,
        };
        let sample = (end == self.known()).then_some(self.sampling);
        self.computed = end;
        self.in_flight += 1;
        self.pending += usize::from(sample.is_some());
        SeqPlan {
            slot: self.slot,
            tokens,
            start: start as u32,
            blocks: self.table.covering(end).to_vec(),
            sample,
            ..Default::default()
        }
    }

    /// Takes in the oldest pending token and tells whether the answer ends with it.
    pub fn accept(&mut self, sample: &Sample, events: &mut Vec<Event>) -> Option<FinishReason> {
        self.pending -= 1;
        if sample.not_finite > 0 {
            return Some(FinishReason::Error(Error::Numerical { count: sample.not_finite }));
        }
        self.tokens.push(sample.token);
        if self.end_tokens.contains(&sample.token) {
            return Some(FinishReason::Stop);
        }
        events.push(Event::Token {
            id: self.id,
            token: sample.token,
            logprobs: sample.logprobs.clone(),
        });
        (self.tokens.len() == self.limit).then_some(FinishReason::Length)
    }

    /// Forgets what was computed, once no step is in flight and the blocks are given up.
    pub fn restart(&mut self) {
        debug_assert!(self.in_flight == 0 && self.pending == 0);
        self.computed = 0;
    }

    pub fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt,
            cached_tokens: 0,
            completion_tokens: self.tokens.len() - self.prompt,
        }
    }
}
