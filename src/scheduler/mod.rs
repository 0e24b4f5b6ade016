//! Continuous batching over a fixed pool of KV blocks: decides what each step computes.
//!
//! There is no prefill phase and no decode phase. Each sequence has known tokens and computed tokens,
//! and every step lets the second count catch up with the first, within the row budget. So a long
//! prompt is computed in chunks, beside the decode rows of the others (chunked prefill).
//!
//! A step is planned before the steps in flight are over. Their sampled tokens count as known, because
//! the device reads them from its table of last samples. If such a token ends its request, the row
//! planned after it is discarded. Slots and blocks become free only when no step in flight uses them.
//!
//! Speculative decoding: a step computes the draft tokens of a sequence too, one row each. The number
//! of accepted drafts decides where the sequence goes on; the rows of rejected drafts are computed
//! again. If the executor drafts, it knows that number itself: once the answer is long enough to make
//! it pay, the next step is planned as if no draft was accepted, with blocks for the case that all
//! were. Otherwise the sequence waits.

mod admission;
mod commit;
mod options;
mod pace;
mod plan;
mod queue;
mod repetition;
mod request;
mod sequence;
mod state;
mod stored;
#[cfg(test)]
mod tests;

pub use self::{
    options::{Options, Policy},
    repetition::Repetition,
    request::{Ended, Event, FinishReason, Goal, PinId, Request, RequestId, TabId, Usage},
    state::Scheduler,
};

use std::time::Duration;

use self::sequence::Sequence;
use crate::{
    Error, Result,
    metrics::{FinishedReason, Metrics},
    sampling::Constraint,
    step::{BLOCK_SIZE, StepPlan, Window},
};

impl Scheduler {
    /// Adds a request to the queue.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] or [`Error::ContextLengthExceeded`] if it could never be served;
    /// [`Error::NoTokenAllowed`] if its limits allow no first token; [`Error::QueueFull`] if too many
    /// wait.
    pub fn submit(&mut self, request: Request, now: Duration) -> Result<RequestId> {
        Ok(self.submit_many(request, 1, now)?[0])
    }

    /// Adds `n` requests to the queue that differ in their seeds alone: seed, seed + 1, …
    ///
    /// The prompt is computed once, and its blocks are shared. All continue after the same
    /// [`Request::answered`].
    ///
    /// # Errors
    /// As for [`Scheduler::submit`], for all of them or none.
    pub fn submit_many(
        &mut self,
        request: Request,
        n: usize,
        now: Duration,
    ) -> Result<Vec<RequestId>> {
        request.check(&self.capacity)?;
        let (all, own) = (self.queue.len(), self.queue.waiting(request.tab));
        for (waiting, limit) in
            [(all, self.options.max_queue), (own, self.options.max_queue_per_tab)]
        {
            if waiting + n > limit {
                return Err(Error::QueueFull { waiting, limit });
            }
        }
        let limit = self.capacity.longest();
        let first = RequestId(self.submitted);
        let twin = |i: u64| {
            let mut twin = request.clone();
            twin.sampling.seed = request.sampling.seed.wrapping_add(i);
            let (id, drafts) = (RequestId(first.0 + i), self.speculation.drafts());
            let mut seq = Sequence::new(id, twin, limit, &self.capacity, drafts, now);
            seq.check_limits()?;
            seq.twin_of = (i > 0 && seq.may_skip_rows()).then_some(first);
            Ok(seq)
        };
        let twins = (0..n as u64).map(twin).collect::<Result<Vec<Sequence>>>()?;
        self.submitted += n as u64;
        self.enter(first, request.tab);
        let ids = twins.iter().map(|seq| seq.id).collect();
        for mut seq in twins {
            let (id, ended) = (seq.id, seq.resume(&request.answered));
            self.hash(&mut seq);
            self.queue.push(seq);
            if let Some(reason) = ended {
                self.finish(id, reason, now);
            }
        }
        Ok(ids)
    }

    /// Sets the constraint that a request announced. Does nothing if the request has ended.
    pub fn constrain(&mut self, id: RequestId, constraint: Box<dyn Constraint>, now: Duration) {
        let Some(seq) = self.live_mut(id) else { return };
        let (tab, was_blocked) = (seq.tab, seq.is_blocked());
        if let Some(reason) = seq.constrain(constraint) {
            self.finish(id, reason, now);
        } else if was_blocked {
            self.enter(id, tab);
        }
    }

