//! Preemption when blocks run out, and what is left at the end.

use super::*;

fn by_priority(blocks: usize) -> Scheduler {
    with(1024, 16, blocks, |options| options.policy = Policy::Priority)
}

fn with_priority(prompt: usize, priority: i32) -> Request {
    Request { priority, ..request(prompt, 1000) }
}

#[test]
fn the_latest_is_preempted_and_its_step_in_flight_still_counts() {
    // Ten blocks, five for each prompt.
    let mut scheduler = scheduler(1024, 16, 10);
    let ids = submit(&mut scheduler, &[80, 80]);
    let prompts = plan(&mut scheduler);
    assert_eq!(shape(&prompts), [(0, 0, 80), (1, 0, 80)]);
    assert_eq!(plan(&mut scheduler), StepPlan::default(), "both need a sixth block");
    assert_eq!(commit(&mut scheduler, &prompts, 42).len(), 2);
    assert_eq!(scheduler.metrics().num_preemptions, 1);
    assert_eq!(step(&mut scheduler), [(0, 80, 1)]);

    finish(&mut scheduler, ids[0], FinishReason::Stop);
    let resumed = plan(&mut scheduler);
    let known = [vec![1; 80], vec![42]].concat();
    assert_eq!(resumed.seqs[0].tokens, RowTokens::Known(known), "its token is kept");
}

#[test]
fn the_lowest_priority_is_preempted_however_early_it_came() {
    let mut scheduler = by_priority(5);
    let low = add(&mut scheduler, with_priority(32, 5));
    step(&mut scheduler);
    let high = add(&mut scheduler, with_priority(30, 0));
    assert_eq!(step(&mut scheduler), [(0, 32, 1), (1, 0, 30)]);
    // The pool is full; the third block of the important one comes from the other.
    for _ in 0..2 {
        step(&mut scheduler);
    }
    assert_eq!(scheduler.metrics().num_preemptions, 0);
    assert_eq!(step(&mut scheduler), [(1, 32, 1)]);
    assert_eq!(scheduler.queue.iter().map(|seq| seq.id).collect::<Vec<_>>(), [low]);

    finish(&mut scheduler, high, FinishReason::Stop);
    let resumed = plan(&mut scheduler);
    let RowTokens::Known(tokens) = &resumed.seqs[0].tokens else { panic!("{resumed:?}") };
    assert_eq!((tokens.len(), resumed.seqs[0].start), (36, 0), "prompt and output");
}

#[test]
fn priorities_order_the_queue_and_arrival_breaks_ties() {
    let mut scheduler = with(1024, 1, 100, |options| options.policy = Policy::Priority);
    let ids = [2, 0, 1, 0].map(|priority| add(&mut scheduler, with_priority(10, priority)));
    let served: Vec<RequestId> = (0..4)
        .map(|_| {
            step(&mut scheduler);
            let id = scheduler.running[0].id;
            finish(&mut scheduler, id, FinishReason::Stop);
            id
        })
        .collect();
    assert_eq!(served, [ids[1], ids[3], ids[2], ids[0]]);
}

#[test]
fn the_greatest_rank_is_preempted() {
    let mut scheduler = by_priority(6);
    let ids = [1, 3, 3].map(|priority| add(&mut scheduler, with_priority(32, priority)));
    assert_eq!(step(&mut scheduler).len(), 3);
    step(&mut scheduler);
    let waiting: Vec<RequestId> = scheduler.queue.iter().map(|seq| seq.id).collect();
    assert_eq!(waiting, [ids[2]], "the latest of the lowest priority");
}

#[test]
fn admission_leaves_the_watermark_free_while_others_run() {
    let mut scheduler = with(1024, 16, 10, |options| options.watermark = 0.2);
    submit(&mut scheduler, &[160 - 16]);
    assert_eq!(step(&mut scheduler), [(0, 0, 144)], "alone it may take all");
    let mut scheduler = with(1024, 16, 10, |options| options.watermark = 0.2);
    submit(&mut scheduler, &[64, 64, 16]);
    assert_eq!(step(&mut scheduler), [(0, 0, 64), (1, 0, 64)]);
    assert_eq!(step(&mut scheduler).len(), 2, "a third would leave one block");
}

