//! A client of the engine that knows what each request must get.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use pollster::block_on;
use tabloom::{
    Error,
    engine::{
        Clock, Ended, Engine, Event, FinishReason, Goal, Options, PinId, Request, RequestId, TabId,
    },
    step::{BLOCK_SIZE, EntryBlocks, Executor, KvGroups, MAX_DRAFTS, Window},
};

/// The salt of requests that are stored.
const SALT: u64 = 0;

use super::{Outcome, alone, complete, constraint::Alternate, permitted};

/// An engine, with a record of requests and results.
pub struct Client<E> {
    pub engine: Engine<E>,
    options: Options,
    groups: KvGroups,
    limit: usize,
    /// Whether the executor can read blocks.
    reads: bool,
    requests: BTreeMap<RequestId, Request>,
    pub outcomes: BTreeMap<RequestId, Outcome>,
    /// Ended by the caller while live.
    ended: BTreeMap<RequestId, FinishReason>,
    unconstrained: BTreeSet<RequestId>,
    /// Held requests, and the most tokens that they may have.
    held: BTreeMap<RequestId, usize>,
    pins: Vec<PinId>,
    /// Blocks of requests that have ended, with their tokens.
    stored: Vec<(Vec<u32>, EntryBlocks)>,
    pub steps: usize,
}

/// A clock that advances with every reading.
fn ticking() -> Clock {
    let now = Rc::new(Cell::new(0));
    Box::new(move || {
        now.set(now.get() + 1);
        Duration::from_millis(now.get())
    })
}

impl<E: Executor> Client<E> {
    pub fn new(executor: E) -> Client<E> {
        let step_seconds = f64::INFINITY;
        Client::with(executor, Options { watermark: 0.0, step_seconds, ..Default::default() })
    }

    pub fn with(executor: E, options: Options) -> Client<E> {
        let capacity = executor.capacity();
        // What a sequence of so many blocks holds at most, of each group what its rows attend to.
        let held = |entries: usize| -> usize {
            let windows = capacity.groups.windows();
            let visible = |window: Window| {
                entries.min((window.sinks + window.tokens + capacity.rows).div_ceil(BLOCK_SIZE) + 2)
            };
            windows.map(|window| window.map_or(entries, visible)).sum()
        };
        let most = (0..=capacity.context.div_ceil(BLOCK_SIZE)).rev();
        let most = most.into_iter().find(|entries| held(*entries) < capacity.blocks);
        let limit = capacity.context.min(most.unwrap_or(0) * BLOCK_SIZE);
        let mut engine = Engine::new(executor, options.clone(), ticking());
        engine.note_ended_of(SALT);
        Client {
            engine,
            options,
            groups: capacity.groups,
            limit,
            reads: capacity.host.reads > 0,
            requests: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            ended: BTreeMap::new(),
            unconstrained: BTreeSet::new(),
            held: BTreeMap::new(),
            pins: Vec::new(),
            stored: Vec::new(),
            steps: 0,
        }
    }

    pub fn submit(&mut self, request: Request) {
        self.submit_many(request, 1);
    }

    /// Submits a request with a part of its expected answer.
    pub fn resume(&mut self, request: Request, part: f64, n: usize) {
        let request = Request { prompt_logprobs: None, goal: Goal::Generate, ..request };
        // Refused requests have no answer.
        let unconstrained = Request { constrained: false, ..request.clone() };
        if request.prompt.len() >= self.limit || permitted(&unconstrained, &[]) == 0 {
            return self.submit_many(request, n);
        }
        let whole = alone(&request, self.limit, self.groups);
        let cut = (part * (whole.tokens.len() + 1) as f64) as usize;
        let answered = whole.tokens[..cut].to_vec();
        let resumed = Request { answered, ..request };
        let rest = alone(&resumed, self.limit, self.groups);
        assert_eq!((&rest.tokens, &rest.end), (&whole.tokens, &whole.end));
        assert!(whole.logprobs.ends_with(&rest.logprobs));
        self.submit_many(resumed, n);
    }

