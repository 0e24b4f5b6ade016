//! Prefixes that are computed once and shared.

use super::*;
use crate::cache::HASHED;

fn caching(rows: usize, seqs: usize, blocks: usize) -> Scheduler {
    with(rows, seqs, blocks, |options| options.prefix_caching = true)
}

/// A prompt of `common` tokens, equal within a family, and `own` tokens.
fn prompt(family: u32, common: usize, own: &[u32]) -> Vec<u32> {
    let shared = (0..common as u32).map(|i| (i * family + i / 7 + family) % 90 + 1);
    shared.chain(own.iter().copied()).collect()
}

fn asking(prompt: Vec<u32>) -> Request {
    Request { prompt, ..request(1, 3) }
}

fn run_to_the_end(scheduler: &mut Scheduler) -> Vec<Event> {
    let mut events = Vec::new();
    while !scheduler.is_idle() {
        let plan = plan(scheduler);
        events.extend(commit(scheduler, &plan, TOKEN));
    }
    events
}

fn cached(events: &[Event]) -> Vec<usize> {
    let usage = |event: &Event| match event {
        Event::Finished { usage, .. } => Some(usage.cached_tokens),
        _ => None,
    };
    events.iter().filter_map(usage).collect()
}

#[test]
fn a_second_request_computes_only_what_the_first_did_not() {
    let mut scheduler = caching(64, 4, 20);
    add(&mut scheduler, asking(prompt(1, 40, &[3, 4])));
    run_to_the_end(&mut scheduler);
    add(&mut scheduler, asking(prompt(1, 40, &[5, 6, 7])));
    assert_eq!(step(&mut scheduler), [(0, 32, 11)]);
    assert_eq!(cached(&run_to_the_end(&mut scheduler)), [32]);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.prefix_cache_queries, metrics.prefix_cache_hits), (42 + 43, 32));
    let tab = &metrics.tabs[&0];
    assert_eq!((tab.prefix_cache_queries, tab.cached_tokens), (42 + 43, 32));
}

/// A slot is free, so each plan looks for somebody who need not wait for the prefix that all share.
#[test]
fn the_prompts_of_those_that_wait_are_hashed_once() {
    let mut scheduler = caching(64, 4, 1000);
    let ask = |own| asking(prompt(1, 2000, &[own]));
    add(&mut scheduler, ask(1));
    let before = HASHED.get();
    for own in 2..90 {
        add(&mut scheduler, ask(own));
    }
    assert_eq!(HASHED.get() - before, 88 * 2000);
    for _ in 0..20 {
        assert_eq!(step(&mut scheduler).len(), 1);
    }
    assert_eq!((scheduler.queue.len(), scheduler.free_slots.len()), (88, 3));
    assert_eq!(HASHED.get() - before, 88 * 2000, "twenty steps have hashed nothing");
}

#[test]
fn the_next_turn_of_a_chat_finds_the_answer_in_the_cache_too() {
    let mut scheduler = caching(64, 4, 20);
    let mut chat = prompt(2, 30, &[]);
    add(&mut scheduler, asking(chat.clone()));
    run_to_the_end(&mut scheduler);
    chat.extend([TOKEN; 3]);
    chat.extend([9; 10]);
    add(&mut scheduler, asking(chat));
    // The last token of an answer is sampled, but not computed.
    assert_eq!(step(&mut scheduler), [(0, 32, 11)]);
}

#[test]
fn a_fully_cached_prompt_computes_its_last_block_again() {
    let mut scheduler = caching(64, 4, 20);
    for expected in [(0, 0, 48), (0, 32, 16)] {
        add(&mut scheduler, asking(prompt(1, 48, &[])));
        assert_eq!(step(&mut scheduler), [expected]);
        run_to_the_end(&mut scheduler);
    }
}

