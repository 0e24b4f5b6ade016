//! Decides what each step computes: continuous batching over a fixed pool of KV blocks.
//!
//! There is no prefill phase and no decode phase. Each sequence has tokens
//! that are known and tokens that are computed, and every step lets the second
//! count catch up with the first as far as the row budget goes. A long prompt
//! is thereby computed in chunks, beside the others' next tokens.
//!
//! A step is planned before the steps in flight are over. Their samples count
//! as known, because the device reads them from its table of last samples. If
//! one of them turns out to end its request, the row planned in vain is
//! discarded.

mod request;
mod sequence;
#[cfg(test)]
mod tests;

pub use self::request::{Event, FinishReason, Goal, Request, RequestId, TabId, Usage};

use std::collections::VecDeque;

use self::sequence::Sequence;
use crate::{
    Error, Result,
    cache::KvCache,
    metrics::Metrics,
    step::{BLOCK_SIZE, Capacity, StepPlan, StepResult},
};

/// The requests of an engine and the KV blocks they share, first come, first served.
#[derive(Debug)]
pub struct Scheduler {
    capacity: Capacity,
    cache: KvCache,
    /// In order of arrival, behind those that were preempted.
    waiting: VecDeque<Sequence>,
    /// In order of admission. Each holds a slot and the blocks of what it computed.
    running: Vec<Sequence>,
    /// Ended, but a step in flight still uses their slot and blocks.
    draining: Vec<Sequence>,
    free_slots: Vec<u32>,
    submitted: u64,
    metrics: Metrics,
}

impl Scheduler {
    /// A scheduler without requests, for an executor of this capacity.
    pub fn new(capacity: Capacity) -> Scheduler {
        Scheduler {
            capacity,
            cache: KvCache::new(capacity.blocks, None, false, 0),
            waiting: VecDeque::new(),
            running: Vec::new(),
            draining: Vec::new(),
            free_slots: (0..capacity.seqs as u32).rev().collect(),
            submitted: 0,
            metrics: Metrics::default(),
        }
    }

    /// Puts a request at the end of the queue.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] or [`Error::ContextLengthExceeded`] if it could never be served.
    pub fn submit(&mut self, request: Request) -> Result<RequestId> {
        let refuse = |param: &str, message: String| {
            Err(Error::InvalidRequest { param: param.into(), message })
        };
        // A sequence must fit the pool alone, so that whoever runs first can always go on.
        let limit = self.capacity.context.min(self.cache.usable() * BLOCK_SIZE);
        let (prompt, vocab) = (&request.prompt, self.capacity.vocab);
        if prompt.is_empty() {
            return refuse("prompt", "is empty; it needs at least one token".into());
        }
        if let Some(token) = prompt.iter().find(|token| **token as usize >= vocab) {
            return refuse("prompt", format!("has token {token}; ids must be below {vocab}"));
        }
        if request.max_tokens == Some(0) {
            return refuse("max_tokens", "is 0; it must be at least 1".into());
        }
        if prompt.len() >= limit {
            return Err(Error::ContextLengthExceeded { prompt: prompt.len(), limit });
        }
        let id = RequestId(self.submitted);
        self.submitted += 1;
        self.waiting.push_back(Sequence::new(id, request, limit));
        Ok(id)
    }

    /// Chooses the rows of the next step; none if there is nothing to compute before a step in
    /// flight is over.
    pub fn plan(&mut self) -> StepPlan {
        let mut plan = StepPlan::default();
        let mut budget = self.capacity.rows;
        let mut next = 0;
        while budget > 0 && (next < self.running.len() || self.admit()) {
            let seq = &mut self.running[next];
            let count = seq.remaining().min(budget);
            let length = seq.computed() + count;
            if count == 0 {
                next += 1;
            } else if self.cache.reserve(&mut seq.table, length) {
                plan.seqs.push(seq.advance(count));
                budget -= count;
                next += 1;
            } else if !self.preempt() {
                break;
            }
        }
        plan
    }

    /// Takes in what a planned step produced. Steps are committed in the order of their plans.
    pub fn commit(&mut self, plan: &StepPlan, result: &StepResult) -> Vec<Event> {
        let mut events = Vec::new();
        let mut samples = result.samples.iter();
        for rows in &plan.seqs {
            let sample = rows.sample.and_then(|_| samples.next());
            let holds_slot = |seq: &Sequence| seq.slot == rows.slot;
            if let Some(at) = self.running.iter().position(holds_slot) {
                let seq = &mut self.running[at];
                seq.in_flight -= 1;
                let Some(sample) = sample else { continue };
                let Usage { prompt_tokens, completion_tokens, .. } = seq.usage();
                if completion_tokens == 0 {
                    self.metrics.prompt_tokens += prompt_tokens as u64;
                }
                self.metrics.generation_tokens += u64::from(sample.not_finite == 0);
                if let Some(reason) = seq.accept(sample, &mut events) {
                    events.push(self.finish_running(at, reason));
                }
            } else if let Some(at) = self.draining.iter().position(holds_slot) {
                self.draining[at].in_flight -= 1;
                if self.draining[at].in_flight == 0 {
                    let mut seq = self.draining.swap_remove(at);
                    self.vacate(&mut seq);
                }
            }
        }
        events
    }