    pub fn submit_many(&mut self, request: Request, n: usize) {
        let prompt = request.prompt.len();
        match self.engine.submit_many(request.clone(), n) {
            Ok(ids) => {
                assert_eq!(ids.len(), n);
                for (i, id) in ids.into_iter().enumerate() {
                    let mut twin = request.clone();
                    twin.sampling.seed = request.sampling.seed.wrapping_add(i as u64);
                    if twin.constrained {
                        self.unconstrained.insert(id);
                    }
                    assert!(self.requests.insert(id, twin).is_none(), "{id:?} names two requests");
                    let tokens = request.answered.clone();
                    self.outcomes.insert(id, Outcome { tokens, ..Default::default() });
                }
            }
            Err(Error::QueueFull { waiting, limit }) => {
                assert!(waiting + n > limit && limit <= self.options.max_queue);
            }
            Err(Error::NoTokenAllowed { sampled: 0 }) => {
                let request = Request { constrained: false, ..request };
                assert_eq!(permitted(&request, &[]), 0);
            }
            Err(error) => {
                assert!(prompt >= self.limit);
                let limit = self.limit;
                let param = "prompt".into();
                assert_eq!(error, Error::ContextLengthExceeded { param, prompt, limit });
            }
        }
    }

    /// The `nth` request, live or not, modulo their number.
    pub fn nth(&self, nth: usize) -> Option<RequestId> {
        self.outcomes.keys().nth(nth % self.outcomes.len().max(1)).copied()
    }

    pub fn end(&mut self, nth: usize, reason: FinishReason) {
        let Some(id) = self.nth(nth) else { return };
        match reason {
            FinishReason::Cancelled => self.engine.cancel(id),
            _ => self.engine.finish(id),
        }
        self.note_end(id, reason);
    }

    pub fn note_end(&mut self, id: RequestId, reason: FinishReason) {
        let request = &self.requests[&id];
        // It may already have been over, with its events not taken yet.
        let over = complete(request, request.answered.len(), self.limit).is_some()
            && !self.unconstrained.contains(&id);
        if self.outcomes[&id].end.is_none() && !over {
            self.ended.entry(id).or_insert(reason);
        }
    }

    pub fn hold(&mut self, nth: usize) {
        let Some(id) = self.nth(nth) else { return };
        self.engine.hold(id, true);
        // The steps in flight may add tokens: at most two steps with drafts.
        let most = self.outcomes[&id].tokens.len() + 2 * (1 + MAX_DRAFTS);
        self.held.entry(id).or_insert(most);
    }

    pub fn release(&mut self) {
        self.held.pop_last().into_iter().for_each(|(id, _)| self.engine.hold(id, false));
    }

