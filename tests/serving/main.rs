//! The serving core over a scripted executor: every request gets the text it would get alone.
#![cfg(not(target_arch = "wasm32"))] // proptest is native only

mod scripted;

use std::collections::BTreeMap;

use pollster::block_on;
use proptest::prelude::*;
use tabloom::{
    Error,
    engine::{Engine, Event, FinishReason, Request, RequestId, Usage},
    step::{BLOCK_SIZE, Executor, Sampling},
};

use scripted::{END, Failure, POISON, Scripted, next_token};

/// How one request went.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    tokens: Vec<u32>,
    end: Option<(FinishReason, Usage)>,
}

/// What a request gives by itself, in a context of `limit` tokens.
fn alone(request: &Request, limit: usize) -> Outcome {
    let mut tokens = request.prompt.clone();
    let prompt_tokens = tokens.len();
    let limit = limit.min(request.max_tokens.map_or(limit, |max| prompt_tokens + max));
    let poisoned = tokens.iter().filter(|token| **token == POISON).count() as u32;
    let reason = loop {
        if poisoned > 0 {
            break FinishReason::Error(Error::Numerical { count: poisoned });
        }
        tokens.push(next_token(&tokens, request.sampling.seed));
        if tokens.last() == Some(&END) {
            break FinishReason::Stop;
        }
        if tokens.len() == limit {
            break FinishReason::Length;
        }
    };
    let completion_tokens = tokens.len() - prompt_tokens;
    let visible = completion_tokens - usize::from(reason == FinishReason::Stop);
    Outcome {
        tokens: tokens[prompt_tokens..][..visible].to_vec(),
        end: Some((reason, Usage { prompt_tokens, cached_tokens: 0, completion_tokens })),
    }
}

fn request(prompt: Vec<u32>, max_tokens: Option<usize>, seed: u64) -> Request {
    let sampling = Sampling { seed, ..Sampling::GREEDY };
    Request { prompt, sampling, end_tokens: vec![END], max_tokens, ..Default::default() }
}

/// An engine with a record of what its caller asked and was told.
struct Client<E> {
    engine: Engine<E>,
    limit: usize,
    requests: BTreeMap<RequestId, Request>,
    outcomes: BTreeMap<RequestId, Outcome>,
    /// Ended by the caller while live.
    ended: BTreeMap<RequestId, FinishReason>,
    steps: usize,
}

impl<E: Executor> Client<E> {
    fn new(executor: E) -> Client<E> {
        let capacity = executor.capacity();
        Client {
            limit: capacity.context.min((capacity.blocks - 1) * BLOCK_SIZE),
            engine: Engine::new(executor),
            requests: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            ended: BTreeMap::new(),
            steps: 0,
        }
    }

    fn submit(&mut self, request: Request) {
        let prompt = request.prompt.len();
        match self.engine.submit(request.clone()) {
            Ok(id) => {
                assert!(self.requests.insert(id, request).is_none(), "{id:?} names two requests");
                self.outcomes.insert(id, Outcome::default());
            }
            Err(error) => {
                assert!(prompt >= self.limit);
                let limit = self.limit;
                assert_eq!(error, Error::ContextLengthExceeded { prompt, limit });
            }
        }
    }

