//! The engine: requests in, tokens out, over any executor.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    rc::Rc,
    time::Duration,
};

use futures::{FutureExt, future::LocalBoxFuture};

pub use crate::sampling::ThinkingBudget;
pub use crate::scheduler::{
    Ended, Event, FinishReason, Goal, Options, PinId, Policy, Repetition, Request, RequestId,
    TabId, Usage,
};

use crate::{
    Error, Result,
    metrics::Metrics,
    sampling::Constraint,
    scheduler::Scheduler,
    speculate::Proposer,
    step::{Capacity, EntryBlocks, Executor, StepPlan, StepResult},
};

/// The time since a fixed but arbitrary moment.
pub type Clock = Box<dyn Fn() -> Duration>;

/// A clock that starts now and never goes backwards.
pub fn steady_clock() -> Clock {
    let start = web_time::Instant::now();
    Box::new(move || start.elapsed())
}

/// Serves requests in batches on one executor.
///
/// Call [`Engine::step`] until [`Engine::is_idle`]; submit and cancel between the calls. Whoever drives
/// several engines on one device calls [`Engine::begin_step`] and [`Engine::end_step`] in its place. After
/// the executor has failed, the engine is closed and every call returns [`Error::Closed`].
pub struct Engine<E> {
    executor: E,
    scheduler: Scheduler,
    clock: Clock,
    /// Steps that are submitted but not committed, oldest first.
    in_flight: VecDeque<Submitted>,
    /// When the device last ended a step, of this engine or of another.
    freed: Duration,
    closed: bool,
    /// Steps that have ended.
    steps: u64,
}

struct Submitted {
    plan: StepPlan,
    at: Duration,
}

impl<E: Executor> Engine<E> {
    /// An engine without requests.
    pub fn new(executor: E, options: Options, clock: Clock) -> Engine<E> {
        let scheduler = Scheduler::new(executor.capacity(), options);
        let mut scheduler = scheduler.with_device_drafts(executor.drafts(), executor.lookahead());
        if executor.depth() == 1 {
            scheduler = scheduler.with_short_steps();
        }
        Engine {
            executor,
            scheduler,
            clock,
            in_flight: VecDeque::new(),
            freed: Duration::ZERO,
            closed: false,
            steps: 0,
        }
    }

    /// The same engine with another proposer in place of prompt lookup.
    pub fn with_proposer(self, proposer: Rc<dyn Proposer>) -> Engine<E> {
        Engine { scheduler: self.scheduler.with_proposer(proposer), ..self }
    }

    /// Queues a request. Its events come from [`Engine::step`]; the last is [`Event::Finished`].
    ///
    /// # Errors
    /// - [`Error::InvalidRequest`]: a parameter is out of range, the prompt is empty, or a token is
    ///   beyond the vocabulary; a request to embed or score a prompt has [`Request::answered`] tokens.
    /// - [`Error::ContextLengthExceeded`]: the prompt leaves no room for an answer.
    /// - [`Error::NoTokenAllowed`]: the request's limits exclude every token at the first position.
    /// - [`Error::QueueFull`]: too many requests wait.
    /// - [`Error::Closed`].
    pub fn submit(&mut self, request: Request) -> Result<RequestId> {
        let now = (self.clock)();
        self.open()?.submit(request, now)
    }

    /// Queues `n` requests that differ only in their seeds: seed, seed + 1, … They share the prefill and
    /// the KV blocks of their prompt. All continue after the same [`Request::answered`].
    ///
    /// # Errors
    /// As for [`Engine::submit`], for all of them or none.
    pub fn submit_many(&mut self, request: Request, n: usize) -> Result<Vec<RequestId>> {
        let now = (self.clock)();
        self.open()?.submit_many(request, n, now)
    }

    /// Sets the constraint that a request with [`Request::constrained`] waits for. Does nothing if the
    /// request has ended.
    pub fn constrain(&mut self, id: RequestId, constraint: Box<dyn Constraint>) {
        self.scheduler.constrain(id, constraint, (self.clock)());
    }

    /// Cancels a request: it ends with [`FinishReason::Cancelled`] and generates no more tokens. Does
    /// nothing if it has ended.
    pub fn cancel(&mut self, id: RequestId) {
        self.scheduler.finish(id, FinishReason::Cancelled, (self.clock)());
    }

