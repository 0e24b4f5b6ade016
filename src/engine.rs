//! The engine: requests in, tokens out, over any executor.

use std::{collections::VecDeque, fmt, rc::Rc, time::Duration};

pub use crate::sampling::ThinkingBudget;
pub use crate::scheduler::{
    Event, FinishReason, Goal, Options, PinId, Policy, Repetition, Request, RequestId, TabId, Usage,
};

use crate::{
    Error, Result,
    metrics::Metrics,
    sampling::Constraint,
    scheduler::Scheduler,
    speculate::Drafter,
    step::{Executor, StepPlan},
};

/// Tells the time since any moment, always the same one.
pub type Clock = Box<dyn Fn() -> Duration>;

/// The time since now, by the platform's steady clock.
pub fn steady_clock() -> Clock {
    let start = web_time::Instant::now();
    Box::new(move || start.elapsed())
}

/// Serves requests in batches on one executor.
///
/// Call [`Engine::step`] until [`Engine::is_idle`]; submit and cancel between
/// the calls. After an executor has failed the engine is closed and answers
/// everything with [`Error::Closed`].
pub struct Engine<E> {
    executor: E,
    scheduler: Scheduler,
    clock: Clock,
    /// Steps submitted and not committed, the oldest first.
    in_flight: VecDeque<Submitted>,
    /// When the last step was committed.
    committed: Duration,
    closed: bool,
}

struct Submitted {
    plan: StepPlan,
    at: Duration,
}

impl<E: Executor> Engine<E> {
    /// An engine without requests.
    pub fn new(executor: E, options: Options, clock: Clock) -> Engine<E> {
        let scheduler = Scheduler::new(executor.capacity(), options);
        let scheduler = scheduler.with_device_drafts(executor.drafts());
        Engine {
            executor,
            scheduler,
            clock,
            in_flight: VecDeque::new(),
            committed: Duration::ZERO,
            closed: false,
        }
    }

    /// The same engine with another drafter than prompt lookup.
    pub fn with_drafter(self, drafter: Rc<dyn Drafter>) -> Engine<E> {
        Engine { scheduler: self.scheduler.with_drafter(drafter), ..self }
    }

    /// Queues a request. Its events come from [`Engine::step`]; the last is [`Event::Finished`].
    ///
    /// # Errors
    /// - [`Error::InvalidRequest`]: a parameter is out of range, the prompt is empty, or a token is
    ///   beyond the vocabulary; an embedding or scored prompt has an answer already.
    /// - [`Error::ContextLengthExceeded`]: the prompt leaves no room for an answer.
    /// - [`Error::NoTokenAllowed`]: the request's limits leave no token to begin with.
    /// - [`Error::QueueFull`]: too many requests wait.
    /// - [`Error::Closed`].
    pub fn submit(&mut self, request: Request) -> Result<RequestId> {
        let now = (self.clock)();
        self.open()?.submit(request, now)
    }

    /// Queues `n` requests that differ in their seeds alone: seed, seed + 1, … They share the
    /// computation and the blocks of their prompt. All go on after the same [`Request::answered`].
    ///
    /// # Errors
    /// As for [`Engine::submit`], for all of them or none.
    pub fn submit_many(&mut self, request: Request, n: usize) -> Result<Vec<RequestId>> {
        let now = (self.clock)();
        self.open()?.submit_many(request, n, now)
    }

    /// Brings the constraint that a request announced with [`Request::constrained`]. Does nothing if
    /// the request has ended.
    pub fn constrain(&mut self, id: RequestId, constraint: Box<dyn Constraint>) {
        self.scheduler.constrain(id, constraint, (self.clock)());
    }

    /// Gives a request up: it ends with [`FinishReason::Cancelled`] and makes no more tokens. Does
    /// nothing if it has ended.
    pub fn cancel(&mut self, id: RequestId) {
        self.scheduler.finish(id, FinishReason::Cancelled, (self.clock)());
    }

    /// Calls an answer complete, as when a stop string is found in its text: it ends with
    /// [`FinishReason::Stop`] and makes no more tokens. Does nothing if it has ended.
    pub fn finish(&mut self, id: RequestId) {
        self.scheduler.finish(id, FinishReason::Stop, (self.clock)());
    }

