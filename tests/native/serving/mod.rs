//! The serving core over a scripted executor: every request gets the same tokens as when it runs alone.

mod client;
mod constraint;
mod drafters;
mod scripted;

use std::rc::Rc;

use pollster::block_on;
use proptest::prelude::*;
use tabloom::{
    Error,
    engine::{FinishReason, Goal, Options, Policy, Request, TabId},
    speculate::{Ngram, Proposer},
    step::{
        BLOCK_SIZE, Executor, HostMemory, KvGroups, Logprobs, MAX_DRAFTS, Pooling, Sampling, Window,
    },
};

use client::Client;
use constraint::Alternate;
use drafters::{Oracle, Quality};
use scripted::{END, Failure, POISON, Scripted, VOCAB, embedded, logprobs, next_token};

/// Result of one request.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    /// The whole answer, including the given part.
    tokens: Vec<u32>,
    /// Of the returned tokens.
    logprobs: Vec<Logprobs>,
    prompt_logprobs: Option<Vec<Logprobs>>,
    embedding: Option<Vec<f32>>,
    /// Finish reason, and number of tokens.
    end: Option<(FinishReason, usize)>,
}

/// The tokens allowed for a request after `output`, as bits.
fn permitted(request: &Request, output: &[u32]) -> u32 {
    let permits = |token: &u32| {
        let bad = request.bad_words.iter().any(|word| {
            let (last, before) = word.split_last().expect("it has a token");
            last == token && output.ends_with(before)
        });
        let ends = request.end_tokens.contains(token) || request.stop_tokens.contains(token);
        let allowed = request.allowed_tokens.as_ref().is_none_or(|list| list.contains(token));
        let early = ends && output.len() < request.min_tokens;
        let fits = !request.constrained || Alternate::permits(output.len(), *token);
        allowed && !bad && !early && fits
    };
    (0..VOCAB).filter(permits).fold(0, |bits, token| bits | 1 << token)
}

/// Why an answer ends after this many tokens, if it does; sequences end at `limit` tokens.
fn complete(request: &Request, answered: usize, limit: usize) -> Option<FinishReason> {
    let most = limit - request.prompt.len();
    let most = request.max_tokens.map_or(most, |max| max.min(most));
    if request.constrained && Alternate::is_complete(answered) {
        return Some(FinishReason::Stop);
    }
    (answered == most).then_some(FinishReason::Length)
}

/// Mostly one group of layers that sees all; else one that sees a window, or several.
fn groups() -> impl Strategy<Value = KvGroups> {
    let window = (0..2_usize, 1..40_usize)
        .prop_map(|(sinks, tokens)| Some(Window { sinks: sinks * BLOCK_SIZE, tokens }));
    prop_oneof![
        5 => Just(KvGroups::FULL),
        2 => window.clone().prop_map(KvGroups::one),
        2 => (any::<bool>(), prop::collection::vec(window, 1..3)).prop_map(|(full, windows)| {
            KvGroups::new(full.then_some(None).into_iter().chain(windows))
        }),
    ]
}