    /// Ends a request, as when a stop string is found in its text: it ends with [`FinishReason::Stop`]
    /// and generates no more tokens. Does nothing if it has ended.
    pub fn finish(&mut self, id: RequestId) {
        self.scheduler.finish(id, FinishReason::Stop, (self.clock)());
    }

    /// Holds or releases a request. While it is held, nothing is computed for it; the steps in flight, at
    /// most [`Executor::depth`], may still produce tokens. It is preempted first when others need its KV
    /// blocks, which are recomputed after its release. Does nothing if the request has ended.
    pub fn hold(&mut self, id: RequestId, held: bool) {
        self.scheduler.hold(id, held);
    }

    /// Sets whether a tab is visible: visible tabs are served first.
    pub fn set_visible(&mut self, tab: TabId, visible: bool) {
        self.scheduler.set_visible(tab, visible);
    }

    /// Cancels all requests of a tab and removes it.
    pub fn close_tab(&mut self, tab: TabId) {
        self.scheduler.close_tab(tab, (self.clock)());
    }

    /// Keeps a computed prefix, such as a system prompt, in the prefix cache until [`Engine::unpin`], or
    /// until the only running request needs its blocks. Returns `None` if not even the first block is
    /// cached.
    pub fn pin(&mut self, prefix: &[u32], salt: u64) -> Option<PinId> {
        self.scheduler.pin(prefix, salt)
    }

    /// Unpins a prefix. Does nothing if it is not pinned any more.
    pub fn unpin(&mut self, pin: PinId) {
        self.scheduler.unpin(pin);
    }

    /// Clears the prefix cache. While blocks are in use, by pins or by running requests, it clears nothing
    /// and returns false. With `interrupt` it preempts the running requests, which takes effect once the
    /// next step has ended; call again then.
    pub fn reset_prefix_cache(&mut self, interrupt: bool) -> bool {
        self.scheduler.reset_prefix_cache(interrupt)
    }

    /// Submits steps up to the executor's depth, waits for the oldest one and returns the events, in order.
    ///
    /// If the executor fails, every request ends with its error and the engine is closed.
    ///
    /// # Errors
    /// [`Error::Closed`], once the events of the failure have been returned.
    pub async fn step(&mut self) -> Result<Vec<Event>> {
        self.open()?;
        while self.begin_step() {}
        self.end_step(async || {}).await;
        Ok(self.take_events())
    }

    /// Most steps in flight.
    pub fn depth(&self) -> usize {
        self.executor.depth()
    }

    /// Submits a step, if there is something to compute and room for it in flight. Returns whether it did.
    ///
    /// If the executor fails, every request ends with its error and the engine is closed.
    pub fn begin_step(&mut self) -> bool {
        let is_full = self.in_flight.len() >= self.executor.depth();
        let behind_a_long_one =
            self.in_flight.back().is_some_and(|last| self.scheduler.is_long(&last.plan));
        if self.closed || is_full || behind_a_long_one {
            return false;
        }
        let at = (self.clock)();
        let plan = self.scheduler.plan(at);
        if plan.is_empty() {
            return false;
        }
        match self.executor.submit(&plan) {
            Ok(()) => self.in_flight.push_back(Submitted { plan, at }),
            Err(error) => self.close(&error),
        }
        !self.closed
    }

    /// Waits for the oldest step in flight, if there is one, and takes its result. Returns the time that
    /// the device took for it. A failure has the consequences that it has in [`Engine::begin_step`].
    /// `turn`: see [`Executor::result`].
    pub async fn end_step(&mut self, turn: impl AsyncFn()) -> Duration {
        let mut took = Duration::ZERO;
        if !self.in_flight.is_empty() {
            match self.executor.result(turn).await {
                Ok(result) => took = self.commit(&result),
                Err(error) => self.close(&error),
            }
        }
        if cfg!(debug_assertions) {
            self.check_integrity();
        }
        took
    }

    /// Checks the scheduler after a step: after each with a small cache, after one in many and the last with a
    /// large one, as a check takes time for each block.
    fn check_integrity(&mut self) {
        let blocks = self.executor.capacity().blocks as u64;
        if self.steps.is_multiple_of(1 + blocks / 100) || self.is_idle() {
            self.scheduler.check_integrity(self.in_flight.iter().map(|submitted| &submitted.plan));
        }
        self.steps += 1;
    }

