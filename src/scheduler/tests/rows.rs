//! How many rows of a step each sequence gets.

use super::{resumed::fixed, *};

/// Rows per sequence of the next steps.
fn counts<const N: usize>(scheduler: &mut Scheduler) -> [Vec<usize>; N] {
    [(); N].map(|()| step(scheduler).iter().map(|(_, _, count)| *count).collect())
}

#[test]
fn the_threshold_cuts_prompts_only_beside_others() {
    let case = |threshold, adaptive, prompts: &[usize]| {
        let mut scheduler = with(1024, 16, 300, |options| {
            options.long_prefill_threshold = threshold;
            options.adaptive_threshold = adaptive;
        });
        submit(&mut scheduler, prompts);
        scheduler
    };
    let mut three = case(400, false, &[800; 3]);
    assert_eq!(counts(&mut three), [vec![400, 400, 224], vec![400, 400, 224], vec![1, 1, 352]]);
    assert_eq!(counts(&mut case(400, false, &[2000])), [[1024]], "alone it does not apply");
    assert_eq!(counts(&mut case(400, false, &[2000, 10])), [[400, 10]]);
    assert_eq!(counts(&mut case(100, true, &[2000, 10])), [[512, 10]], "an equal share at least");
}

#[test]
fn no_more_than_max_running_run() {
    let mut scheduler = with(1024, 16, 100, |options| options.max_running = 3);
    submit(&mut scheduler, &[10; 10]);
    assert_eq!(counts(&mut scheduler), [[10; 3]]);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.num_requests_running, metrics.num_requests_waiting), (3, 7));
}

#[test]
fn prefill_chunks_follow_the_measured_step_times() {
    let mut scheduler = with(1024, 4, 300, |options| options.step_seconds = 0.1);
    submit(&mut scheduler, &[4000]);
    let mut longest = Duration::ZERO;
    for at in 0..20 {
        let plan = plan(&mut scheduler);
        let took = Duration::from_micros(1000 * plan.rows() as u64); // 1 ms a row
        longest = longest.max(took);
        scheduler.commit(&plan, &answer(&plan, TOKEN), took, NOW);
        if at > 3 && plan.rows() > 1 {
            assert!((50..100).contains(&plan.rows()), "{} rows", plan.rows());
        }
    }
    assert!(longest < Duration::from_millis(200), "{longest:?}");
}

#[test]
fn a_prompt_goes_on_beside_answers_where_steps_have_one_row() {
    let mut scheduler = with(1024, 4, 300, |options| options.step_seconds = 0.1).with_short_steps();
    submit(&mut scheduler, &[1, 3, 3]);
    let mut steps = Vec::new();
    for _ in 0..6 {
        let plan = plan(&mut scheduler);
        let took = Duration::from_millis(360 * plan.rows() as u64);
        scheduler.commit(&plan, &answer(&plan, TOKEN), took, NOW);
        steps.push(plan.rows());
    }
    // One row for each that decodes, and one for a prompt.
    assert_eq!(steps, [1, 2, 2, 2, 3, 3]);
}

#[test]
fn each_block_is_sent_to_the_executor_once() {
    let mut scheduler = scheduler(20, 1, 10);
    submit(&mut scheduler, &[30]);
    let mut sent = |rows| {
        let plan = plan(&mut scheduler);
        commit(&mut scheduler, &plan, TOKEN);
        let seq = &plan.seqs[0];
        assert_eq!(seq.tokens.count(), rows);
        (seq.first_entry, seq.blocks.clone())
    };
    assert_eq!(sent(20), (0, vec![1, 2]));
    assert_eq!(sent(10), (2, vec![]));
    assert_eq!(sent(1), (2, vec![]));
    assert_eq!(sent(1), (2, vec![]));
    assert_eq!(sent(1), (2, vec![3]));
    assert_eq!(sent(1), (3, vec![]));
}

#[test]
fn stop_tokens_are_reported_and_cannot_come_before_min_tokens() {
    let mut scheduler = scheduler(64, 4, 10);
    let ask = Request { stop_tokens: vec![42], min_tokens: 2, ..request(3, 10) };
    let id = add(&mut scheduler, ask);
    let permits = |plan: &StepPlan, token: u32| match &plan.seqs[0].mask {
        Mask::None => Some(true),
        Mask::Same => None,
        Mask::New(words) => Some(words[token as usize / 32] >> (token % 32) & 1 == 1),
    };
    let mut allowed = Vec::new();
    for sampled in [7, 7, 42] {
        let plan = plan(&mut scheduler);
        allowed.push([42, END, 7].map(|token| permits(&plan, token)));
        let events = commit(&mut scheduler, &plan, sampled);
        if sampled == 42 {
            assert_eq!(events, [finished(id, FinishReason::StopToken(42), 3, 3)]);
        }
    }
    let masked = [Some(false), Some(false), Some(true)];
    assert_eq!(allowed, [masked, [None; 3], [Some(true); 3]], "masked, as before, free");
}