    /// Holds a request, or releases it. A held request gets no rows, but steps in flight may still add
    /// tokens. It keeps its place, and its blocks until others need them. Does nothing if it has ended.
    pub fn hold(&mut self, id: RequestId, held: bool) {
        let Some(seq) = self.live_mut(id).filter(|seq| seq.held != held) else { return };
        seq.held = held;
        let tab = seq.tab;
        if !held {
            self.enter(id, tab);
        }
    }

    /// Whether a step takes so long that no other should be queued behind it: a new request would wait
    /// for both, and the pause between them hardly matters.
    pub fn is_long(&self, plan: &StepPlan) -> bool {
        self.pace.is_long(plan.rows())
    }

    /// Ends a request. Does nothing if it is not live: the caller may not know yet that it has ended.
    pub fn finish(&mut self, id: RequestId, reason: FinishReason, now: Duration) {
        if let Some(at) = self.running.iter().position(|seq| seq.id == id) {
            self.finish_running(at, reason, now);
        } else if let Some(seq) = self.queue.remove(id) {
            self.finished(&seq, reason, now);
        }
    }

    /// Ends all requests with an error; drops the steps in flight and all cached prefixes.
    pub fn abort(&mut self, error: &Error, now: Duration) {
        let mut live = std::mem::take(&mut self.running);
        live.extend(self.queue.drain());
        for seq in &live {
            self.finished(seq, FinishReason::Error(error.clone()), now);
        }
        let mut fresh = Scheduler::new(self.capacity, self.options.clone());
        std::mem::swap(&mut fresh.events, &mut self.events);
        std::mem::swap(&mut fresh.metrics, &mut self.metrics);
        fresh.submitted = self.submitted;
        fresh.speculation = self.speculation.fresh();
        *self = fresh.with_device_drafts(self.speculation.device(), self.cache.lookahead());
    }

    /// The events since the last call, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Whether there is nothing to do: each live request is held or waits for its constraint, no step
    /// in flight is left to commit, and no event is left to take.
    pub fn is_idle(&self) -> bool {
        let idle = |seq: &Sequence| seq.is_blocked() && seq.in_flight() == 0;
        self.queue.iter().chain(&self.running).all(idle)
            && self.draining.is_empty()
            && self.events.is_empty()
    }

    /// Sets whether a tab is visible: visible tabs come before hidden ones.
    pub fn set_visible(&mut self, tab: TabId, visible: bool) {
        self.queue.set_hidden(tab, !visible);
    }

    /// Cancels all requests of a tab and forgets it.
    pub fn close_tab(&mut self, tab: TabId, now: Duration) {
        let live = self.running.iter().chain(self.queue.iter()).filter(|seq| seq.tab == tab);
        for id in live.map(|seq| seq.id).collect::<Vec<_>>() {
            self.finish(id, FinishReason::Cancelled, now);
        }
        self.queue.forget(tab);
        self.cache.forget(tab.0);
        self.metrics.tabs.remove(&tab.0);
    }

    /// Keeps a computed prefix in the cache until [`Scheduler::unpin`], or until the only running
    /// request needs its blocks. None if not even its first block is cached.
    pub fn pin(&mut self, prefix: &[u32], salt: u64) -> Option<PinId> {
        let pin = self.cache.pin(prefix, salt)?;
        let id = PinId(self.submitted);
        self.submitted += 1;
        self.pins.insert(id, pin);
        Some(id)
    }

    /// Unpins a prefix. Does nothing if it is not pinned any more.
    pub fn unpin(&mut self, id: PinId) {
        if let Some(pin) = self.pins.remove(&id) {
            self.cache.unpin(pin);
        }
    }

    /// Drops all cached prefixes. Returns false, and drops nothing, while blocks are in use.
    ///
    /// With `interrupt`, running requests are preempted first and keep their order in the queue; those
    /// with a step in flight once that is over.
    pub fn reset_prefix_cache(&mut self, interrupt: bool) -> bool {
        if interrupt {
            for at in (0..self.running.len()).rev() {
                self.preempt_soon(at);
            }
        }
        self.cache.reset()
    }