#[test]
fn salts_and_options_keep_prefixes_apart() {
    for (salt, caches, expected) in [(0, true, 32), (1, true, 0), (0, false, 0)] {
        let mut scheduler = with(64, 4, 20, |options| options.prefix_caching = caches);
        add(&mut scheduler, asking(prompt(1, 40, &[3])));
        run_to_the_end(&mut scheduler);
        add(&mut scheduler, Request { salt, ..asking(prompt(1, 40, &[4])) });
        assert_eq!(cached(&run_to_the_end(&mut scheduler)), [expected]);
    }
}

#[test]
fn no_request_waits_for_a_prefix_of_another_salt() {
    for (salt, expected) in [(0, vec![(0, 0, 32)]), (1, vec![(0, 0, 16), (1, 0, 16)])] {
        let mut scheduler = caching(32, 4, 40);
        scheduler.options.long_prefill_threshold = 16;
        add(&mut scheduler, asking(prompt(1, 64, &[])));
        add(&mut scheduler, Request { salt, ..asking(prompt(1, 64, &[])) });
        assert_eq!(step(&mut scheduler), expected, "salt {salt}");
    }
}

#[test]
fn a_tab_that_floods_the_cache_evicts_its_own_prefixes() {
    for (tab_share, found) in [(0.5, 64), (1.0, 0)] {
        let mut scheduler = with(128, 4, 40, |options| {
            (options.prefix_caching, options.tab_share) = (true, tab_share);
        });
        let chat = || asking(prompt(1, 64, &[2]));
        add(&mut scheduler, chat());
        run_to_the_end(&mut scheduler);
        for i in 0..30 {
            let tab = TabId(1);
            add(&mut scheduler, Request { tab, ..asking(prompt(3, 5, &[i + 1; 80])) });
            run_to_the_end(&mut scheduler);
        }
        add(&mut scheduler, chat());
        assert_eq!(cached(&run_to_the_end(&mut scheduler)), [found], "a share of {tab_share}");
    }
}

#[test]
fn cached_blocks_of_a_closed_tab_count_for_no_tab() {
    let mut scheduler = caching(128, 4, 20);
    let ask = |i| Request { tab: TabId(1), ..asking(prompt(3, 5, &[i; 60])) };
    add(&mut scheduler, ask(1));
    run_to_the_end(&mut scheduler);
    assert_eq!(scheduler.cache.owned(1), 4);
    add(&mut scheduler, ask(1));
    let in_flight = plan(&mut scheduler);
    scheduler.close_tab(TabId(1), NOW);
    commit(&mut scheduler, &in_flight, TOKEN);
    assert_eq!(scheduler.cache.owned(1), 0);
    assert!(scheduler.is_idle());
    add(&mut scheduler, Request { tab: TabId(2), ..ask(1) });
    assert_eq!(cached(&run_to_the_end(&mut scheduler)), [64], "it is still found");
    assert_eq!(scheduler.cache.owned(2), 0, "the last block is free and holds no cached prefix");
}

#[test]
fn a_request_that_needs_every_row_computes_every_row() {
    let mut scheduler = caching(64, 64, 20);
    add(&mut scheduler, asking(prompt(1, 40, &[3])));
    run_to_the_end(&mut scheduler);
    let scored = Request { prompt_logprobs: Some(0), ..asking(prompt(1, 40, &[3])) };
    let embedded = Request { goal: Goal::Embed(Pooling::Mean), ..asking(prompt(1, 40, &[3])) };
    for (request, rows) in [(scored, 40), (embedded, 41)] {
        let id = add(&mut scheduler, request);
        assert_eq!(step(&mut scheduler), [(0, 0, rows)]);
        finish(&mut scheduler, id, FinishReason::Cancelled);
    }
}