#[test]
fn the_length_limit_of_a_short_context_comes_before_min_tokens() {
    // Two blocks hold 32 tokens.
    let mut scheduler = scheduler(64, 4, 2);
    let ask = Request { min_tokens: 100, max_tokens: None, ..request(30, 1) };
    let id = add(&mut scheduler, ask);
    step(&mut scheduler);
    let plan = plan(&mut scheduler);
    let events = commit(&mut scheduler, &plan, TOKEN);
    assert_eq!(events, [token(id), finished(id, FinishReason::Length, 30, 2)]);
}

/// The tokens of each request in so many steps, with two in flight.
fn tokens_with_two_in_flight<const N: usize>(
    scheduler: &mut Scheduler,
    ids: [RequestId; N],
    steps: usize,
) -> [usize; N] {
    let mut in_flight = std::collections::VecDeque::new();
    let mut tokens = [0; N];
    for _ in 0..steps {
        while in_flight.len() < 2 {
            let plan = plan(scheduler);
            if plan.seqs.is_empty() {
                break;
            }
            in_flight.push_back(plan);
        }
        let oldest = in_flight.pop_front().expect("there is something to compute");
        for event in commit(scheduler, &oldest, TOKEN) {
            if let Some(at) = ids.iter().position(|id| event == token(*id)) {
                tokens[at] += 1;
            }
        }
    }
    tokens
}

#[test]
fn answers_that_wait_for_each_token_and_those_that_do_not_decode_together() {
    let mut scheduler = scheduler(64, 4, 100);
    let waits = Request { bad_words: vec![vec![98, 99]], ..request(10, 500) };
    let ids = [waits, request(10, 500)].map(|request| add(&mut scheduler, request));
    assert_eq!(tokens_with_two_in_flight(&mut scheduler, ids, 100), [100, 100]);
}

#[test]
fn a_prompt_beside_drafts_leaves_no_plain_answer_behind() {
    let mut scheduler = with(32, 4, 400, |options| {
        (options.max_drafts, options.adaptive_drafts) = (3, false);
    });
    let drafts = Request { prompt: vec![TOKEN; 20], speculates: true, ..request(0, 500) };
    let plain = Request { speculates: false, ..request(10, 500) };
    let ids = [drafts, plain].map(|request| add(&mut scheduler, request));
    step(&mut scheduler);
    let long = Request { prompt: (0..3000).map(|i| 10 + i % 80).collect(), ..request(0, 5) };
    add(&mut scheduler, long);
    assert_eq!(tokens_with_two_in_flight(&mut scheduler, ids, 40), [40, 40]);
    let drafts = scheduler.metrics().spec_decode.spec_decode_num_draft_tokens;
    assert!(drafts >= 40, "{drafts} drafts");
}

#[test]
fn drafts_take_all_rows_while_nobody_can_be_admitted() {
    let mut scheduler = with(16, 2, 400, |options| {
        (options.max_drafts, options.adaptive_drafts) = (7, false);
    });
    scheduler.capacity.logit_rows = 16;
    let drafting = Request { prompt: vec![TOKEN; 20], speculates: true, ..request(0, 500) };
    for _ in 0..2 {
        add(&mut scheduler, drafting.clone());
    }
    let mut rows = Vec::new();
    for steps in 0..40 {
        if steps == 20 {
            add(&mut scheduler, request(20, 5));
        }
        let plan = plan(&mut scheduler);
        rows.push(plan.rows());
        commit(&mut scheduler, &plan, TOKEN);
    }
    assert_eq!(rows[30..], [16; 10], "{rows:?}");
}

/// A device that takes 80 ms for the weights and half a millisecond a row.
#[test]
fn drafts_leave_rows_for_a_prompt_on_a_slow_device() {
    let mut scheduler = with(256, 4, 400, |options| {
        (options.max_drafts, options.adaptive_drafts, options.step_seconds) = (7, false, 0.1);
    });
    scheduler.capacity.logit_rows = 64;
    let took = |plan: &StepPlan| Duration::from_micros(80_000 + 500 * plan.rows() as u64);
    let drafting = Request { prompt: vec![TOKEN; 20], speculates: true, ..request(0, 2000) };
    for _ in 0..2 {
        add(&mut scheduler, drafting.clone());
    }
    let id = add(&mut scheduler, request(1, 1));
    for steps in 0..80 {
        if steps == 30 {
            add(&mut scheduler, request(200, 5));
        }
        let plan = plan(&mut scheduler);
        // One slow step, as by other work on the device.
        let took = if steps == 20 { Duration::from_secs(2) } else { took(&plan) };
        scheduler.commit(&plan, &answer(&plan, TOKEN), took, NOW);
        let newest = |event: &Event| matches!(event, Event::Token { id: of, .. } if *of > id);
        if scheduler.take_events().iter().any(newest) {
            assert!(steps > 30);
            return;
        }
        assert!(steps <= 30 + 29, "no first token after 29 steps");
    }
}