#[test]
fn nothing_is_left_when_all_have_ended() {
    let mut scheduler = with(64, 4, 20, |options| options.prefix_caching = true);
    for _ in 0..5 {
        add(&mut scheduler, request(10, 10));
    }
    while !scheduler.is_idle() {
        step(&mut scheduler);
    }
    let metrics = scheduler.metrics();
    assert_eq!(metrics.kv_cache_usage_perc, 0.0);
    assert_eq!(metrics.request_success.length, 5);
    assert!(scheduler.reset_prefix_cache(false));
}

#[test]
fn a_window_frees_blocks_and_makes_long_prompts_fit() {
    let window = Some(Window { sinks: 16, tokens: 32 });
    let capacity = Capacity {
        groups: KvGroups::one(window),
        context: 100_000,
        ..scheduler(16, 1, 8).capacity
    };
    let options = Options { step_seconds: f64::INFINITY, ..Default::default() };
    let mut scheduler = Scheduler::new(capacity, options);
    let prompt = (0..1000).map(|i| i % 90 + 1).collect();
    let id = add(&mut scheduler, Request { prompt, ..request(1, 500) });
    let mut most: f64 = 0.0;
    let mut events = Vec::new();
    while !scheduler.is_idle() {
        let plan = plan(&mut scheduler);
        events = commit(&mut scheduler, &plan, TOKEN);
        most = most.max(scheduler.metrics().kv_cache_usage_perc);
    }
    assert_eq!(events[1], finished(id, FinishReason::Length, 1000, 500));
    assert!(most <= 5.0 / 8.0, "sinks, window and what a step adds: {most}");
    assert_eq!(scheduler.metrics().num_preemptions, 0);
}

/// Eight tabs ask one thing after another, which fit into the pool only in part.
#[test]
fn hardly_a_row_is_computed_twice_where_answers_grow() {
    let mut scheduler = scheduler(256, 16, 256);
    let (prompt, answer, rounds) = (200, 400, 10);
    let ask = |scheduler: &mut Scheduler, tab| {
        add(scheduler, Request { tab: TabId(tab), ..request(prompt, answer) })
    };
    let mut asked: Vec<RequestId> = (0..8).map(|tab| ask(&mut scheduler, tab)).collect();
    let (mut rows, mut ended) = (0, 0);
    while ended < 8 * rounds {
        let plan = plan(&mut scheduler);
        rows += plan.rows();
        for event in commit(&mut scheduler, &plan, TOKEN) {
            let Event::Finished { id, .. } = event else { continue };
            ended += 1;
            let tab = asked.iter().position(|asked| *asked == id).expect("a tab asked it");
            asked[tab] = ask(&mut scheduler, tab as u64);
        }
    }
    let needed = ended * (prompt + answer - 1);
    assert!(10 * rows < 11 * needed, "{rows} rows for {needed}");
}

/// Two prompts that share no block take turns in memory for one of them.
#[test]
fn blocks_are_restored_unless_it_is_faster_to_compute_them() {
    let (row, blocks) = (Duration::from_millis(1), 16);
    for (block, pays) in [(row, true), (100 * row, false)] {
        let Scheduler { mut capacity, options, .. } =
            with(256, 1, blocks + 2, |options| options.prefix_caching = true);
        capacity.host = HostMemory { blocks: 4 * blocks, saves: 2 * blocks, reads: 0 };
        let mut scheduler = Scheduler::new(capacity, options);
        let copies: Vec<[usize; 2]> = (0..12)
            .map(|round| {
                // The last is new.
                let token = if round < 11 { 1 + round % 2 } else { 3 };
                let prompt = vec![token; blocks * BLOCK_SIZE];
                add(&mut scheduler, Request { prompt, ..request(1, 1) });
                let [mut saves, mut restores] = [0, 0];
                while !scheduler.is_idle() {
                    let plan = plan(&mut scheduler);
                    (saves, restores) = (saves + plan.saves.len(), restores + plan.restores.len());
                    let took = row * plan.rows() as u32 + block * plan.restores.len() as u32;
                    scheduler.commit(&plan, &answer(&plan, TOKEN), took, NOW);
                    scheduler.take_events();
                }
                [saves, restores]
            })
            .collect();
        assert_ne!(copies[2][1], 0, "nothing is known yet: {copies:?}");
        assert_eq!([copies[11][0], copies[10][1]].map(|count| count > 0), [pays; 2], "{copies:?}");
    }
}