    pub fn close_tab(&mut self, tab: TabId) {
        self.engine.close_tab(tab);
        let of_tab = self.requests.iter().filter(|(_, request)| request.tab == tab);
        for id in of_tab.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.note_end(id, FinishReason::Cancelled);
        }
    }

    /// Sets the announced constraints.
    pub fn constrain(&mut self) {
        for id in std::mem::take(&mut self.unconstrained) {
            self.engine.constrain(id, Box::new(Alternate::default()));
        }
    }

    pub fn pin(&mut self, nth: usize) {
        let Some(request) = self.nth(nth).map(|id| &self.requests[&id]) else { return };
        self.pins.extend(self.engine.pin(&request.prompt, request.salt));
    }

    pub fn unpin(&mut self) {
        self.pins.pop().into_iter().for_each(|pin| self.engine.unpin(pin));
    }

    /// Stores blocks of the requests that have ended since, at most so many entries at a time.
    pub fn store(&mut self, most: usize) {
        for Ended { tokens, is_sound } in self.engine.take_ended() {
            let found = if is_sound { self.engine.on_device(&tokens, SALT) } else { Vec::new() };
            for (at, part) in found.chunks(most * self.groups.count()).enumerate() {
                let Some(read) = self.engine.read_entries(at * most, part) else {
                    assert!(!self.reads, "it is cached");
                    return;
                };
                self.stored.push((tokens.clone(), block_on(read).expect("the device lives")));
            }
        }
    }

    /// Takes over what another client has stored.
    pub fn take_stored(&mut self, other: &mut Self) {
        self.stored.append(&mut other.stored);
    }

    /// Puts stored blocks into host memory.
    pub fn adopt(&mut self, nth: usize) {
        if let Some((tokens, blocks)) = self.stored.get(nth % self.stored.len().max(1)) {
            self.engine.adopt(TabId(0), tokens, SALT, blocks);
        }
    }

    pub fn step(&mut self) {
        self.steps += 1;
        for event in block_on(self.engine.step()).expect("the engine is open") {
            let id = event.id();
            let outcome = self.outcomes.get_mut(&id).expect("events name live requests");
            assert_eq!(outcome.end, None, "nothing follows the end");
            let over = self.ended.contains_key(&id);
            match event {
                Event::Token { token, logprobs, .. } => {
                    assert!(!over, "no token follows a cancel");
                    outcome.tokens.push(token);
                    let most = self.held.get(&id).copied().unwrap_or(usize::MAX);
                    assert!(outcome.tokens.len() <= most, "{id:?} is held");
                    outcome.logprobs.extend(logprobs);
                }
                Event::PromptLogprobs { logprobs, .. } => {
                    assert!(!over && outcome.tokens.is_empty());
                    assert_eq!(outcome.prompt_logprobs.replace(logprobs), None, "reported twice");
                }
                Event::Embedding { vector, .. } => {
                    assert_eq!(outcome.embedding.replace(vector), None, "reported twice");
                }
                Event::Finished { reason, usage, .. } => {
                    let Request { prompt, answered, .. } = &self.requests[&id];
                    assert_eq!(usage.prompt_tokens, prompt.len());
                    assert!(usage.cached_tokens < prompt.len() + usize::from(!answered.is_empty()));
                    outcome.end = Some((reason, usage.completion_tokens));
                }
            }
        }
    }

    /// Steps until nothing is left, and checks all results.
    pub fn run_to_the_end(&mut self) {
        self.constrain();
        // The first running request advances at least every third step, and each request gets its turn.
        let lengths = self.requests.values().map(|request| {
            let due = alone(request, self.limit, self.groups);
            request.prompt.len() + due.end.expect("it ends").1
        });
        let bound = self.steps + 3 * (lengths.sum::<usize>() + 1);
        let run = |client: &mut Self| {
            while !client.engine.is_idle() {
                assert!(client.steps < bound, "no end after {bound} steps");
                client.step();
            }
        };
        run(self);
        let left = self.outcomes.iter().filter(|(_, outcome)| outcome.end.is_none());
        for (id, _) in left {
            assert!(self.held.contains_key(id), "{id:?} waits for the held");
        }
        while !self.held.is_empty() {
            self.release();
        }
        run(self);
        for (id, request) in &self.requests {
            let (outcome, due) = (&self.outcomes[id], alone(request, self.limit, self.groups));
            if let Some(reason) = self.ended.get(id) {
                assert!(due.tokens.starts_with(&outcome.tokens), "{outcome:?}, {due:?}");
                assert!(due.logprobs.starts_with(&outcome.logprobs), "{outcome:?}, {due:?}");
                let (ended_for, count) = outcome.end.as_ref().expect("it ended");
                assert_eq!(ended_for, reason);
                assert_eq!(*count, outcome.tokens.len());
            } else {
                let mut due = due;
                // A constraint that allows no token may end a request before its scores are read.
                if let Some((FinishReason::Error(Error::NoTokenAllowed { sampled: 0 }), _)) =
                    due.end
                    && outcome.prompt_logprobs.is_none()
                {
                    due.prompt_logprobs = None;
                }
                assert_eq!(*outcome, due, "{request:?}");
            }
        }
        while !self.pins.is_empty() {
            self.unpin();
        }
        let metrics = self.engine.metrics();
        assert_eq!(metrics.kv_cache_usage_perc, 0.0);
        assert_eq!(metrics.num_requests_running + metrics.num_requests_waiting, 0);
        let counts = metrics.request_success;
        let ended = counts.stop + counts.length + counts.abort + counts.error;
        assert_eq!(ended, self.requests.len() as u64);
        let ends = self.outcomes.values().flat_map(|outcome| &outcome.end);
        let answered: usize = ends.map(|(_, tokens)| tokens).sum();
        let before: usize = self.requests.values().map(|request| request.answered.len()).sum();
        assert_eq!(metrics.generation_tokens, (answered - before) as u64);
        assert!(metrics.prefix_cache_hits <= metrics.prefix_cache_queries);
        assert!(self.engine.reset_prefix_cache(false), "a block is still held");
    }
}
