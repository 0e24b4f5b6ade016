//! The engine: requests in, tokens out, over any executor.

use std::collections::VecDeque;

pub use crate::scheduler::{Event, FinishReason, Goal, Request, RequestId, TabId, Usage};

use crate::{
    Error, Result,
    metrics::Metrics,
    scheduler::Scheduler,
    step::{Executor, StepPlan},
};

/// Serves requests in batches on one executor.
///
/// Call [`Engine::step`] until [`Engine::is_idle`]; submit and cancel between
/// the calls. After an executor has failed the engine is closed and answers
/// everything with [`Error::Closed`].
#[derive(Debug)]
pub struct Engine<E> {
    executor: E,
    scheduler: Scheduler,
    /// Steps submitted and not committed, the oldest first.
    in_flight: VecDeque<StepPlan>,
    /// What happened since the last call of [`Engine::step`] returned.
    events: Vec<Event>,
    closed: bool,
}

impl<E: Executor> Engine<E> {
    /// An engine without requests.
    pub fn new(executor: E) -> Engine<E> {
        let scheduler = Scheduler::new(executor.capacity());
        Engine {
            executor,
            scheduler,
            in_flight: VecDeque::new(),
            events: Vec::new(),
            closed: false,
        }
    }

    /// Queues a request. Its events come from [`Engine::step`]; the last is [`Event::Finished`].
    ///
    /// # Errors
    /// - [`Error::InvalidRequest`]: the prompt is empty or has ids beyond the vocabulary, or
    ///   `max_tokens` is 0.
    /// - [`Error::ContextLengthExceeded`]: the prompt leaves no room for an answer.
    /// - [`Error::Closed`].
    pub fn submit(&mut self, request: Request) -> Result<RequestId> {
        if self.closed {
            return Err(Error::Closed);
        }
        self.scheduler.submit(request)
    }

    /// Gives a request up: it ends with [`FinishReason::Cancelled`] and makes no more tokens. Does
    /// nothing if it has ended.
    pub fn cancel(&mut self, id: RequestId) {
        self.events.extend(self.scheduler.finish(id, FinishReason::Cancelled));
    }

    /// Calls an answer complete, as when a stop string is found in its text: it ends with
    /// [`FinishReason::Stop`] and makes no more tokens. Does nothing if it has ended.
    pub fn finish(&mut self, id: RequestId) {
        self.events.extend(self.scheduler.finish(id, FinishReason::Stop));
    }

    /// Keeps the executor supplied, waits for its oldest step and returns what happened, in order.
    ///
    /// If the executor fails, every request ends with its error and the engine is closed.
    ///
    /// # Errors
    /// [`Error::Closed`], once the events of the failure have been returned.
    pub async fn step(&mut self) -> Result<Vec<Event>> {
        if self.closed {
            return Err(Error::Closed);
        }
        if let Err(error) = self.advance().await {
            self.closed = true;
            self.in_flight.clear();
            self.events.extend(self.scheduler.abort(&error));
        }
        if cfg!(debug_assertions) {
            self.scheduler.check_integrity();
        }
        Ok(std::mem::take(&mut self.events))
    }

    /// Whether [`Engine::step`] has nothing to do and nothing to tell.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle() && self.events.is_empty()
    }

    /// A snapshot of the counters and of the state now.
    pub fn metrics(&self) -> Metrics {
        self.scheduler.metrics()
    }

    async fn advance(&mut self) -> Result<()> {
        while self.in_flight.len() < E::DEPTH {
            let plan = self.scheduler.plan();
            if plan.seqs.is_empty() {
                break;
            }
            self.executor.submit(&plan)?;
            self.in_flight.push_back(plan);
        }
        if !self.in_flight.is_empty() {
            let result = self.executor.result().await?;
            if let Some(plan) = self.in_flight.pop_front() {
                self.events.extend(self.scheduler.commit(&plan, &result));
            }
        }
        Ok(())
    }
}
