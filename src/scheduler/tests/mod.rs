//! The scheduler, with plans and results made by hand.

mod fairness;
mod held;
mod memory;
mod resumed;
mod rows;
mod sharing;
mod speculation;

use super::*;
use crate::{
    cache::BlockTable,
    step::{
        BLOCK_SIZE, BlockCopy, Capacity, HostMemory, KvGroups, Logprobs, Mask, Pool, Pooling,
        RowTokens, Sample, Sampling, SeqPlan, StepResult, Window,
    },
};

const END: u32 = 0;
const TOKEN: u32 = 7;
const NOW: Duration = Duration::ZERO;

/// No time limit, no watermark, and `blocks` KV blocks besides the null block.
fn scheduler(rows: usize, seqs: usize, blocks: usize) -> Scheduler {
    with(rows, seqs, blocks, |_| {})
}

fn with(rows: usize, seqs: usize, blocks: usize, set: impl Fn(&mut Options)) -> Scheduler {
    let mut options = Options {
        step_seconds: f64::INFINITY,
        watermark: 0.0,
        long_prefill_threshold: usize::MAX,
        prefix_caching: false,
        max_drafts: 0,
        ..Default::default()
    };
    set(&mut options);
    let capacity = Capacity {
        rows,
        seqs,
        logit_rows: seqs,
        blocks: blocks + 1,
        context: 4096,
        vocab: 100,
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };
    Scheduler::new(capacity, options)
}

fn request(prompt: usize, max_tokens: usize) -> Request {
    Request {
        prompt: vec![1; prompt],
        sampling: Sampling::GREEDY,
        end_tokens: vec![END],
        max_tokens: Some(max_tokens),
        ..Default::default()
    }
}

fn submit(scheduler: &mut Scheduler, prompts: &[usize]) -> Vec<RequestId> {
    prompts.iter().map(|len| add(scheduler, request(*len, 1000))).collect()
}

fn add(scheduler: &mut Scheduler, request: Request) -> RequestId {
    scheduler.submit(request, NOW).unwrap()
}

/// Tokens of the longest cached prefix.
fn looked_up(scheduler: &Scheduler, tokens: &[u32], salt: u64) -> usize {
    let mut table = BlockTable::new(salt, 0, 1);
    scheduler.cache.hash(&mut table, tokens);
    scheduler.cache.lookup(&table, tokens)
}

/// Plans a step, which must raise no events.
fn plan(scheduler: &mut Scheduler) -> StepPlan {
    scheduler.plan(NOW)
}

fn finish(scheduler: &mut Scheduler, id: RequestId, reason: FinishReason) -> Vec<Event> {
    scheduler.finish(id, reason, NOW);
    scheduler.check_integrity(std::iter::empty());
    scheduler.take_events()
}

/// (slot, first position, rows) of each sequence.
fn shape(plan: &StepPlan) -> Vec<(u32, u32, usize)> {
    plan.seqs.iter().map(|seq| (seq.slot, seq.start, seq.tokens.count())).collect()
}

/// A result in which every sampling sequence gets `token`.
fn answer(plan: &StepPlan, token: u32) -> StepResult {
    let samples = plan.seqs.iter().filter(|seq| seq.sample.is_some());
    StepResult {
        samples: samples
            .map(|seq| Sample { slot: seq.slot, token, ..Default::default() })
            .collect(),
        ..Default::default()
    }
}

/// Commits a plan with that result.
fn commit(scheduler: &mut Scheduler, plan: &StepPlan, token: u32) -> Vec<Event> {
    scheduler.commit(plan, &answer(plan, token), NOW, NOW);
    scheduler.check_integrity(std::iter::empty());
    scheduler.take_events()
}

/// One step from plan to commit, with no other in flight.
fn step(scheduler: &mut Scheduler) -> Vec<(u32, u32, usize)> {
    let plan = plan(scheduler);
    commit(scheduler, &plan, TOKEN);
    shape(&plan)
}

fn token(id: RequestId) -> Event {
    Event::Token { id, token: TOKEN, logprobs: None, drafted: false }
}

fn finished(id: RequestId, reason: FinishReason, prompt: usize, completion: usize) -> Event {
    let (prompt_tokens, completion_tokens) = (prompt, completion);
    let usage = Usage { prompt_tokens, completion_tokens, ..Default::default() };
    Event::Finished { id, reason, usage }
}

