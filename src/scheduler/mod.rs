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
mod drafting;
mod options;
mod pace;
mod queue;
mod repetition;
mod request;
mod sequence;
mod state;
#[cfg(test)]
mod tests;

pub use self::{
    options::{Options, Policy},
    repetition::Repetition,
    request::{Event, FinishReason, Goal, PinId, Request, RequestId, TabId, Usage},
    state::Scheduler,
};

use std::time::Duration;

use self::{admission::Room, sequence::Sequence};
use crate::{
    Error, Result,
    metrics::{FinishedReason, Metrics},
    sampling::Constraint,
    step::{BLOCK_SIZE, Sample, StepPlan, StepResult, Window},
};

/// What is left of a step's limits while it is planned.
struct Budget {
    rows: usize,
    /// Rows that drafts may take of them: those that decoders leave, or half where a prompt waits.
    drafts: usize,
    /// Rows whose logits are computed.
    logit_rows: usize,
    /// Rows that one prompt may take.
    chunk: usize,
    /// Sequences still to be planned; each may need the logits of one row.
    to_come: usize,
}

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
        let (limit, vocab) = (self.capacity.longest(), self.capacity.vocab);
        let first = RequestId(self.submitted);
        let twin = |i: u64| {
            let mut twin = request.clone();
            twin.sampling.seed = request.sampling.seed.wrapping_add(i);
            let mut seq = Sequence::new(RequestId(first.0 + i), twin, limit, vocab, now);
            seq.check_limits()?;
            seq.acceptance = self.acceptance.clone();
            seq.device_acceptance = self.device_acceptance.clone();
            seq.twin_of = (i > 0 && seq.may_skip_rows()).then_some(first);
            Ok(seq)
        };
        let twins = (0..n as u64).map(twin).collect::<Result<Vec<Sequence>>>()?;
        self.submitted += n as u64;
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
        let running = self.running.iter_mut().find(|seq| seq.id == id);
        let seq = running.or_else(|| self.queue.get_mut(id));
        if let Some(reason) = seq.and_then(|seq| seq.constrain(constraint)) {
            self.finish(id, reason, now);
        }
    }

    /// Holds a request, or releases it. A held request gets no rows, but steps in flight may still add
    /// tokens. It keeps its place, and its blocks until others need them. Does nothing if it has ended.
    pub fn hold(&mut self, id: RequestId, held: bool) {
        let running = self.running.iter_mut().find(|seq| seq.id == id);
        let seq = running.or_else(|| self.queue.get_mut(id)).filter(|seq| seq.held != held);
        let Some(seq) = seq else { return };
        seq.held = held;
        let tab = seq.tab;
        if held { self.queue.leave(tab) } else { self.queue.enter(tab) }
    }

    /// Chooses the rows of the next step. The plan is empty if there is nothing to compute before a
    /// step in flight is over.
    pub fn plan(&mut self, now: Duration) -> StepPlan {
        let mut plan = StepPlan::default();
        // A step reads all weights, for one sequence as for many: so sequences decode together, and no
        // step is planned behind one whose tokens somebody waits for.
        if self.running.iter().any(|seq| seq.in_flight > 0 && seq.may_run() && seq.waits()) {
            return plan;
        }
        let rows = self.pace.rows();
        // One waiting request may be admitted.
        let to_come = self.running.len() + usize::from(self.queue.len() > 0);
        let logit_rows = self.capacity.logit_rows;
        let mut may_admit = true;
        let decoding = self.order(Sequence::decodes);
        let spare = rows.saturating_sub(decoding.len());
        let computes = |seq: &Sequence| !seq.decodes() && seq.remaining() > 0;
        let prompts = self.running.iter().any(computes) || self.queue.iter().any(Sequence::may_run);
        let drafts = if prompts { spare / 2 } else { spare };
        let mut budget = Budget { rows, drafts, logit_rows, chunk: rows, to_come };
        for &id in &decoding {
            match self.extend(id, &mut budget, &mut plan, now) {
                Room::Found => {}
                // Nobody is admitted in a step in which somebody lacks memory.
                Room::Later | Room::Gone => may_admit = false,
            }
        }
        may_admit &= self.running.iter().all(|seq| !seq.preempting);
        // Newly admitted requests share the rows for prefill.
        while may_admit && budget.rows > 0 && self.admit(now) {}
        budget.chunk = self.chunk(budget.rows);
        for id in self.order(|seq| !decoding.contains(&seq.id)) {
            self.extend(id, &mut budget, &mut plan, now);
        }
        // Without rows there is no step.
        if !plan.seqs.is_empty() {
            plan.copies = std::mem::take(&mut self.copies);
        }
        plan
    }

    /// Whether a step takes so long that no other should be queued behind it: a new request would wait
    /// for both, and the pause between them hardly matters.
    pub fn is_long(&self, plan: &StepPlan) -> bool {
        self.pace.is_long(plan.rows())
    }

    /// Processes the result of a planned step. `took` is the time from its submission, or from the
    /// result before it if that came later, to its result. Steps are committed in the order of their
    /// plans.
    pub fn commit(&mut self, plan: &StepPlan, result: &StepResult, took: Duration, now: Duration) {
        let computed = result.device_nanos.map_or(took, Duration::from_nanos);
        self.pace.observe(plan.rows(), computed);
        self.metrics.stepped(plan.rows(), computed);
        self.learn_costs(plan, &result.samples, took, now);
        let mut samples = result.samples.iter().peekable();
        let mut scores = result.scores.iter().cloned();
        let mut embeddings = result.embeddings.iter().cloned();
        let mut due = Vec::new();
        for rows in &plan.seqs {
            let count = rows.tokens.count();
            let mine = |sample: &&Sample| sample.slot == rows.slot;
            let sampled: Vec<&Sample> =
                (0..rows.sampled()).map_while(|_| samples.next_if(mine)).collect();
            let (drafted, accepted) = (rows.drafts.len(), sampled.len().saturating_sub(1));
            let scored = if rows.score.is_some() { count } else { 0 };
            let scores: Vec<_> = scores.by_ref().take(scored).collect();
            let embedding = rows.pool.filter(|pool| pool.last).and_then(|_| embeddings.next());
            let holds_slot = |seq: &Sequence| seq.slot == rows.slot;
            if let Some(at) = self.running.iter().position(holds_slot) {
                let seq = &mut self.running[at];
                if self.options.max_drafts > 0 && seq.may_speculate() && !sampled.is_empty() {
                    // The acceptance rate of prompt lookup is measured on all sampled tokens, whoever
                    // drafted them.
                    let proposed = self.drafter.propose(seq.tokens(), sampled.len());
                    let matched = proposed
                        .iter()
                        .zip(&sampled)
                        .take_while(|(proposed, came)| **proposed == came.token);
                    let matched = matched.count();
                    seq.acceptance.observe(proposed.len(), matched);
                    self.acceptance.observe(proposed.len(), matched);
                }
                if drafted > 0 {
                    if rows.drafts[0].token.is_none() {
                        seq.device_acceptance.observe(drafted, accepted);
                        let all = &mut self.device_acceptance;
                        let all = match seq.reads_late {
                            true => self.late_acceptance.get_or_insert_with(|| all.clone()),
                            false => all,
                        };
                        all.observe(drafted, accepted);
                    }
                    self.metrics.verified(seq.tab.0, drafted, accepted);
                }
                if seq.verify(rows, accepted) {
                    self.metrics.prefilled(seq.tab.0, seq.prompt().len());
                }
                let mut ended = None;
                let bad = scores.iter().filter(|score| score.chosen.is_nan()).count() as u32;
                if bad > 0 {
                    ended = Some(FinishReason::Error(Error::Numerical { count: bad }));
                } else if let Some(logprobs) = seq.score(scores) {
                    self.events.push(Event::PromptLogprobs { id: seq.id, logprobs });
                }
                if let Some(vector) = embedding {
                    let not_finite = vector.iter().filter(|value| !value.is_finite()).count();
                    ended = Some(match not_finite as u32 {
                        0 => FinishReason::Stop,
                        count => FinishReason::Error(Error::Numerical { count }),
                    });
                    if not_finite == 0 {
                        self.events.push(Event::Embedding { id: seq.id, vector });
                    }
                }
                for (place, sample) in sampled.into_iter().enumerate() {
                    let drafted = place < accepted;
                    let (is_answer, reason) = seq.accept(sample, drafted);
                    if sample.not_finite == 0 {
                        seq.times.token(now, &mut self.metrics);
                        self.metrics.generated(seq.tab.0);
                    }
                    if is_answer {
                        let (token, logprobs) = (sample.token, sample.logprobs.clone());
                        self.events.push(Event::Token { id: seq.id, token, logprobs, drafted });
                    }
                    ended = reason;
                    if ended.is_some() {
                        break;
                    }
                }
                let verified = seq.verified();
                let (table, tokens) = seq.table_and_tokens();
                match ended {
                    // Whichever block it comes from, nobody else is to find it.
                    Some(FinishReason::Error(Error::Numerical { .. })) => self.cache.retract(table),
                    _ => self.cache.publish(table, &tokens[..verified]),
                }
                self.cache.retire(&mut seq.table, verified);
                if let Some(reason) = ended {
                    self.finish_running(at, reason, now);
                } else if seq.preempting && seq.in_flight == 0 {
                    self.preempt(at);
                } else {
                    due.push(self.running[at].id);
                }
            } else if let Some(at) = self.draining.iter().position(holds_slot) {
                self.draining[at].in_flight -= 1;
                if self.draining[at].in_flight == 0 {
                    let mut seq = self.draining.swap_remove(at);
                    self.release(&mut seq);
                }
            }
        }
        self.draft(&due);
        if self.running.is_empty() {
            self.last_step = None;
        }
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
        fresh.drafter = self.drafter.clone();
        fresh = fresh.with_device_drafts(self.device_drafts);
        *self = fresh;
    }

    /// The events since the last call, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Whether there is nothing to do: each live request is held or waits for its constraint, no step
    /// in flight is left to commit, and no event is left to take.
    pub fn is_idle(&self) -> bool {
        let idle = |seq: &Sequence| seq.rests() && seq.in_flight == 0;
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

    /// Checks that every block and slot is either free or held by what the tables say.
    ///
    /// # Panics
    /// If that does not hold, which is a defect.
    pub fn check_integrity(&self) {
        let sequences = || self.running.iter().chain(&self.draining).chain(self.queue.iter());
        self.cache.check_integrity(sequences().map(|seq| &seq.table), self.pins.values());

        let held = self.running.iter().chain(&self.draining).map(|seq| seq.slot);
        let mut slots: Vec<u32> = held.chain(self.free_slots.iter().copied()).collect();
        slots.sort_unstable();
        let all = self.options.max_running.min(self.capacity.seqs) as u32;
        assert!(slots.into_iter().eq(0..all), "a slot is lost or held twice");
    }

    /// Rows of a step that one prompt may take, of `rows` that are left.
    fn chunk(&self, rows: usize) -> usize {
        let contenders = self.running.iter().filter(|seq| seq.remaining() > 0).count();
        if contenders < 2 {
            return rows;
        }
        let share = if self.options.adaptive_threshold { rows / contenders } else { 0 };
        self.options.long_prefill_threshold.max(share)
    }

    /// The running sequences that are `due`, in the order in which they get rows: by tab, then by
    /// policy.
    fn order(&self, due: impl Fn(&Sequence) -> bool) -> Vec<RequestId> {
        let mut order: Vec<&Sequence> = self.running.iter().filter(|seq| due(seq)).collect();
        order.sort_by_cached_key(|seq| (self.queue.standing(seq.tab), self.queue.rank(seq)));
        order.into_iter().map(|seq| seq.id).collect()
    }

    /// Adds rows of a running sequence to the plan, as far as the budget allows.
    fn extend(
        &mut self,
        id: RequestId,
        budget: &mut Budget,
        plan: &mut StepPlan,
        now: Duration,
    ) -> Room {
        budget.to_come = budget.to_come.saturating_sub(1);
        let mut may_draft = true;
        loop {
            let Some(at) = self.running.iter().position(|seq| seq.id == id) else {
                return Room::Gone;
            };
            let others = self.running.len() - 1;
            let seq = &mut self.running[at];
            let mut count = seq.remaining().min(budget.chunk).min(budget.rows);
            if seq.scores_rows() {
                // The others sample, or will.
                let spare = budget.logit_rows.saturating_sub(others).max(1);
                count = count.min(spare).min(budget.logit_rows);
            } else if budget.logit_rows == 0 {
                count = 0;
            }
            if count == 0 || seq.preempting {
                return Room::Found;
            }
            let mut drafts = seq.drafts().min(budget.rows - count).min(budget.drafts);
            drafts = drafts.min(budget.logit_rows.saturating_sub(1 + budget.to_come));
            if !may_draft || count < seq.remaining() {
                drafts = 0;
            }
            let length = seq.reach(count + drafts);
            if !self.cache.reserve(&mut seq.table, length) {
                if drafts > 0 {
                    may_draft = false;
                    continue;
                }
                match self.make_room() {
                    Room::Found => continue,
                    room => return room,
                }
            }
            match seq.advance(count, drafts) {
                Ok(rows) => {
                    budget.rows -= rows.rows();
                    budget.drafts -= rows.drafts.len();
                    let scored = if rows.score.is_some() { count } else { 0 };
                    budget.logit_rows -= scored.max(rows.sampled());
                    self.queue.charge(seq.tab, rows.rows());
                    plan.seqs.push(rows);
                }
                Err(error) => self.finish_running(at, FinishReason::Error(error), now),
            }
            return Room::Found;
        }
    }

    fn finish_running(&mut self, at: usize, reason: FinishReason, now: Duration) {
        let mut seq = self.running.remove(at);
        self.finished(&seq, reason, now);
        if seq.in_flight == 0 {
            self.release(&mut seq);
        } else {
            self.draining.push(seq);
        }
    }

    fn finished(&mut self, seq: &Sequence, reason: FinishReason, now: Duration) {
        if !seq.held {
            self.queue.leave(seq.tab);
        }
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

    /// How many of the first `computed` tokens later rows can attend to.
    fn visible(&self, computed: usize) -> usize {
        let visible = |window: Window| window.sinks + window.tokens;
        self.capacity.window.map_or(computed, |window| computed.min(visible(window)))
    }
}