    /// Holds a request, or releases it: while it is held, nothing is computed for it. The steps in
    /// flight, of which there are at most [`Executor::depth`], may still bring it tokens. When others need its
    /// blocks it gives them up first, to be computed again after its release. Does nothing if the
    /// request has ended.
    pub fn hold(&mut self, id: RequestId, held: bool) {
        self.scheduler.hold(id, held);
    }

    /// Says whether a tab can be seen: those that can are served before those that cannot.
    pub fn set_visible(&mut self, tab: TabId, visible: bool) {
        self.scheduler.set_visible(tab, visible);
    }

    /// Cancels all requests of a tab and forgets it.
    pub fn close_tab(&mut self, tab: TabId) {
        self.scheduler.close_tab(tab, (self.clock)());
    }

    /// Keeps a prefix that has been computed, a system prompt say, in the cache until
    /// [`Engine::unpin`], or until a request that runs alone could not go on otherwise. None if not
    /// even its first block is cached.
    pub fn pin(&mut self, prefix: &[u32], salt: u64) -> Option<PinId> {
        self.scheduler.pin(prefix, salt)
    }

    /// Lets go of a prefix. Does nothing if it is not pinned any more.
    pub fn unpin(&mut self, pin: PinId) {
        self.scheduler.unpin(pin);
    }

    /// Forgets all cached prefixes. Returns false, and forgets nothing, while blocks are in use: by
    /// pins, or by running requests. If it may `interrupt`, those are computed again later, from the
    /// next step on that is over; ask again then.
    pub fn reset_prefix_cache(&mut self, interrupt: bool) -> bool {
        self.scheduler.reset_prefix_cache(interrupt)
    }

    /// Keeps the executor supplied, waits for its oldest step and returns what happened, in order.
    ///
    /// If the executor fails, every request ends with its error and the engine is closed.
    ///
    /// # Errors
    /// [`Error::Closed`], once the events of the failure have been returned.
    pub async fn step(&mut self) -> Result<Vec<Event>> {
        self.open()?;
        if let Err(error) = self.advance().await {
            self.closed = true;
            self.in_flight.clear();
            self.scheduler.abort(&error, (self.clock)());
        }
        if cfg!(debug_assertions) {
            self.scheduler.check_integrity();
        }
        Ok(self.scheduler.take_events())
    }

    /// Whether [`Engine::step`] has nothing to do and nothing to tell: no request is left, or only
    /// held ones and those that have nothing but their constraint to wait for.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Whether the executor has failed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// A snapshot of the counters and of the state now.
    pub fn metrics(&self) -> Metrics {
        self.scheduler.metrics()
    }

    fn open(&mut self) -> Result<&mut Scheduler> {
        if self.closed { Err(Error::Closed) } else { Ok(&mut self.scheduler) }
    }

    async fn advance(&mut self) -> Result<()> {
        while self.in_flight.len() < self.executor.depth()
            && !self.in_flight.back().is_some_and(|last| self.scheduler.is_long(&last.plan))
        {
            let at = (self.clock)();
            let plan = self.scheduler.plan(at);
            if plan.seqs.is_empty() {
                break;
            }
            self.executor.submit(&plan)?;
            self.in_flight.push_back(Submitted { plan, at });
        }
        if self.in_flight.is_empty() {
            return Ok(());
        }
        let result = self.executor.result().await?;
        if let Some(Submitted { plan, at }) = self.in_flight.pop_front() {
            let now = (self.clock)();
            // A step begins when the one before it is over.
            let took = now.saturating_sub(at.max(self.committed));
            self.committed = now;
            self.scheduler.commit(&plan, &result, took, now);
        }
        Ok(())
    }
}

impl<E: fmt::Debug> fmt::Debug for Engine<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Engine { executor, scheduler, .. } = self;
        let mut debug = f.debug_struct("Engine");
        debug.field("executor", executor).field("scheduler", scheduler).finish_non_exhaustive()
    }
}