#[test]
fn a_request_waits_for_the_prefix_that_another_is_computing() {
    let mut scheduler = caching(32, 4, 40);
    add(&mut scheduler, asking(prompt(1, 64, &[3])));
    add(&mut scheduler, asking(prompt(1, 64, &[4])));
    add(&mut scheduler, asking(prompt(3, 40, &[])));
    assert_eq!(step(&mut scheduler), [(0, 0, 32)]);
    assert_eq!(step(&mut scheduler), [(0, 32, 32)]);
    // All but one block of the shared prefix is computed.
    let third = plan(&mut scheduler);
    assert_eq!(shape(&third)[..2], [(0, 64, 1), (2, 64, 1)]);
    commit(&mut scheduler, &third, TOKEN);
    assert_eq!(cached(&run_to_the_end(&mut scheduler)), [0, 64, 0]);
}

#[test]
fn twins_share_the_blocks_of_their_prompt_and_copy_its_tail() {
    for caches in [true, false] {
        let mut scheduler = with(64, 4, 20, |options| options.prefix_caching = caches);
        let ids = scheduler.submit_many(asking(prompt(1, 40, &[])), 3, NOW).unwrap();
        assert_eq!(step(&mut scheduler), [(0, 0, 40)]);
        let fork = plan(&mut scheduler);
        assert_eq!(shape(&fork), [(0, 40, 1), (1, 39, 1), (2, 39, 1)]);
        let tables = fork.seqs[1..].iter().map(|seq| seq.blocks.clone()).collect::<Vec<_>>();
        assert_eq!(tables, [[1, 2, 4], [1, 2, 5]]);
        let copies = [4, 5].map(|to| BlockCopy { from: 3, to });
        assert_eq!(fork.copies, copies);
        let seeds = fork.seqs.iter().map(|seq| seq.sample.map(|sampling| sampling.seed));
        assert_eq!(seeds.collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
        commit(&mut scheduler, &fork, TOKEN);
        assert_eq!(scheduler.metrics().kv_cache_usage_perc, 5.0 / 20.0);
        let events = run_to_the_end(&mut scheduler);
        let ended = events.iter().filter(|event| matches!(event, Event::Finished { .. }));
        assert_eq!(ended.map(Event::id).collect::<Vec<_>>(), ids);
    }
}

#[test]
fn longer_cached_prefixes_go_first_but_no_request_is_passed_over_for_ever() {
    // Of a stranger nothing is cached, of an acquaintance less than of friends. Those that were passed over too often
    // go in the order in which they came.
    let [stranger, acquaintance] = [prompt(2, 48, &[]), prompt(3, 48, &[9])];
    for others in [vec![stranger.clone()], vec![stranger, acquaintance]] {
        let mut scheduler = caching(64, 1, 40);
        for cached in [prompt(1, 48, &[]), prompt(3, 32, &[])] {
            add(&mut scheduler, asking(cached));
            run_to_the_end(&mut scheduler);
        }
        let running = add(&mut scheduler, asking(prompt(5, 10, &[])));
        step(&mut scheduler);
        let others: Vec<RequestId> =
            others.into_iter().map(|other| add(&mut scheduler, asking(other))).collect();
        let friends: Vec<RequestId> =
            (0..12).map(|i| add(&mut scheduler, asking(prompt(1, 48, &[i + 1])))).collect();
        finish(&mut scheduler, running, FinishReason::Stop);
        let events = run_to_the_end(&mut scheduler);
        let ended = events.iter().filter(|event| matches!(event, Event::Finished { .. }));
        let mut expected = friends;
        expected.splice(8..8, others);
        assert_eq!(ended.map(Event::id).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_pinned_prefix_is_not_evicted_until_it_is_unpinned() {
    for pinned in [true, false] {
        let mut scheduler = caching(64, 4, 8);
        add(&mut scheduler, asking(prompt(1, 32, &[2])));
        run_to_the_end(&mut scheduler);
        let pin = scheduler.pin(&prompt(1, 32, &[]), 0).expect("it is cached");
        if !pinned {
            scheduler.unpin(pin);
        }
        add(&mut scheduler, asking(prompt(3, 90, &[])));
        add(&mut scheduler, asking(prompt(4, 90, &[])));
        run_to_the_end(&mut scheduler);
        add(&mut scheduler, asking(prompt(1, 32, &[2])));
        assert_eq!(cached(&run_to_the_end(&mut scheduler)), [if pinned { 32 } else { 0 }]);
    }
}

#[test]
fn a_prefix_is_unpinned_for_a_request_that_could_not_run_otherwise() {
    let mut scheduler = caching(200, 4, 8);
    add(&mut scheduler, asking(prompt(1, 64, &[2])));
    run_to_the_end(&mut scheduler);
    scheduler.pin(&prompt(1, 64, &[]), 0).expect("it is cached");
    let id = add(&mut scheduler, asking(prompt(2, 120, &[])));
    let events = run_to_the_end(&mut scheduler);
    assert_eq!(events.last(), Some(&finished(id, FinishReason::Length, 120, 3)));
}

#[test]
fn tokens_of_a_step_in_flight_are_not_found_in_the_cache_yet() {
    let mut scheduler = caching(64, 4, 20);
    add(&mut scheduler, asking(prompt(1, 33, &[])));
    let first = plan(&mut scheduler);
    let request = asking(prompt(1, 33, &[]));
    assert_eq!(looked_up(&scheduler, &request.prompt, 0), 0);
    commit(&mut scheduler, &first, TOKEN);
    assert_eq!(looked_up(&scheduler, &request.prompt, 0), 32);
}

#[test]
fn the_cache_is_reset_only_when_nothing_runs() {
    let mut scheduler = caching(64, 4, 20);
    let id = add(&mut scheduler, asking(prompt(1, 33, &[])));
    step(&mut scheduler);
    assert!(!scheduler.reset_prefix_cache(false));
    finish(&mut scheduler, id, FinishReason::Stop);
    assert!(scheduler.reset_prefix_cache(false));
    assert_eq!(looked_up(&scheduler, &prompt(1, 33, &[]), 0), 0);
}

#[test]
fn a_reset_may_preempt_running_requests_and_keeps_their_order() {
    let mut scheduler = caching(64, 4, 20);
    let prompts = [1, 2, 3].map(|family| prompt(family, 20, &[]));
    let ids =
        prompts.clone().map(|prompt| add(&mut scheduler, Request { prompt, ..request(1, 3) }));
    step(&mut scheduler);
    let flying = plan(&mut scheduler);
    assert!(!scheduler.reset_prefix_cache(true), "a step is in flight");
    assert_eq!(plan(&mut scheduler), StepPlan::default());
    commit(&mut scheduler, &flying, TOKEN);
    assert!(scheduler.reset_prefix_cache(true));
    assert!(prompts.iter().all(|prompt| looked_up(&scheduler, prompt, 0) == 0));

    let rest = plan(&mut scheduler);
    let begins = |seq: &SeqPlan| match &seq.tokens {
        RowTokens::Known(tokens) => tokens[..20].to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(rest.seqs.iter().map(begins).collect::<Vec<_>>(), prompts);
    assert_eq!(rest.seqs.iter().map(|seq| seq.tokens.count()).collect::<Vec<_>>(), [22, 22, 20]);
    let ends =
        ids[..2].iter().flat_map(|id| [token(*id), finished(*id, FinishReason::Length, 20, 3)]);
    assert_eq!(commit(&mut scheduler, &rest, TOKEN), ends.collect::<Vec<_>>());
}

#[test]
fn a_lookup_is_counted_once_and_apart_after_a_preemption() {
    let mut scheduler = caching(64, 4, 4);
    let prompts = [prompt(1, 31, &[]), prompt(2, 31, &[])];
    let ids = prompts.map(|prompt| add(&mut scheduler, Request { prompt, ..request(1, 20) }));
    while scheduler.metrics().num_preemptions == 0 {
        step(&mut scheduler);
    }
    finish(&mut scheduler, ids[0], FinishReason::Stop);
    step(&mut scheduler);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.prefix_cache_queries, metrics.prefix_cache_hits), (62, 0));
    assert!(metrics.preempted_queries > 31);
}