    /// Notes that the device has just ended another engine's step: the steps of this one that are in flight
    /// begin no earlier.
    pub fn device_was_busy(&mut self) {
        self.freed = (self.clock)();
    }

    /// The events since the last step: the ends of requests that were cancelled or finished since.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.scheduler.take_events()
    }

    /// Whether [`Engine::step`] has nothing to do and no events: no request is left, or only those that
    /// are held or wait for their constraint.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Whether the executor has failed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// A snapshot of the counters and the current state.
    pub fn metrics(&self) -> Metrics {
        self.scheduler.metrics()
    }

    /// Keeps the tokens of requests with this salt when they end, for [`Engine::take_ended`].
    pub fn note_ended_of(&mut self, salt: u64) {
        self.scheduler.note_ended_of(salt);
    }

    /// The requests that have ended since, with prompt and answer.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        self.scheduler.take_ended()
    }

    /// Tokens of the longest prefix that is cached, on the device or in host memory.
    pub fn cached(&self, tokens: &[u32], salt: u64) -> usize {
        self.scheduler.cached(tokens, salt)
    }

    /// The device blocks of the longest prefix that is cached on the device, `[entries][groups]`.
    pub fn on_device(&self, tokens: &[u32], salt: u64) -> Vec<Option<u32>> {
        self.scheduler.on_device(tokens, salt)
    }

    /// Reads blocks of some entries, as [`Engine::on_device`] has just given them, from `first_entry` on; `None`
    /// while another read is not over. Steps go on meanwhile.
    pub fn read_entries(
        &mut self,
        first_entry: usize,
        found: &[Option<u32>],
    ) -> Option<LocalBoxFuture<'static, Result<EntryBlocks>>> {
        let blocks: Vec<u32> = found.iter().copied().flatten().collect();
        let read = self.executor.read_blocks(&blocks)?;
        let present = found.iter().map(Option::is_some).collect();
        let read = async move { Ok(EntryBlocks { first_entry, present, words: read.await? }) };
        Some(read.boxed_local())
    }

    /// Puts blocks of a tab's prompt that were stored into host memory, where requests find them.
    pub fn adopt(&mut self, tab: TabId, tokens: &[u32], salt: u64, blocks: &EntryBlocks) {
        let groups = self.executor.capacity().groups.count();
        let (places, contents): (Vec<_>, Vec<_>) = blocks.blocks(groups).unzip();
        let host_blocks = self.scheduler.adopt(tokens, salt, &places);
        let mut adopted = BTreeSet::new();
        for ((block, words), (entry, _)) in host_blocks.into_iter().zip(contents).zip(places) {
            let Some(block) = block else { continue };
            if self.executor.set_host_block(block, words) {
                adopted.insert(entry);
            } else {
                self.scheduler.disown(block);
            }
        }
        self.scheduler.count_stored(tab, adopted.len());
    }

    /// Entries of a block table whose blocks fit host memory together.
    pub fn host_entries(&self) -> usize {
        let Capacity { host, groups, .. } = self.executor.capacity();
        host.blocks / groups.count()
    }

    /// Time to compute a token of a prompt, once a step has shown it.
    pub fn row_time(&self) -> Option<Duration> {
        self.scheduler.row_time()
    }

    fn open(&mut self) -> Result<&mut Scheduler> {
        if self.closed { Err(Error::Closed) } else { Ok(&mut self.scheduler) }
    }

    fn commit(&mut self, result: &StepResult) -> Duration {
        let Some(Submitted { plan, at }) = self.in_flight.pop_front() else {
            return Duration::ZERO;
        };
        let now = (self.clock)();
        // A step starts when the previous one has ended.
        let took = now.saturating_sub(at.max(self.freed));
        self.freed = now;
        self.scheduler.commit(&plan, result, took, now);
        took
    }

    fn close(&mut self, error: &Error) {
        self.closed = true;
        self.in_flight.clear();
        self.scheduler.abort(error, (self.clock)());
    }
}

impl<E: fmt::Debug> fmt::Debug for Engine<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Engine { executor, scheduler, .. } = self;
        let mut debug = f.debug_struct("Engine");
        debug.field("executor", executor).field("scheduler", scheduler).finish_non_exhaustive()
    }
}