    /// Ends the `nth` request, live or not, modulo their number.
    fn end(&mut self, nth: usize, reason: FinishReason) {
        let Some(&id) = self.outcomes.keys().nth(nth % self.outcomes.len().max(1)) else { return };
        match reason {
            FinishReason::Cancelled => self.engine.cancel(id),
            _ => self.engine.finish(id),
        }
        if self.outcomes[&id].end.is_none() {
            self.ended.entry(id).or_insert(reason);
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        for event in block_on(self.engine.step()).expect("the engine is open") {
            let outcome = self.outcomes.get_mut(&event.id()).expect("events name live requests");
            assert_eq!(outcome.end, None, "nothing follows the end");
            match event {
                Event::Token { id, token, .. } => {
                    assert!(!self.ended.contains_key(&id), "no token follows a cancel");
                    outcome.tokens.push(token);
                }
                Event::Finished { reason, usage, .. } => outcome.end = Some((reason, usage)),
                other => panic!("nobody asked for {other:?}"),
            }
        }
    }

    /// Steps until nothing is left, and checks that everybody got what was due.
    fn run_to_the_end(&mut self) {
        // The request that runs first advances at least every third step, and all get their turn.
        let lengths = self.requests.values().map(|request| {
            let (_, usage) = alone(request, self.limit).end.expect("it ends");
            usage.prompt_tokens + usage.completion_tokens
        });
        let bound = self.steps + 3 * (lengths.sum::<usize>() + 1);
        while !self.engine.is_idle() {
            assert!(self.steps < bound, "no end after {bound} steps");
            self.step();
        }
        for (id, request) in &self.requests {
            let (outcome, due) = (&self.outcomes[id], alone(request, self.limit));
            if let Some(reason) = self.ended.get(id) {
                assert!(due.tokens.starts_with(&outcome.tokens), "{outcome:?}, {due:?}");
                let (ended_for, usage) = outcome.end.as_ref().expect("it ended");
                assert_eq!(ended_for, reason);
                assert_eq!(usage.completion_tokens, outcome.tokens.len());
            } else {
                assert_eq!(*outcome, due);
            }
        }
        let metrics = self.engine.metrics();
        assert_eq!(metrics.kv_cache_usage_perc, 0.0);
        assert_eq!(metrics.num_requests_running + metrics.num_requests_waiting, 0);
        let counts = metrics.request_success;
        let ended = counts.stop + counts.length + counts.abort + counts.error;
        assert_eq!(ended, self.requests.len() as u64);
        let ends = self.outcomes.values().flat_map(|outcome| &outcome.end);
        let generated: usize = ends.map(|(_, usage)| usage.completion_tokens).sum();
        assert_eq!(metrics.generation_tokens, generated as u64);
    }
}

#[derive(Clone, Debug)]
enum Action {
    Submit(Request),
    Cancel(usize),
    Finish(usize),
    Step,
}

fn action() -> impl Strategy<Value = Action> {
    let poison = prop::bool::weighted(0.1);
    let prompt = prop::collection::vec(0..POISON, 1..60);
    let asked = (prompt, prop::option::of(1..40_usize), any::<u64>(), poison);
    let submit = asked.prop_map(|(mut prompt, max_tokens, seed, poison)| {
        if poison {
            prompt[0] = POISON;
        }
        Action::Submit(request(prompt, max_tokens, seed))
    });
    prop_oneof![
        4 => submit,
        1 => any::<usize>().prop_map(Action::Cancel),
        1 => any::<usize>().prop_map(Action::Finish),
        6 => Just(Action::Step),
    ]
}

fn serve<E: Executor>(executor: E, actions: Vec<Action>) {
    let mut client = Client::new(executor);
    for action in actions {
        match action {
            Action::Submit(request) => client.submit(request),
            Action::Cancel(nth) => client.end(nth, FinishReason::Cancelled),
            Action::Finish(nth) => client.end(nth, FinishReason::Stop),
            Action::Step => client.step(),
        }
    }
    client.run_to_the_end();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever arrives and is cancelled when, however small the pool: no token is lost, doubled
    /// or changed, no block leaks, and everything ends.
    #[test]
    fn every_request_gets_the_text_it_would_get_alone(
        depth in 1..=3,
        rows in 1..40_usize,
        seqs in 1..6_usize,
        blocks in 1..10_usize,
        context in 8..120_usize,
        actions in prop::collection::vec(action(), 1..60),
    ) {
        match depth {
            1 => serve(Scripted::<1>::new(rows, seqs, blocks, context), actions),
            2 => serve(Scripted::<2>::new(rows, seqs, blocks, context), actions),
            _ => serve(Scripted::<3>::new(rows, seqs, blocks, context), actions),
        }
    }
}

/// A request whose answer does not end before `max_tokens`.
fn long_winded(prompt: usize, max_tokens: usize) -> Request {
    let ask = |seed| request(vec![1; prompt], Some(max_tokens), seed);
    let lasts = |request: &Request| alone(request, 4096).tokens.len() == max_tokens;
    (0..).map(ask).find(lasts).expect("some seed draws no end token")
}

#[test]
fn a_batch_takes_no_more_steps_than_its_longest_request() {
    let mut client = Client::new(Scripted::<2>::new(256, 8, 100, 4096));
    for max_tokens in [3, 20, 8, 11, 20, 5, 1, 17] {
        client.submit(long_winded(20, max_tokens));
    }
    client.run_to_the_end();
    assert_eq!(client.steps, 20);
}

#[test]
fn a_pool_too_small_for_all_preempts_and_loses_nothing() {
    let mut client = Client::new(Scripted::<2>::new(64, 4, 6, 4096));
    for _ in 0..6 {
        client.submit(long_winded(14, 40));
    }
    client.run_to_the_end();
    assert!(client.engine.metrics().num_preemptions > 0);
}

#[test]
fn a_request_that_fills_the_pool_by_itself_ends_for_its_length() {
    let mut client = Client::new(Scripted::<2>::new(64, 4, 2, 4096));
    client.submit(long_winded(10, 100));
    client.run_to_the_end();
    let (reason, usage) = client.outcomes.values().next().unwrap().end.clone().unwrap();
    assert_eq!((reason, usage.completion_tokens), (FinishReason::Length, 22));
}

#[test]
fn ten_thousand_cancelled_requests_leave_the_pool_as_it_was() {
    let mut client = Client::new(Scripted::<2>::new(64, 4, 6, 4096));
    for nth in 0..10_000 {
        client.submit(request(vec![1; 20], None, nth as u64));
        if nth % 7 == 0 {
            client.step();
        }
        client.end(nth, FinishReason::Cancelled);
    }
    client.submit(long_winded(20, 5));
    client.run_to_the_end();
    assert!(client.engine.metrics().request_success.abort > 5000);
}

#[test]
fn a_lost_device_ends_every_request_and_closes_the_engine() {
    let lost = Error::DeviceLost { reason: "unplugged".into() };
    for failure in [Failure::Submit(0), Failure::Submit(3), Failure::Result(0), Failure::Result(3)]
    {
        let mut executor = Scripted::<2>::new(64, 1, 6, 4096);
        executor.failure = Some(failure);
        let mut client = Client::new(executor);
        client.submit(long_winded(20, 40));
        client.submit(long_winded(5, 40));
        while !client.engine.is_idle() {
            client.step();
        }
        for outcome in client.outcomes.values() {
            let (reason, _) = outcome.end.as_ref().expect("it ended");
            assert_eq!(*reason, FinishReason::Error(lost.clone()), "{failure:?}");
        }
        let engine = &mut client.engine;
        assert_eq!(block_on(engine.step()), Err(Error::Closed));
        assert_eq!(engine.submit(request(vec![1], None, 0)), Err(Error::Closed));
        engine.cancel(*client.outcomes.keys().next().unwrap());
        assert!(engine.is_idle());
    }
}
