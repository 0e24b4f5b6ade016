//! The order of tabs.

use std::collections::VecDeque;

use proptest::{collection::vec, option, prelude::*};

use super::{resumed::fixed, *};
use crate::{scheduler::queue::Queue, step::Draft};

fn from_tab(tab: u64, prompt: usize, max_tokens: usize) -> Request {
    Request { tab: TabId(tab), ..request(prompt, max_tokens) }
}

/// Tabs in the order in which their requests are admitted, one at a time.
fn admissions(scheduler: &mut Scheduler) -> Vec<u64> {
    let mut tabs = Vec::new();
    let mut last = None;
    while !scheduler.is_idle() {
        step(scheduler);
        if let Some(seq) = scheduler.running.first()
            && last.replace(seq.id) != Some(seq.id)
        {
            tabs.push(seq.tab.0);
        }
    }
    tabs
}

#[test]
fn tabs_take_turns_whatever_the_order_of_arrival() {
    let mut scheduler = scheduler(64, 1, 100);
    for _ in 0..4 {
        add(&mut scheduler, from_tab(0, 10, 5));
    }
    for tab in [1, 1, 2] {
        add(&mut scheduler, from_tab(tab, 10, 5));
    }
    assert_eq!(admissions(&mut scheduler), [0, 1, 2, 0, 1, 0, 0]);
}

#[test]
fn turns_are_counted_in_rows_and_not_in_requests() {
    let mut scheduler = scheduler(64, 1, 100);
    for _ in 0..2 {
        add(&mut scheduler, from_tab(0, 60, 10));
    }
    for _ in 0..8 {
        add(&mut scheduler, from_tab(1, 5, 4));
    }
    let order = admissions(&mut scheduler);
    assert_eq!(order[0], 0);
    assert_eq!(order[1..9], [1; 8], "eight short answers cost less than one long one");
}

/// Has tab 0 served, and then both it and another ask: the order in which they are admitted.
fn beside_a_newcomer(scheduler: &mut Scheduler, newcomer: u64) -> Vec<u64> {
    for _ in 0..6 {
        add(scheduler, from_tab(0, 95, 5));
    }
    while !scheduler.is_idle() {
        step(scheduler);
    }
    for _ in 0..6 {
        add(scheduler, from_tab(0, 95, 5));
        add(scheduler, from_tab(newcomer, 95, 5));
    }
    admissions(scheduler)
}

#[test]
fn idleness_earns_one_turn_and_no_more() {
    let order = beside_a_newcomer(&mut scheduler(64, 1, 100), 1);
    assert_eq!(order, [1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0]);
}

#[test]
fn a_tab_that_waits_for_its_constraint_counts_as_idle() {
    let mut scheduler = scheduler(64, 1, 100);
    let waits = add(&mut scheduler, Request { constrained: true, ..from_tab(1, 50, 5) });
    let order = beside_a_newcomer(&mut scheduler, 2);
    assert_eq!(
        order,
        [2, 2, 2, 0, 2, 0, 2, 0, 2, 0, 0, 0],
        "a newcomer is as far as who is served"
    );

    add(&mut scheduler, from_tab(0, 95, 5));
    scheduler.constrain(waits, fixed(&[TOKEN]), NOW);
    let rows = |tab| scheduler.queue.standing(TabId(tab)).1;
    assert!(rows(0) - rows(1) <= Queue::QUANTUM, "a wait earns one turn and no more");
}

#[test]
fn visible_tabs_go_before_hidden_ones() {
    let mut scheduler = scheduler(64, 1, 100);
    for tab in [0, 1, 2, 0, 1, 2] {
        add(&mut scheduler, from_tab(tab, 10, 5));
    }
    scheduler.set_visible(TabId(0), false);
    assert_eq!(admissions(&mut scheduler), [1, 2, 1, 2, 0, 0]);

    scheduler.set_visible(TabId(0), true);
    for tab in [0, 1] {
        add(&mut scheduler, from_tab(tab, 10, 5));
    }
    scheduler.set_visible(TabId(1), false);
    assert_eq!(admissions(&mut scheduler), [0, 1]);
}