/// The result of a request that runs alone; sequences end at `limit` tokens.
fn alone(request: &Request, limit: usize, groups: KvGroups) -> Outcome {
    let mut outcome = Outcome { tokens: request.answered.clone(), ..Default::default() };
    let mut tokens = [&request.prompt[..], &request.answered].concat();
    let prompt = request.prompt.len();
    if let Goal::Embed(_) = request.goal {
        let count = tokens.iter().filter(|token| **token == POISON).count() as u32;
        let broken = FinishReason::Error(Error::Numerical { count });
        outcome.end = Some((if count > 0 { broken } else { FinishReason::Stop }, 0));
        let vector = || tokens.iter().map(|token| embedded(*token)).collect();
        outcome.embedding = (count == 0).then(vector);
        return outcome;
    }
    let seen = |tokens: &[u32]| -> Vec<u32> {
        let row = tokens.len() - 1;
        let visible = |window: Option<Window>, at: usize| {
            window.is_none_or(|window| at < window.sinks || at + window.tokens > row)
        };
        let of_group = |window| (0..=row).filter(move |at| visible(window, *at));
        groups.windows().flat_map(of_group).map(|at| tokens[at]).collect()
    };
    if let Some(top) = request.prompt_logprobs {
        let score = |at| logprobs(&[seen(&tokens[..at]), vec![tokens[at]]].concat(), top);
        outcome.prompt_logprobs = Some((1..prompt).map(score).collect());
    }
    let reason = loop {
        if let Some(reason) = complete(request, tokens.len() - prompt, limit) {
            break reason;
        }
        let mask = permitted(request, &tokens[prompt..]);
        if mask & !(1 << POISON) == 0 {
            break FinishReason::Error(Error::NoTokenAllowed { sampled: tokens.len() - prompt });
        }
        let visible = seen(&tokens);
        let poisoned = visible.iter().filter(|token| **token == POISON).count() as u32;
        if poisoned > 0 {
            break FinishReason::Error(Error::Numerical { count: poisoned });
        }
        let token = next_token(&visible, request.sampling.seed, mask);
        tokens.push(token);
        if request.end_tokens.contains(&token) {
            break FinishReason::Stop;
        }
        if request.stop_tokens.contains(&token) {
            break FinishReason::StopToken(token);
        }
        outcome.tokens.push(token);
        let asked = request.sampling.logprobs;
        outcome.logprobs.extend(asked.map(|top| logprobs(&[visible, vec![token]].concat(), top)));
    };
    outcome.end = Some((reason, tokens.len() - prompt));
    outcome
}

fn request(prompt: Vec<u32>, max_tokens: Option<usize>, seed: u64) -> Request {
    let sampling = Sampling { seed, ..Sampling::GREEDY };
    Request { prompt, sampling, end_tokens: vec![END], max_tokens, ..Default::default() }
}

#[derive(Clone, Debug)]
enum Action {
    Submit(Box<Request>, usize),
    Resume(Box<Request>, f64, usize),
    Cancel(usize),
    Finish(usize),
    Hide(TabId, bool),
    Close(TabId),
    Constrain,
    Hold(usize),
    Release,
    Pin(usize),
    Unpin,
    Store(usize),
    Adopt(usize),
    Step,
}

fn tab() -> impl Strategy<Value = TabId> {
    (0..4_u64).prop_map(TabId)
}

/// Prompts that often share prefixes.
fn prompt() -> impl Strategy<Value = Vec<u32>> {
    let family = (1..4_u32, 0..70_usize);
    (family, prop::collection::vec(0..POISON, 1..40), prop::bool::weighted(0.05)).prop_map(
        |((family, shared), own, poison)| {
            let common = (0..shared as u32).map(|i| (family * i + 1) % POISON);
            let mut prompt: Vec<u32> = common.chain(own).collect();
            if poison {
                prompt[0] = POISON;
            }
            prompt
        },
    )
}

fn any_request() -> impl Strategy<Value = Request> {
    let token = || 0..POISON;
    let asked = (prompt(), prop::option::of(1..40_usize), any::<u64>());
    let sharing = (tab(), 0..3_i32, 0..2_u64);
    let limits = (
        prop::option::weighted(0.1, prop::collection::vec(token(), 1..6)),
        prop::collection::vec(prop::collection::vec(token(), 1..3), 0..3),
        0..6_usize,
        prop::collection::vec(token(), 0..2),
        prop::bool::weighted(0.1),
    );
    let told = (
        prop::option::weighted(0.2, 0..3_u32),
        prop::option::weighted(0.1, 0..3_u32),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
    );
    (asked, sharing, limits, told).prop_map(|(asked, sharing, limits, told)| {
        let (prompt, max_tokens, seed) = asked;
        let (allowed_tokens, bad_words, min_tokens, stop_tokens, constrained) = limits;
        let (logprobs, prompt_logprobs, embeds, penalises) = told;
        let (tab, priority, salt) = sharing;
        let mut request = Request {
            tab,
            priority,
            salt,
            allowed_tokens,
            bad_words,
            min_tokens: min_tokens.min(max_tokens.unwrap_or(min_tokens)),
            stop_tokens,
            constrained,
            prompt_logprobs,
            ..request(prompt, max_tokens, seed)
        };
        request.sampling.logprobs = logprobs;
        request.sampling.frequency_penalty = if penalises { 0.5 } else { 0.0 };
        if embeds {
            request.goal = Goal::Embed(Pooling::Mean);
            (request.constrained, request.prompt_logprobs) = (false, None);
        }
        request
    })
}