    /// Ends a request for a reason of the caller's. None if it is not live, which is no error: the
    /// caller may not have seen its end yet.
    pub fn finish(&mut self, id: RequestId, reason: FinishReason) -> Option<Event> {
        if let Some(at) = self.running.iter().position(|seq| seq.id == id) {
            return Some(self.finish_running(at, reason));
        }
        let at = self.waiting.iter().position(|seq| seq.id == id)?;
        let seq = self.waiting.remove(at)?;
        Some(self.finished(&seq, reason))
    }

    /// Ends every request with an error and forgets the steps in flight.
    pub fn abort(&mut self, error: &Error) -> Vec<Event> {
        let live: Vec<Sequence> = self.running.drain(..).chain(self.waiting.drain(..)).collect();
        let event = |seq: &Sequence| self.finished(seq, FinishReason::Error(error.clone()));
        let events = live.iter().map(event).collect();
        let Scheduler { submitted, ref metrics, .. } = *self;
        *self = Scheduler { submitted, metrics: metrics.clone(), ..Scheduler::new(self.capacity) };
        events
    }

    /// Whether no request is live and no step in flight is left to commit.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.draining.is_empty()
    }

    /// The counters so far, and the state now.
    pub fn metrics(&self) -> Metrics {
        Metrics {
            num_requests_running: self.running.len(),
            num_requests_waiting: self.waiting.len(),
            kv_cache_usage_perc: self.cache.usage(),
            ..self.metrics.clone()
        }
    }

    /// Checks that every block and slot is either free or held once.
    ///
    /// # Panics
    /// If that does not hold, which is a defect.
    pub fn check_integrity(&self) {
        let sequences = || self.running.iter().chain(&self.draining).chain(&self.waiting);
        self.cache.check_integrity(sequences().map(|seq| &seq.table), []);

        let held = self.running.iter().chain(&self.draining).map(|seq| seq.slot);
        let mut slots: Vec<u32> = held.chain(self.free_slots.iter().copied()).collect();
        slots.sort_unstable();
        assert!(slots.into_iter().eq(0..self.capacity.seqs as u32), "a slot is lost or held twice");
    }

    /// Lets the head of the queue run if it gets a slot and blocks for all its tokens and one more.
    fn admit(&mut self) -> bool {
        let Some(&slot) = self.free_slots.last() else { return false };
        let fits = |seq: &mut Sequence| {
            let length = seq.known() + 1;
            self.cache.reserve(&mut seq.table, length)
        };
        let Some(mut seq) = self.waiting.pop_front_if(fits) else { return false };
        self.free_slots.pop();
        seq.slot = slot;
        self.running.push(seq);
        true
    }

    /// Sends the latest admitted back to the queue, to be computed again later, so that its blocks
    /// serve those before it. Does nothing and returns false if a step in flight must be over first.
    fn preempt(&mut self) -> bool {
        if !self.draining.is_empty() {
            return false; // blocks come back without it
        }
        let Some(mut seq) = self.running.pop_if(|seq| seq.in_flight == 0) else { return false };
        self.vacate(&mut seq);
        seq.restart();
        self.waiting.push_front(seq);
        self.metrics.num_preemptions += 1;
        true
    }

    fn finish_running(&mut self, at: usize, reason: FinishReason) -> Event {
        let mut seq = self.running.remove(at);
        let event = self.finished(&seq, reason);
        if seq.in_flight == 0 {
            self.vacate(&mut seq);
        } else {
            self.draining.push(seq);
        }
        event
    }

    fn finished(&mut self, seq: &Sequence, reason: FinishReason) -> Event {
        let counts = &mut self.metrics.request_success;
        *match reason {
            FinishReason::Stop | FinishReason::StopToken(_) => &mut counts.stop,
            FinishReason::Length => &mut counts.length,
            FinishReason::Cancelled => &mut counts.abort,
            FinishReason::Error(_) => &mut counts.error,
        } += 1;
        Event::Finished { id: seq.id, reason, usage: seq.usage() }
    }

    /// Takes back the slot and the blocks of a sequence that no step in flight uses.
    fn vacate(&mut self, seq: &mut Sequence) {
        self.cache.release(&mut seq.table);
        self.free_slots.push(seq.slot);
    }
}