#[test]
fn prompts_of_tabs_that_were_served_less_get_their_rows_first() {
    let mut scheduler = scheduler(64, 4, 100);
    add(&mut scheduler, from_tab(0, 1000, 5));
    for _ in 0..3 {
        step(&mut scheduler);
    }
    add(&mut scheduler, from_tab(1, 50, 5));
    // Running requests come first; from then on the new one is ahead.
    step(&mut scheduler);
    scheduler.options.long_prefill_threshold = 40;
    let shapes = [(); 2].map(|()| step(&mut scheduler));
    assert_eq!(shapes[0].len(), 2, "{shapes:?}");
    assert_eq!(shapes[1].first().map(|(slot, ..)| *slot), Some(1), "{shapes:?}");
}

/// A tab with nothing running waits at most for the steps in flight, if there are no more tabs than
/// slots: a tab that runs several requests gives one slot up.
#[test]
fn a_new_tab_does_not_wait_behind_one_that_fills_all_slots() {
    let mut scheduler = scheduler(256, 4, 100);
    for _ in 0..20 {
        add(&mut scheduler, from_tab(0, 10, 500));
    }
    let mut in_flight = vec![plan(&mut scheduler), plan(&mut scheduler)];
    for tab in [1, 2, 3] {
        add(&mut scheduler, from_tab(tab, 10, 500));
        let mut steps = 0;
        while scheduler.running.iter().all(|seq| seq.tab != TabId(tab)) {
            assert!(steps <= 3, "tab {tab} still waits after {steps} steps");
            let oldest = in_flight.remove(0);
            commit(&mut scheduler, &oldest, TOKEN);
            in_flight.push(plan(&mut scheduler));
            steps += 1;
        }
    }
    let mut tabs: Vec<u64> = scheduler.running.iter().map(|seq| seq.tab.0).collect();
    tabs.sort_unstable();
    assert_eq!(
        tabs,
        [0, 1, 2, 3],
        "each tab has one slot, and none takes the last slot of another"
    );
    for _ in 0..5 {
        let oldest = in_flight.remove(0);
        commit(&mut scheduler, &oldest, TOKEN);
        in_flight.push(plan(&mut scheduler));
    }
    assert_eq!(scheduler.metrics().num_preemptions, 3);
}

#[test]
fn what_a_tab_was_served_before_it_rested_keeps_it_from_nothing() {
    for (slots, earlier) in [(16, 5), (4, 40)] {
        let mut scheduler = scheduler(256, slots, 1000);
        for _ in 0..earlier {
            add(&mut scheduler, from_tab(1, 50, 100));
        }
        while !scheduler.is_idle() {
            step(&mut scheduler);
        }
        for _ in 0..3 * slots {
            add(&mut scheduler, from_tab(2, 10, 500));
        }
        let mut in_flight = vec![plan(&mut scheduler), plan(&mut scheduler)];
        let id = add(&mut scheduler, from_tab(1, 10, 5));
        for steps in 1.. {
            let oldest = in_flight.remove(0);
            let events = commit(&mut scheduler, &oldest, TOKEN);
            if events.contains(&token(id)) {
                break;
            }
            // Those in flight, its own prompt and two more.
            assert!(steps <= 5, "{slots} slots: nothing after {steps} steps");
            in_flight.push(plan(&mut scheduler));
        }
    }
}

/// A request of a random kind.
#[derive(Clone, Debug)]
struct Kind {
    tab: u64,
    prompt: usize,
    max_tokens: usize,
    /// Whether each of its tokens is waited for.
    waits: bool,
    speculates: bool,
    /// After how many steps its constraint comes, if it has one.
    constraint: Option<usize>,
}