#[test]
fn a_step_takes_requests_in_order_of_arrival_up_to_its_limits() {
    struct Case {
        name: &'static str,
        /// Rows, sequences, blocks.
        limits: [usize; 3],
        prompts: &'static [usize],
        expected: &'static [usize],
    }
    let case = |name, limits, prompts, expected| Case { name, limits, prompts, expected };
    let cases = [
        case("all fit", [1024, 16, 100], &[10; 5], &[10; 5]),
        case("the row budget splits a prompt", [1024, 16, 200], &[800, 800, 10], &[800, 224]),
        case("the row budget is met exactly", [20, 16, 100], &[10, 10, 10], &[10, 10]),
        case("slots run out", [1024, 3, 100], &[10; 16], &[10; 3]),
        case("blocks run out", [1024, 16, 10], &[70, 70, 10], &[70, 70]),
        case(
            "nobody overtakes the first request if it does not fit",
            [1024, 16, 10],
            &[90, 90, 10],
            &[90],
        ),
        case("prompts fill the pool", [1024, 16, 10], &[80, 80, 1], &[80, 80]),
    ];
    for Case { name, limits: [rows, seqs, blocks], prompts, expected } in cases {
        let mut scheduler = scheduler(rows, seqs, blocks);
        submit(&mut scheduler, prompts);
        let plan = plan(&mut scheduler);
        let counts: Vec<usize> = plan.seqs.iter().map(|seq| seq.tokens.count()).collect();
        assert_eq!(counts, expected, "{name}");
        scheduler.check_integrity(std::iter::empty());
    }
}

#[test]
fn long_prompts_are_computed_in_chunks_beside_the_others_next_tokens() {
    let mut scheduler = scheduler(1024, 16, 1000);
    submit(&mut scheduler, &[800, 800, 800]);
    assert_eq!(step(&mut scheduler), [(0, 0, 800), (1, 0, 224)]);
    assert_eq!(step(&mut scheduler), [(0, 800, 1), (1, 224, 576), (2, 0, 447)]);
    assert_eq!(step(&mut scheduler), [(0, 801, 1), (1, 800, 1), (2, 447, 353)]);
    assert_eq!(step(&mut scheduler), [(0, 802, 1), (1, 801, 1), (2, 800, 1)]);
}

#[test]
fn only_the_step_with_the_last_known_token_samples() {
    let mut scheduler = scheduler(8, 1, 10);
    let id = submit(&mut scheduler, &[20])[0];
    for expected in [false, false, true, true] {
        let plan = plan(&mut scheduler);
        assert_eq!(plan.seqs[0].sample.is_some(), expected);
        let events = commit(&mut scheduler, &plan, TOKEN);
        assert_eq!(events, Vec::from_iter(expected.then(|| token(id))));
    }
}

#[test]
fn a_request_ends_for_the_first_reason_that_applies() {
    let (stop, length) = (FinishReason::Stop, FinishReason::Length);
    let cases = [
        ("an end token", 1000, vec![7, 7, END], 2, &stop),
        ("the token limit", 2, vec![7, 7], 2, &length),
        ("an end token at the limit", 2, vec![7, END], 1, &stop),
        ("an end token first", 5, vec![END], 0, &stop),
        ("the context", 1000, vec![7; 22], 22, &length),
    ];
    for (case, max_tokens, sampled, visible, reason) in cases {
        // Two blocks hold 32 tokens, 10 of them the prompt.
        let mut scheduler = scheduler(64, 4, 2);
        let id = add(&mut scheduler, request(10, max_tokens));
        let mut events = Vec::new();
        for token in &sampled {
            let plan = plan(&mut scheduler);
            events.extend(commit(&mut scheduler, &plan, *token));
        }
        let mut expected = vec![token(id); visible];
        expected.push(finished(id, reason.clone(), 10, sampled.len()));
        assert_eq!(events, expected, "{case}");
        assert!(scheduler.is_idle(), "{case}");
        assert_eq!(scheduler.metrics().kv_cache_usage_perc, 0.0, "{case}");
    }
}

#[test]
fn logits_that_are_not_finite_end_only_their_request() {
    let mut scheduler = scheduler(64, 4, 10);
    let ids = submit(&mut scheduler, &[3, 3]);
    let plan = plan(&mut scheduler);
    let mut result = answer(&plan, TOKEN);
    result.samples[0].not_finite = 5;
    let reason = FinishReason::Error(Error::Numerical { count: 5 });
    scheduler.commit(&plan, &result, NOW, NOW);
    assert_eq!(scheduler.take_events(), [finished(ids[0], reason, 3, 0), token(ids[1])]);
    assert_eq!(step(&mut scheduler), [(1, 3, 1)]);
}

#[test]
fn a_prefix_whose_logits_were_not_finite_is_computed_again() {
    let mut scheduler = with(64, 1, 10, |options| options.prefix_caching = true);
    let ask = |scheduler: &mut Scheduler| add(scheduler, request(40, 5));
    let good = ask(&mut scheduler);
    step(&mut scheduler);
    finish(&mut scheduler, good, FinishReason::Stop);
    ask(&mut scheduler);
    let plan = plan(&mut scheduler);
    assert_eq!(shape(&plan), [(0, 32, 8)], "two blocks are cached");
    let mut result = answer(&plan, TOKEN);
    result.samples[0].not_finite = 5;
    scheduler.commit(&plan, &result, NOW, NOW);
    scheduler.check_integrity(std::iter::empty());
    ask(&mut scheduler);
    assert_eq!(step(&mut scheduler), [(0, 0, 40)]);
}

