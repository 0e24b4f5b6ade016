//! Held requests.

use super::*;

#[test]
fn a_held_request_gets_no_rows_until_it_is_released() {
    let mut scheduler = scheduler(16, 4, 20);
    let [prompt, answer] = submit(&mut scheduler, &[40, 10])[..] else { unreachable!() };
    assert_eq!(step(&mut scheduler), [(0, 0, 16)]);
    assert_eq!(step(&mut scheduler), [(0, 16, 16)]);
    assert_eq!(step(&mut scheduler), [(0, 32, 8), (1, 0, 8)]);
    scheduler.hold(prompt, true);
    assert_eq!(step(&mut scheduler), [(1, 8, 2)]);
    let in_flight = plan(&mut scheduler);
    assert_eq!(shape(&in_flight), [(1, 10, 1)]);
    scheduler.hold(answer, true);
    scheduler.hold(answer, true);
    assert!(!scheduler.is_idle(), "a step is in flight");
    assert_eq!(plan(&mut scheduler), StepPlan::default());
    assert_eq!(commit(&mut scheduler, &in_flight, TOKEN), [token(answer)]);
    assert!(scheduler.is_idle());
    assert_eq!(scheduler.metrics().num_requests_running, 2, "both keep their blocks");

    scheduler.hold(answer, false);
    assert!(!scheduler.is_idle());
    assert_eq!(step(&mut scheduler), [(1, 11, 1)]);
    scheduler.hold(prompt, false);
    assert_eq!(step(&mut scheduler), [(0, 40, 1), (1, 12, 1)]);
}

#[test]
fn a_held_request_in_the_queue_is_skipped() {
    let mut scheduler = scheduler(64, 1, 20);
    let ids = submit(&mut scheduler, &[10, 20, 30]);
    scheduler.hold(ids[0], true);
    assert_eq!(step(&mut scheduler), [(0, 0, 20)]);
    finish(&mut scheduler, ids[1], FinishReason::Stop);
    scheduler.hold(ids[0], false);
    assert_eq!(step(&mut scheduler), [(0, 0, 10)], "it keeps its place");
    scheduler.hold(ids[2], true);
    finish(&mut scheduler, ids[0], FinishReason::Stop);
    assert!(scheduler.is_idle());
    assert_eq!(plan(&mut scheduler), StepPlan::default());
    scheduler.hold(ids[2], false);
    assert_eq!(step(&mut scheduler), [(0, 0, 30)]);
}

#[test]
fn held_requests_are_preempted_before_all_others() {
    // Four blocks, two for each prompt and its first token.
    let mut scheduler = scheduler(64, 4, 4);
    let ids = submit(&mut scheduler, &[31, 31]);
    step(&mut scheduler);
    scheduler.hold(ids[0], true);
    assert_eq!(step(&mut scheduler), [(1, 31, 1)]);
    assert_eq!(step(&mut scheduler), [(1, 32, 1)], "the first one was preempted");
    assert_eq!(scheduler.metrics().num_preemptions, 1);
    finish(&mut scheduler, ids[1], FinishReason::Stop);
    assert!(scheduler.is_idle());

    scheduler.hold(ids[0], false);
    let plan = plan(&mut scheduler);
    let known = [vec![1; 31], vec![TOKEN]].concat();
    assert_eq!(plan.seqs[0].tokens, RowTokens::Known(known), "its output is kept");
}

#[test]
fn slots_and_blocks_of_held_requests_go_to_waiting_ones() {
    // Slots or blocks run out.
    for (slots, blocks) in [(2, 20), (4, 4)] {
        let mut scheduler = scheduler(64, slots, blocks);
        let ids = submit(&mut scheduler, &[20, 20, 20]);
        assert_eq!(step(&mut scheduler).len(), 2);
        let surplus = plan(&mut scheduler);
        scheduler.hold(ids[0], true);
        let next = plan(&mut scheduler);
        assert_eq!(shape(&next), [(1, 21, 1)], "a step in flight still needs them");
        commit(&mut scheduler, &surplus, TOKEN);
        commit(&mut scheduler, &next, TOKEN);
        let counts: Vec<usize> = step(&mut scheduler).iter().map(|(.., count)| *count).collect();
        assert_eq!(counts, [1, 20], "{slots} slots, {blocks} blocks");
        assert_eq!(scheduler.metrics().num_preemptions, 1);
    }
}