fn action() -> impl Strategy<Value = Action> {
    let submit = || (any_request(), prop_oneof![4 => Just(1), 1 => 2..4_usize]);
    prop_oneof![
        6 => submit().prop_map(|(request, n)| Action::Submit(Box::new(request), n)),
        2 => (submit(), 0.0..1.0)
            .prop_map(|((request, n), part)| Action::Resume(Box::new(request), part, n)),
        1 => any::<usize>().prop_map(Action::Cancel),
        1 => any::<usize>().prop_map(Action::Finish),
        1 => (tab(), any::<bool>()).prop_map(|(tab, hidden)| Action::Hide(tab, hidden)),
        1 => tab().prop_map(Action::Close),
        2 => Just(Action::Constrain),
        2 => any::<usize>().prop_map(Action::Hold),
        1 => Just(Action::Release),
        1 => any::<usize>().prop_map(Action::Pin),
        2 => Just(Action::Unpin),
        2 => (1..6_usize).prop_map(Action::Store),
        2 => any::<usize>().prop_map(Action::Adopt),
        8 => Just(Action::Step),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let limits = (1..6_usize, 1..40_usize, prop_oneof![Just(f64::INFINITY), 0.001..0.5]);
    let rules = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<u64>());
    let drafts = (0..=MAX_DRAFTS, any::<bool>());
    let shares = (0.0..0.3, 0.0..1.0);
    (limits, rules, drafts, shares).prop_map(|(limits, rules, drafts, shares)| {
        let ((max_drafts, adaptive_drafts), (watermark, tab_share)) = (drafts, shares);
        let (max_running, long_prefill_threshold, step_seconds) = limits;
        let (priority, adaptive_threshold, prefix_caching, cache_aware, seed) = rules;
        Options {
            policy: if priority { Policy::Priority } else { Policy::Fcfs },
            max_running,
            max_queue: 20,
            max_queue_per_tab: 8,
            long_prefill_threshold,
            adaptive_threshold,
            step_seconds,
            watermark,
            tab_share,
            prefix_caching,
            cache_aware,
            max_drafts,
            adaptive_drafts,
            seed,
        }
    })
}

/// The drafter; none: prompt lookup.
fn drafter(quality: Option<Quality>, actions: &[Action]) -> Rc<dyn Proposer> {
    let Some(quality) = quality else { return Rc::new(Ngram::new(1..=3)) };
    let seeds = actions.iter().flat_map(|action| match action {
        Action::Submit(request, n) | Action::Resume(request, _, n) => {
            (0..*n as u64).map(|i| request.sampling.seed.wrapping_add(i)).collect()
        }
        _ => Vec::new(),
    });
    Rc::new(Oracle { seeds: seeds.collect(), quality })
}