#[test]
fn a_step_is_planned_before_the_last_one_is_over() {
    let mut scheduler = scheduler(64, 4, 10);
    let id = add(&mut scheduler, request(20, 3));
    let plans = [(); 3].map(|()| plan(&mut scheduler));
    let tokens = plans.each_ref().map(|plan| plan.seqs[0].tokens.clone());
    assert_eq!(
        tokens,
        [RowTokens::Known(vec![1; 20]), RowTokens::LastSample, RowTokens::LastSample]
    );
    assert_eq!(plan(&mut scheduler), StepPlan::default(), "the token limit is known in advance");
    for plan in &plans[..2] {
        assert_eq!(commit(&mut scheduler, plan, TOKEN), [token(id)]);
    }
    let end = [token(id), finished(id, FinishReason::Length, 20, 3)];
    assert_eq!(commit(&mut scheduler, &plans[2], TOKEN), end);
    assert!(scheduler.is_idle());
}

#[test]
fn a_token_that_the_host_knows_is_sent_with_the_rows() {
    let mut scheduler = scheduler(64, 4, 10);
    submit(&mut scheduler, &[20]);
    step(&mut scheduler);
    assert_eq!(plan(&mut scheduler).seqs[0].tokens, RowTokens::Known(vec![TOKEN]));
}

#[test]
fn slot_and_blocks_stay_held_while_a_step_in_flight_uses_them() {
    for reason in [FinishReason::Stop, FinishReason::Cancelled] {
        let mut scheduler = scheduler(64, 1, 4);
        let [first, second] = submit(&mut scheduler, &[20, 20])[..] else { unreachable!() };
        let [prompt, surplus] = [plan(&mut scheduler), plan(&mut scheduler)];
        let end = if reason == FinishReason::Stop {
            commit(&mut scheduler, &prompt, END)
        } else {
            assert_eq!(commit(&mut scheduler, &prompt, TOKEN), [token(first)]);
            finish(&mut scheduler, first, reason.clone())
        };
        assert_eq!(end, [finished(first, reason, 20, 1)]);
        assert_eq!(finish(&mut scheduler, first, FinishReason::Cancelled), [], "it has ended");

        assert_eq!(plan(&mut scheduler), StepPlan::default(), "the slot is not free yet");
        assert_eq!(scheduler.metrics().kv_cache_usage_perc, 0.5);
        assert_eq!(commit(&mut scheduler, &surplus, TOKEN), [], "the surplus token is dropped");
        assert_eq!(scheduler.metrics().kv_cache_usage_perc, 0.0);
        assert_eq!(step(&mut scheduler), [(0, 0, 20)]);
        assert_eq!(
            finish(&mut scheduler, second, FinishReason::Cancelled),
            [finished(second, FinishReason::Cancelled, 20, 1)]
        );
        assert!(scheduler.is_idle());
    }
}

#[test]
fn a_waiting_request_can_be_cancelled() {
    let mut scheduler = scheduler(64, 1, 4);
    let ids = submit(&mut scheduler, &[20, 30, 10]);
    step(&mut scheduler);
    let event = finish(&mut scheduler, ids[1], FinishReason::Cancelled);
    assert_eq!(event, [finished(ids[1], FinishReason::Cancelled, 30, 0)]);
    finish(&mut scheduler, ids[0], FinishReason::Stop);
    assert_eq!(step(&mut scheduler), [(0, 0, 10)]);
}

#[test]
fn the_last_admitted_is_preempted_and_resumes_with_its_output() {
    // Four blocks, two for each prompt and its first token.
    let mut scheduler = scheduler(64, 4, 4);
    let ids = submit(&mut scheduler, &[31, 31, 5]);
    assert_eq!(step(&mut scheduler), [(0, 0, 31), (1, 0, 31)]);
    assert_eq!(step(&mut scheduler), [(0, 31, 1), (1, 31, 1)]);
    assert_eq!(step(&mut scheduler), [(0, 32, 1)], "nobody is admitted in a preempting step");
    let metrics = scheduler.metrics();
    assert_eq!((metrics.num_preemptions, metrics.num_requests_waiting), (1, 2));
    assert_eq!(metrics.kv_cache_usage_perc, 0.75);
    assert_eq!(step(&mut scheduler), [(0, 33, 1)], "the preempted request is first in the queue");

    finish(&mut scheduler, ids[0], FinishReason::Stop);
    let plan = plan(&mut scheduler);
    assert_eq!(plan.seqs[0].start, 0);
    let known = [vec![1; 31], vec![TOKEN; 2]].concat();
    assert_eq!(plan.seqs[0].tokens, RowTokens::Known(known));
    assert_eq!(plan.seqs[1].tokens, RowTokens::Known(vec![1; 5]));
    assert_eq!(commit(&mut scheduler, &plan, TOKEN), [token(ids[1]), token(ids[2])]);
    assert_eq!(
        finish(&mut scheduler, ids[1], FinishReason::Cancelled),
        [finished(ids[1], FinishReason::Cancelled, 31, 3)]
    );
}