/// The step at which what compiles constraints is ready: many come at once.
const READY: usize = 40;

fn kinds(tabs: u64, count: usize) -> impl Strategy<Value = Vec<Kind>> {
    // One tab asks for more than the others.
    let tab = prop_oneof![Just(0), 0..tabs];
    let sizes = (tab, 1..400_usize, 1..300_usize);
    let constraint = option::of(prop_oneof![Just(READY), 0..100_usize]);
    let rules = (any::<bool>(), any::<bool>(), constraint);
    let kind = |((tab, prompt, max_tokens), (waits, speculates, constraint))| Kind {
        tab,
        prompt,
        max_tokens,
        waits,
        speculates,
        constraint,
    };
    vec((sizes, rules).prop_map(kind), 0..count)
}

/// A scheduler at work, with up to two steps in flight.
struct AtWork<'a> {
    scheduler: &'a mut Scheduler,
    in_flight: VecDeque<StepPlan>,
    now: Duration,
    /// What a row adds to the millisecond of a step.
    row: Duration,
    /// Whether what the executor drafts is accepted.
    accepts: bool,
    /// Constraints that are to come: after how many steps, and whose.
    awaited: Vec<(usize, RequestId)>,
}

impl<'a> AtWork<'a> {
    fn new(scheduler: &'a mut Scheduler) -> AtWork<'a> {
        let (in_flight, awaited) = (VecDeque::new(), Vec::new());
        let row = Duration::ZERO;
        AtWork { scheduler, in_flight, now: NOW, row, accepts: false, awaited }
    }

    fn ask(&mut self, kind: Kind) -> RequestId {
        let Kind { tab, prompt, max_tokens, waits, speculates, constraint } = kind;
        let bad_words = if waits { vec![vec![8, 9]] } else { Vec::new() };
        let constrained = constraint.is_some();
        let ask = from_tab(tab, prompt, max_tokens);
        let id = add(self.scheduler, Request { bad_words, speculates, constrained, ..ask });
        self.awaited.extend(constraint.map(|steps| (steps, id)));
        id
    }

    fn is_idle(&self) -> bool {
        self.scheduler.is_idle() && self.awaited.is_empty()
    }

    /// Plans steps, and ends the oldest. Returns its rows, and whose tokens came.
    fn step(&mut self) -> (usize, Vec<RequestId>) {
        self.plan();
        self.end()
    }

    /// Plans steps as long as there is something to compute, until two are in flight.
    fn plan(&mut self) {
        while self.in_flight.len() < 2 {
            let plan = self.scheduler.plan(self.now);
            if plan.seqs.is_empty() {
                break;
            }
            self.in_flight.push_back(plan);
        }
    }

    /// Ends the oldest step in flight, if there is one, and sets the constraints that come meanwhile.
    fn end(&mut self) -> (usize, Vec<RequestId>) {
        for (left, id) in std::mem::take(&mut self.awaited) {
            match left.checked_sub(1) {
                Some(left) => self.awaited.push((left, id)),
                None => self.scheduler.constrain(id, fixed(&[TOKEN; 300]), self.now),
            }
        }
        let Some(plan) = self.in_flight.pop_front() else { return (0, Vec::new()) };
        let took = Duration::from_millis(1) + self.row * plan.rows() as u32;
        self.now += took;
        let is_right = |draft: &&Draft| draft.token.map_or(self.accepts, |token| token == TOKEN);
        let samples = plan.seqs.iter().filter(|seq| seq.sample.is_some()).flat_map(|seq| {
            let accepted = seq.drafts.iter().take_while(is_right).count();
            let sample = Sample { slot: seq.slot, token: TOKEN, ..Sample::default() };
            vec![sample; 1 + accepted]
        });
        let result = StepResult { samples: samples.collect(), ..StepResult::default() };
        self.scheduler.commit(&plan, &result, took, self.now);
        let came = |event| match event {
            Event::Token { id, .. } => Some(id),
            _ => None,
        };
        (plan.rows(), self.scheduler.take_events().into_iter().filter_map(came).collect())
    }
}

/// The steps after which each request got its first token, and the rows that were computed, until all
/// have ended.
fn first_tokens(scheduler: &mut Scheduler, ids: &[RequestId]) -> (Vec<usize>, usize) {
    let (mut first, mut rows) = (vec![None; ids.len()], 0);
    let mut work = AtWork::new(scheduler);
    for at in 0.. {
        let (computed, came) = work.step();
        if computed == 0 {
            break;
        }
        rows += computed;
        for place in came.iter().filter_map(|id| ids.iter().position(|other| other == id)) {
            first[place].get_or_insert(at);
        }
    }
    scheduler.check_integrity(std::iter::empty());
    (first.into_iter().map(|at| at.expect("a token")).collect(), rows)
}

proptest! {
    /// With no more tabs than slots a newcomer to an engine at work waits for the steps in flight, its own
    /// prompt and two more, whatever happened before and whoever else asks for what.
    #[test]
    fn no_load_and_no_history_keep_a_tab_waiting(
        history in kinds(8, 20),
        load in kinds(7, 40),
        steps in prop_oneof![READY - 2..READY + 4, 8..100_usize],
        prompt in 1..=64_usize,
        constraint in option::of(0..20_usize),
        drafted in any::<bool>(),
        adaptive_drafts in any::<bool>(),
        accepts in any::<bool>(),
        row in 0..300_u64,
    ) {
        let mut scheduler = with(256, 8, 4000, |options| {
            (options.max_drafts, options.adaptive_drafts) = (3, adaptive_drafts);
        });
        scheduler.capacity.logit_rows = 32;
        let mut scheduler = scheduler.with_device_drafts(if drafted { 3 } else { 0 }, 0);
        let row = Duration::from_micros(row);
        let mut work = AtWork { row, accepts, ..AtWork::new(&mut scheduler) };
        for kind in history {
            work.ask(kind);
        }
        while !work.is_idle() {
            work.step();
        }
        for kind in load {
            work.ask(kind);
        }
        for _ in 0..steps {
            work.step();
        }
        work.plan();
        let (waits, speculates) = (false, true);
        let id = work.ask(Kind { tab: 7, prompt, max_tokens: 5, waits, speculates, constraint });
        let due = constraint.unwrap_or(0) + 5;
        let came = (0..due).any(|_| {
            let (_, came) = work.end();
            work.plan();
            came.contains(&id)
        });
        work.scheduler.check_integrity(work.in_flight.iter());
        prop_assert!(came, "no token in the steps in flight, its own and two more");
    }
}

#[test]
fn with_more_tabs_than_slots_they_take_turns_in_time_slices() {
    // What a first token waits for is the load, not the longest answers.
    for longest in [400, 3000] {
        let mut scheduler = with(256, 16, 20_000, |options| options.prefix_caching = true);
        let answer = |tab: u64| if tab.is_multiple_of(4) { longest } else { 300 };
        let ask = |tab: u64| Request {
            prompt: vec![tab as u32 + 1; 60],
            ..from_tab(tab, 60, answer(tab))
        };
        let ids: Vec<RequestId> = (0..64).map(|tab| add(&mut scheduler, ask(tab))).collect();
        let needed = (0..64).map(|tab| 60 + answer(tab) - 1).sum::<usize>();
        let (mut first, rows) = first_tokens(&mut scheduler, &ids);
        first.sort_unstable();
        assert!(first[63] < 4 * 256 + 100, "{longest} tokens: {first:?}");
        assert!(rows < needed * 11 / 10, "{rows} rows for {needed}");
    }
}

#[test]
fn where_blocks_lack_they_take_turns_too() {
    // Slots for all, memory for four, and each answer is as long as the one before.
    for longest in [400_usize, 3000] {
        let mut scheduler = with(256, 16, 4 * (20 + longest).div_ceil(16), |_| {});
        let ask =
            |tab: u64| Request { prompt: vec![tab as u32 + 1; 20], ..from_tab(tab, 20, longest) };
        let before = add(&mut scheduler, ask(16));
        first_tokens(&mut scheduler, &[before]);
        let ids: Vec<RequestId> = (0..16).map(|tab| add(&mut scheduler, ask(tab))).collect();
        let needed = 16 * (20 + longest - 1);
        let (mut first, rows) = first_tokens(&mut scheduler, &ids);
        first.sort_unstable();
        assert!(first[15] < 4 * 256 + 100, "{longest} tokens: {first:?}");
        // Each is computed again once at most.
        let preemptions = scheduler.metrics().num_preemptions;
        assert!(preemptions <= 16, "{longest} tokens: {preemptions}, {rows} rows for {needed}");
    }
}

#[test]
fn a_tab_too_many_costs_a_preemption_a_turn() {
    let mut scheduler = with(256, 4, 2000, |options| options.prefix_caching = true);
    let ids: Vec<RequestId> =
        (0..5).map(|tab| add(&mut scheduler, from_tab(tab, 10, 2000))).collect();
    let (first, _) = first_tokens(&mut scheduler, &ids);
    assert!(first[4] < 300, "{first:?}");
    // 10,000 tokens in four slots are ten turns of 256 rows.
    let preemptions = scheduler.metrics().num_preemptions;
    assert!(preemptions <= 11, "{preemptions} preemptions");
}

#[test]
fn no_request_is_preempted_for_a_tab_of_lower_rank() {
    for (hidden, priority) in [(true, 0), (false, 1)] {
        let mut scheduler = with(64, 2, 100, |options| options.policy = Policy::Priority);
        for _ in 0..2 {
            add(&mut scheduler, from_tab(0, 10, 50));
        }
        step(&mut scheduler);
        add(&mut scheduler, Request { priority, ..from_tab(1, 10, 5) });
        scheduler.set_visible(TabId(1), !hidden);
        for _ in 0..10 {
            assert_eq!(step(&mut scheduler).len(), 2);
        }
        assert_eq!(scheduler.metrics().num_preemptions, 0, "hidden {hidden}, priority {priority}");
    }
}

#[test]
fn the_queue_is_bounded_for_all_and_for_each() {
    let mut scheduler = with(64, 1, 10, |options| {
        (options.max_queue, options.max_queue_per_tab) = (5, 3);
    });
    let mut ask = |tab, n| scheduler.submit_many(from_tab(tab, 5, 5), n, NOW).map(|ids| ids.len());
    assert_eq!(ask(0, 3), Ok(3));
    assert_eq!(ask(0, 1), Err(Error::QueueFull { waiting: 3, limit: 3 }));
    assert_eq!(ask(1, 1), Ok(1));
    assert_eq!(ask(2, 2), Err(Error::QueueFull { waiting: 4, limit: 5 }), "all or none");
    assert_eq!(ask(2, 1), Ok(1));
    while !scheduler.is_idle() {
        step(&mut scheduler);
    }
    assert_eq!(scheduler.metrics().request_success.length, 5);
}

#[test]
fn closing_a_tab_cancels_its_requests_alone() {
    let mut scheduler = scheduler(64, 2, 10);
    let ids = [0, 1, 0, 1].map(|tab| add(&mut scheduler, from_tab(tab, 5, 5)));
    step(&mut scheduler);
    scheduler.close_tab(TabId(0), NOW);
    let cancelled = |id, tokens| finished(id, FinishReason::Cancelled, 5, tokens);
    assert_eq!(scheduler.take_events(), [cancelled(ids[0], 1), cancelled(ids[2], 0)]);
    while !scheduler.is_idle() {
        step(&mut scheduler);
    }
    let counts = scheduler.metrics().request_success;
    assert_eq!((counts.abort, counts.length), (2, 2));
}