#[test]
fn a_request_that_waits_for_its_constraint_gives_its_blocks_to_others() {
    // Four blocks; three tabs, so that no turn decides.
    let mut scheduler = scheduler(64, 4, 4);
    let constrained = Request { constrained: true, ..request(40, 5) };
    let waits = add(&mut scheduler, constrained);
    let other = add(&mut scheduler, Request { tab: TabId(1), ..request(31, 40) });
    assert_eq!(step(&mut scheduler), [(0, 0, 39)], "all but the row that samples");
    let mut rows = 0;
    for _ in 0..40 {
        rows += step(&mut scheduler).iter().filter(|(_, start, _)| *start >= 31).count();
        if scheduler.running.iter().all(|seq| seq.id != other) && scheduler.queue.len() == 0 {
            break;
        }
    }
    assert!(rows > 25, "the other one goes on to the end of the pool");
    assert!(scheduler.running.iter().chain(scheduler.queue.iter()).any(|seq| seq.id == waits));
}

#[test]
fn requests_that_wait_for_their_constraints_do_not_take_turns() {
    let mut scheduler = scheduler(64, 4, 4);
    for tab in [0, 1] {
        add(&mut scheduler, Request { constrained: true, tab: TabId(tab), ..request(40, 5) });
    }
    let rows: usize = (0..10).map(|_| step(&mut scheduler).len()).sum();
    assert_eq!(rows, 2, "each computes its prompt once");
    assert!(scheduler.is_idle());
}

#[test]
fn no_request_waits_for_a_prefix_or_twin_that_is_held() {
    for twins in [false, true] {
        let mut scheduler = with(16, 4, 40, |options| options.prefix_caching = true);
        let ask = || request(100, 3);
        let ids = match twins {
            true => scheduler.submit_many(ask(), 2, NOW).unwrap(),
            false => [ask(), ask()].map(|request| add(&mut scheduler, request)).to_vec(),
        };
        assert_eq!(step(&mut scheduler), [(0, 0, 16)]);
        assert_eq!(step(&mut scheduler), [(0, 16, 16)], "the second waits for the first");
        scheduler.hold(ids[0], true);
        assert_eq!(step(&mut scheduler), [(1, 32, 16)], "twins: {twins}");
    }
}

#[test]
fn a_held_twin_shares_a_prompt_that_it_has_computed() {
    let mut scheduler = with(64, 1, 40, |options| options.prefix_caching = true);
    let ids = scheduler.submit_many(request(40, 3), 2, NOW).unwrap();
    step(&mut scheduler);
    scheduler.hold(ids[0], true);
    scheduler.free_slots.push(1);
    scheduler.options.max_running = 2;
    scheduler.capacity.seqs = 2;
    assert_eq!(step(&mut scheduler), [(1, 39, 1)]);
}

#[test]
fn held_requests_can_be_cancelled_and_their_tabs_closed() {
    let mut scheduler = scheduler(64, 1, 20);
    let tab = TabId(3);
    let ids = [1, 2, 3].map(|_| add(&mut scheduler, Request { tab, ..request(10, 5) }));
    step(&mut scheduler);
    ids.iter().for_each(|id| scheduler.hold(*id, true));
    let cancelled = |id, tokens| finished(id, FinishReason::Cancelled, 10, tokens);
    let end = finish(&mut scheduler, ids[1], FinishReason::Cancelled);
    assert_eq!(end, [cancelled(ids[1], 0)]);
    scheduler.close_tab(tab, NOW);
    assert_eq!(scheduler.take_events(), [cancelled(ids[0], 1), cancelled(ids[2], 0)]);
    scheduler.check_integrity(std::iter::empty());
    scheduler.hold(ids[0], false);
    assert!(scheduler.is_idle());
    assert_eq!(scheduler.metrics().kv_cache_usage_perc, 0.0);
}

#[test]
fn holding_earns_no_more_turns_than_being_idle() {
    let mut scheduler = scheduler(64, 1, 100);
    let of = |tab| Request { tab: TabId(tab), ..request(95, 5) };
    let held = add(&mut scheduler, of(1));
    scheduler.hold(held, true);
    let run = |scheduler: &mut Scheduler| {
        while !scheduler.is_idle() {
            step(scheduler);
        }
    };
    for _ in 0..6 {
        add(&mut scheduler, of(0));
    }
    run(&mut scheduler);
    for _ in 0..6 {
        add(&mut scheduler, of(0));
    }
    scheduler.hold(held, false);
    for _ in 0..5 {
        add(&mut scheduler, of(1));
    }
    let mut tabs = Vec::new();
    while !scheduler.is_idle() {
        let admitted = scheduler.metrics().num_requests_running == 0;
        step(&mut scheduler);
        tabs.extend(scheduler.running.first().filter(|_| admitted).map(|seq| seq.tab.0));
    }
    assert_eq!(tabs, [1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0], "one short turn ahead");
}