#[test]
fn preemption_waits_for_steps_in_flight() {
    let mut scheduler = scheduler(64, 4, 4);
    let ids = submit(&mut scheduler, &[31, 31]);
    let plans = [plan(&mut scheduler), plan(&mut scheduler)];
    assert_eq!(shape(&plans[1]), [(0, 31, 1), (1, 31, 1)]);
    assert_eq!(plan(&mut scheduler), StepPlan::default());
    commit(&mut scheduler, &plans[0], TOKEN);
    assert_eq!(plan(&mut scheduler), StepPlan::default());
    assert_eq!(scheduler.metrics().num_preemptions, 0);
    assert_eq!(commit(&mut scheduler, &plans[1], TOKEN), [token(ids[0]), token(ids[1])]);
    assert_eq!(step(&mut scheduler), [(0, 32, 1)]);
    assert_eq!(scheduler.metrics().num_preemptions, 1);
}

#[test]
fn no_request_is_preempted_while_an_ended_one_is_about_to_free_blocks() {
    let mut scheduler = scheduler(64, 4, 6);
    let ids = submit(&mut scheduler, &[31, 31, 31]);
    step(&mut scheduler);
    let surplus = plan(&mut scheduler);
    finish(&mut scheduler, ids[2], FinishReason::Stop);
    assert_eq!(plan(&mut scheduler), StepPlan::default());
    commit(&mut scheduler, &surplus, TOKEN);
    assert_eq!(step(&mut scheduler), [(0, 32, 1), (1, 32, 1)]);
    assert_eq!(scheduler.metrics().num_preemptions, 0);
}

#[test]
fn a_request_that_can_never_be_served_is_refused() {
    let mut scheduler = scheduler(64, 4, 3);
    scheduler.capacity.context = 40;
    let param = |request: Request| match scheduler.submit(request, NOW) {
        Err(Error::InvalidRequest { param, .. }) => param,
        other => panic!("{other:?}"),
    };
    let requests =
        [request(0, 1), Request { prompt: vec![1, 100], ..request(1, 1) }, request(1, 0)];
    assert_eq!(requests.map(param), ["prompt", "prompt", "max_tokens"]);
    let error = Error::ContextLengthExceeded { param: "prompt".into(), prompt: 40, limit: 40 };
    assert_eq!(scheduler.submit(request(40, 1), NOW), Err(error));
    assert!(scheduler.is_idle());
    add(&mut scheduler, request(39, 1));
    assert_eq!(step(&mut scheduler), [(0, 0, 39)]);
    assert!(scheduler.is_idle());
}

#[test]
fn aborting_ends_everything_and_starts_afresh() {
    let mut scheduler = scheduler(64, 1, 4);
    let ids = submit(&mut scheduler, &[20, 10]);
    step(&mut scheduler);
    plan(&mut scheduler);
    let reason = FinishReason::Error(Error::Aborted);
    scheduler.abort(&Error::Aborted, NOW);
    assert_eq!(
        scheduler.take_events(),
        [finished(ids[0], reason.clone(), 20, 1), finished(ids[1], reason, 10, 0)]
    );
    scheduler.check_integrity(std::iter::empty());
    assert!(scheduler.is_idle());
    assert!(!ids.contains(&submit(&mut scheduler, &[5])[0]), "ids are never used twice");
}

#[test]
fn metrics_count_what_was_computed_and_how_requests_ended() {
    let mut scheduler = scheduler(64, 2, 10);
    let ids = submit(&mut scheduler, &[20, 10, 5]);
    step(&mut scheduler);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.num_requests_running, metrics.num_requests_waiting), (2, 1));
    assert_eq!((metrics.prompt_tokens, metrics.generation_tokens), (30, 2));
    assert_eq!(metrics.kv_cache_usage_perc, 0.3);

    let plan = plan(&mut scheduler);
    commit(&mut scheduler, &plan, END);
    finish(&mut scheduler, ids[2], FinishReason::Cancelled);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.prompt_tokens, metrics.generation_tokens), (30, 4));
    assert_eq!((metrics.request_success.stop, metrics.request_success.abort), (2, 1));
    assert_eq!(metrics.num_requests_running + metrics.num_requests_waiting, 0);
}