    /// The counters so far, and the current state.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = self.metrics.clone();
        metrics.num_requests_running = self.running.len();
        metrics.num_requests_waiting = self.queue.len();
        metrics.kv_cache_usage_perc = self.cache.usage();
        metrics.host_cache_usage_perc = self.cache.host_usage();
        let held: usize = self.running.iter().map(|seq| seq.table.blocks_held()).sum();
        let used: usize = self.running.iter().map(|seq| self.visible(seq.computed())).sum();
        metrics.kv_block_utilisation =
            if held == 0 { 0.0 } else { used as f64 / (held * BLOCK_SIZE) as f64 };
        let waiting = self.queue.iter().map(|seq| (seq, false));
        for (seq, runs) in self.running.iter().map(|seq| (seq, true)).chain(waiting) {
            let tab = metrics.tabs.entry(seq.tab.0).or_default();
            *if runs { &mut tab.running } else { &mut tab.waiting } += 1;
            tab.kv_blocks += seq.table.blocks_held();
        }
        metrics
    }

    /// Checks that every block and slot is either free or held by what the tables say, and that host memory
    /// awaits the saves of the steps `in_flight` alone.
    ///
    /// # Panics
    /// If that does not hold, which is a defect.
    pub fn check_integrity<'a>(&self, in_flight: impl Iterator<Item = &'a StepPlan>) {
        let saves: usize = in_flight.map(|plan| plan.saves.len()).sum();
        assert_eq!(self.cache.saves_in_flight(), saves, "a save is awaited for ever, or lost");
        let sequences = || self.running.iter().chain(&self.draining).chain(self.queue.iter());
        self.cache.check_integrity(sequences().map(|seq| &seq.table), self.pins.values());

        let held = self.running.iter().chain(&self.draining).map(|seq| seq.slot);
        let mut slots: Vec<u32> = held.chain(self.free_slots.iter().copied()).collect();
        slots.sort_unstable();
        let all = self.options.max_running.min(self.capacity.seqs) as u32;
        assert!(slots.into_iter().eq(0..all), "a slot is lost or held twice");
    }

    fn live_mut(&mut self, id: RequestId) -> Option<&mut Sequence> {
        let running = self.running.iter_mut().find(|seq| seq.id == id);
        running.or_else(|| self.queue.get_mut(id))
    }

    /// Records that a request of a tab can be computed from now on. The tab may have had nothing to compute:
    /// no request, or only such as are held or wait for a constraint.
    fn enter(&mut self, id: RequestId, tab: TabId) {
        let busy = |seq: &&Sequence| seq.id != id && !seq.is_blocked();
        let others = || self.running.iter().chain(self.queue.iter()).filter(busy);
        if others().all(|seq| seq.tab != tab) {
            let alone = others().next().is_none();
            let running = self.running.iter().filter(busy).map(|seq| seq.tab);
            self.queue.enter(tab, alone, running);
        }
    }

    fn finish_running(&mut self, at: usize, reason: FinishReason, now: Duration) {
        let mut seq = self.running.remove(at);
        self.finished(&seq, reason, now);
        if seq.in_flight() == 0 {
            self.release(&mut seq);
        } else {
            self.draining.push(seq);
        }
    }

    fn finished(&mut self, seq: &Sequence, reason: FinishReason, now: Duration) {
        self.note_ended(seq, &reason);
        let usage = seq.usage();
        let counted = match reason {
            FinishReason::Stop | FinishReason::StopToken(_) => FinishedReason::Stop,
            FinishReason::Length => FinishedReason::Length,
            FinishReason::Repetition => FinishedReason::Repetition,
            FinishReason::Cancelled => FinishedReason::Abort,
            FinishReason::Error(_) => FinishedReason::Error,
        };
        if !matches!(counted, FinishedReason::Abort | FinishedReason::Error) && seq.generates() {
            self.answers.add(usage.completion_tokens as f64);
        }
        seq.times.finished(now, counted, &mut self.metrics);
        self.events.push(Event::Finished { id: seq.id, reason, usage });
    }

    /// How many of the first `computed` tokens later rows can attend to, in all groups of layers.
    fn visible(&self, computed: usize) -> usize {
        let seen = |Window { sinks, tokens }: Window| computed.min(sinks + tokens);
        self.capacity.groups.windows().map(|window| window.map_or(computed, seen)).sum()
    }
}