fn serve<E: Executor>(
    executor: E,
    options: Options,
    quality: Option<Quality>,
    actions: Vec<Action>,
) {
    let mut client = Client::with(executor, options);
    client.engine = client.engine.with_proposer(drafter(quality, &actions));
    for action in actions {
        match action {
            Action::Submit(request, n) => client.submit_many(*request, n),
            Action::Resume(request, part, n) => client.resume(*request, part, n),
            Action::Cancel(nth) => client.end(nth, FinishReason::Cancelled),
            Action::Finish(nth) => client.end(nth, FinishReason::Stop),
            Action::Hide(tab, hidden) => client.engine.set_visible(tab, !hidden),
            Action::Close(tab) => client.close_tab(tab),
            Action::Constrain => client.constrain(),
            Action::Hold(nth) => client.hold(nth),
            Action::Release => client.release(),
            Action::Pin(nth) => client.pin(nth),
            Action::Unpin => client.unpin(),
            Action::Store(most) => client.store(most),
            Action::Adopt(nth) => client.adopt(nth),
            Action::Step => client.step(),
        }
    }
    client.run_to_the_end();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// For any order of arrivals and cancellations, however small the pool: no token is lost, doubled
    /// or changed, no block leaks, and every request ends.
    #[test]
    fn every_request_gets_the_same_tokens_as_alone(
        depth in 1..=3,
        rows in 1..40_usize,
        seqs in 1..6_usize,
        blocks in 1..14_usize,
        context in 8..200_usize,
        groups in groups(),
        host in prop::option::of((1..20_usize, 1..6_usize)),
        options in options(),
        drafts in prop_oneof![Just(0), 1..=MAX_DRAFTS],
        quality in prop::option::of(prop_oneof![
            3 => Just(Quality::Right),
            2 => Just(Quality::Mixed),
            1 => Just(Quality::Wrong),
        ]),
        actions in prop::collection::vec(action(), 1..60),
    ) {
        fn run<const DEPTH: usize>(
            scripted: Scripted<DEPTH>,
            groups: KvGroups,
            options: Options,
            quality: Option<Quality>,
            actions: Vec<Action>,
        ) {
            serve(scripted.with_groups(groups), options, quality, actions);
        }
        fn scripted<const DEPTH: usize>(
            sizes: [usize; 4],
            drafts: usize,
            host: Option<(usize, usize)>,
        ) -> Scripted<DEPTH> {
            let [rows, seqs, blocks, context] = sizes;
            let host = host.map_or(HostMemory::NONE, |(blocks, saves)| HostMemory { blocks, saves, reads: 48 });
            Scripted::new(rows, seqs, blocks, context).drafting(drafts).with_host(host)
        }
        let sizes = [rows, seqs, blocks, context];
        match depth {
            1 => run(scripted::<1>(sizes, drafts, host), groups, options, quality, actions),
            2 => run(scripted::<2>(sizes, drafts, host), groups, options, quality, actions),
            _ => run(scripted::<3>(sizes, drafts, host), groups, options, quality, actions),
        }
    }
}