#[test]
fn a_repetitive_answer_ends() {
    let mut scheduler = scheduler(64, 4, 10);
    let repetition = Some(Repetition { sizes: 1..=2, count: 3 });
    let ends = [(0, 3, FinishReason::Repetition), (5, 5, FinishReason::Repetition)];
    for (min_tokens, tokens, reason) in ends {
        let ask = Request { min_tokens, repetition: repetition.clone(), ..request(3, 10) };
        let id = add(&mut scheduler, ask);
        let mut events = Vec::new();
        for _ in 0..tokens {
            let plan = plan(&mut scheduler);
            events.extend(commit(&mut scheduler, &plan, TOKEN));
        }
        let (last, sent) = events.split_last().unwrap();
        assert_eq!(sent, vec![token(id); tokens]);
        assert_eq!(*last, finished(id, reason, 3, tokens));
    }
}

#[test]
fn a_request_that_waits_for_its_constraint_computes_its_prompt_and_delays_nobody() {
    let mut scheduler = scheduler(64, 4, 20);
    let first = add(&mut scheduler, Request { constrained: true, ..request(20, 10) });
    let second = add(&mut scheduler, request(10, 2));
    assert_eq!(step(&mut scheduler), [(0, 0, 19), (1, 0, 10)]);
    assert_eq!(step(&mut scheduler), [(1, 10, 1)]);
    assert_eq!(plan(&mut scheduler), StepPlan::default());
    scheduler.constrain(first, fixed(&[5, 5]), NOW);
    scheduler.constrain(second, fixed(&[5, 5]), NOW); // it has ended

    let ahead = plan(&mut scheduler);
    assert_eq!(
        (shape(&ahead), &ahead.seqs[0].mask),
        (vec![(0, 19, 1)], &Mask::New(vec![32, 0, 0, 0]))
    );
    assert_eq!(plan(&mut scheduler), StepPlan::default(), "the mask depends on the token");
    let five = |id| Event::Token { id, token: 5, logprobs: None, drafted: false };
    assert_eq!(commit(&mut scheduler, &ahead, 5), [five(first)]);
    let last = plan(&mut scheduler);
    assert_eq!(last.seqs[0].mask, Mask::Same);
    let end = [five(first), finished(first, FinishReason::Stop, 20, 2)];
    assert_eq!(commit(&mut scheduler, &last, 5), end);
}

#[test]
fn scored_rows_stay_within_the_logit_rows_and_the_last_one_samples_alone() {
    let mut scheduler = scheduler(64, 4, 20);
    let ask = Request { prompt_logprobs: Some(0), ..request(10, 1) };
    let id = add(&mut scheduler, ask);
    add(&mut scheduler, request(5, 10));
    let mut scored = Vec::new();
    let mut events = Vec::new();
    while scheduler.running.iter().any(|seq| seq.id == id) || scored.is_empty() {
        let plan = plan(&mut scheduler);
        let seq = plan.seqs.iter().find(|seq| seq.slot == 0);
        let targets = seq.and_then(|seq| seq.score.as_ref()).map(|score| score.targets.len());
        scored.extend(seq.map(|seq| (seq.tokens.count(), targets)));
        let mut result = answer(&plan, TOKEN);
        result.scores = vec![Logprobs::default(); targets.unwrap_or(0)];
        scheduler.commit(&plan, &result, NOW, NOW);
        events.extend(scheduler.take_events().into_iter().filter(|event| event.id() == id));
    }
    assert_eq!(scored, [(3, Some(3)), (2, Some(2)), (2, Some(2)), (2, Some(2)), (1, None)]);
    let logprobs = vec![Logprobs::default(); 9];
    let end = finished(id, FinishReason::Length, 10, 1);
    assert_eq!(events, [Event::PromptLogprobs { id, logprobs }, token(id), end]);
}

#[test]
fn the_scores_of_a_prompt_of_one_token_are_there_and_none() {
    let mut scheduler = scheduler(64, 4, 20);
    let id = add(&mut scheduler, Request { prompt_logprobs: Some(0), ..request(1, 2) });
    let scores = Event::PromptLogprobs { id, logprobs: Vec::new() };
    let plans = [(); 2].map(|()| plan(&mut scheduler));
    assert_eq!(commit(&mut scheduler, &plans[0], TOKEN), [scores, token(id)]);
    let end = finished(id, FinishReason::Length, 1, 2);
    assert_eq!(commit(&mut scheduler, &plans[1], TOKEN), [token(id), end], "once");
}

#[test]
fn an_embedding_ends_its_request() {
    let mut scheduler = scheduler(16, 4, 20);
    let id = add(&mut scheduler, Request { goal: Goal::Embed(Pooling::Mean), ..request(20, 1) });
    for last in [false, true] {
        let plan = plan(&mut scheduler);
        assert_eq!(plan.seqs[0].pool, Some(Pool { pooling: Pooling::Mean, last }));
        assert_eq!(plan.seqs[0].sample, None);
        let embeddings = if last { vec![vec![1.0, 0.0]] } else { Vec::new() };
        let result = StepResult { embeddings, ..Default::default() };
        scheduler.commit(&plan, &result, NOW, NOW);
    }
    let vector = vec![1.0, 0.0];
    let end = finished(id, FinishReason::Stop, 20, 0);
    assert_eq!(scheduler.take_events(), [Event::Embedding { id, vector }, end]);
    assert!(scheduler.is_idle());
}