/// A request whose answer does not end before `max_tokens`.
fn long_winded(prompt: usize, max_tokens: usize) -> Request {
    let ask = |seed| request(vec![1; prompt], Some(max_tokens), seed);
    let lasts = |request: &Request| alone(request, 4096, KvGroups::FULL).tokens.len() == max_tokens;
    (0..).map(ask).find(lasts).expect("some seed samples no end token")
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
fn rounds_are_planned_before_their_drafts_are_verified() {
    let executor = Scripted::<2>::new(256, 8, 100, 4096).drafting(4);
    let ran_ahead = executor.ran_ahead.clone();
    let adaptive_drafts = false;
    let options = Options { watermark: 0.0, max_drafts: 4, adaptive_drafts, ..Options::default() };
    let mut client = Client::with(executor, options);
    client.engine = client.engine.with_proposer(Rc::new(Ngram::new(64..=64)));
    client.submit(long_winded(20, 100));
    client.submit(long_winded(30, 100));
    client.run_to_the_end();
    let rounds = client.engine.metrics().spec_decode.spec_decode_num_drafts as usize;
    // All but the first, and those where the answer may lack room for all drafts.
    assert!(rounds < 100 && ran_ahead.get() > rounds / 2, "{} of {rounds}", ran_ahead.get());
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
fn conversations_that_take_turns_in_a_small_pool_come_back_from_host_memory() {
    let host = HostMemory { blocks: 40, saves: 20, reads: 48 };
    for groups in [KvGroups::FULL, KvGroups::new([None, Some(Window { sinks: 0, tokens: 30 })])] {
        let blocks = 8 * groups.count();
        let executor = Scripted::<2>::new(64, 4, blocks, 4096).with_groups(groups);
        let mut client = Client::new(executor.with_host(host));
        let mut chats = [vec![1; 60], vec![2; 60]];
        for turn in 0..6 {
            for (tab, chat) in (0..).zip(&mut chats) {
                client.submit(Request { tab: TabId(tab), ..request(chat.clone(), Some(4), turn) });
                while !client.engine.is_idle() {
                    client.step();
                }
                chat.extend([3; 9]);
            }
        }
        let metrics = client.engine.metrics();
        client.run_to_the_end();
        // All turns but the first find what there was, and most of it has given way meanwhile.
        let (hits, queries) = (metrics.prefix_cache_hits, metrics.prefix_cache_queries);
        assert!(hits * 10 > queries * 6, "{hits} of {queries}");
        let restored = metrics.restored_tokens;
        assert!(restored > 100, "{restored} of {hits} in {groups:?}");
    }
}

#[test]
fn conversations_that_were_stored_come_back_to_another_engine() {
    let host = HostMemory { blocks: 40, saves: 20, reads: 48 };
    for groups in [
        KvGroups::FULL,
        KvGroups::one(Some(Window { sinks: 16, tokens: 30 })),
        KvGroups::new([None, Some(Window { sinks: 0, tokens: 30 })]),
    ] {
        let client = || {
            let mut executor = Scripted::<2>::new(64, 4, 30 * groups.count(), 4096);
            executor.lacks_memory = false;
            Client::new(executor.with_groups(groups).with_host(host))
        };
        let (mut before, mut after) = (client(), client());
        let mut chat: Vec<u32> = (0..200).map(|i| i % POISON).collect();
        before.submit(request(chat.clone(), Some(20), 1));
        while !before.engine.is_idle() {
            before.step();
        }
        chat.extend(&before.outcomes.values().next().expect("one").tokens);
        chat.extend([1; 9]);
        before.store(4);
        before.run_to_the_end();
        after.take_stored(&mut before);
        (0..4).for_each(|nth| after.adopt(nth));
        after.submit(request(chat, Some(20), 1));
        after.run_to_the_end();
        let metrics = after.engine.metrics();
        let found = (metrics.prefix_cache_hits, metrics.restored_tokens);
        let hidden = if groups.widest().is_some() { 208 - 16 - 32 } else { 0 };
        assert_eq!(found, (208, 208 - hidden), "{groups:?}");
    }
}

/// Rows of the first step of a prompt of 40 tokens, at most.
fn first_rows<const DEPTH: usize>() -> Option<f64> {
    let mut client = Client::with(Scripted::<DEPTH>::new(64, 4, 32, 4096), Options::default());
    client.submit(request(vec![1; 40], Some(1), 1));
    client.step();
    client.engine.metrics().iteration_tokens_total.quantile(1.0)
}

#[test]
fn an_executor_on_the_caller_s_thread_begins_with_one_row() {
    assert!(first_rows::<1>() <= Some(1.0));
    assert!(first_rows::<2>() > Some(1.0));
}

#[test]
fn a_request_that_fills_the_pool_by_itself_ends_for_its_length() {
    let mut client = Client::new(Scripted::<2>::new(64, 4, 2, 4096));
    client.submit(long_winded(10, 100));
    client.run_to_the_end();
    let end = client.outcomes.values().next().unwrap().end.clone();
    assert_eq!(end, Some((FinishReason::Length, 22)));
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
