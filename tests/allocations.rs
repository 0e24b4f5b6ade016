//! Allocations of the scheduler: a step costs the host the same for every context length.
#![cfg(not(target_arch = "wasm32"))] // the counting allocator is native only

use std::time::Duration;

use tabloom::{
    engine::Options,
    scheduler::{Request, Scheduler},
    step::{BLOCK_SIZE, Capacity, HostMemory, KvGroups, Sample, StepPlan, StepResult},
};

const SEQS: usize = 16;
const CONTEXT: usize = 10_000;

/// A scheduler whose sequences all decode, after prompts and answers of these many tokens.
fn decoding(prompt: usize, answer: usize, bad_words: &[Vec<u32>]) -> Scheduler {
    let capacity = Capacity {
        rows: 256,
        seqs: SEQS,
        logit_rows: SEQS,
        blocks: SEQS * CONTEXT.div_ceil(BLOCK_SIZE) + 1,
        context: CONTEXT,
        vocab: 1000,
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };
    let mut scheduler = Scheduler::new(capacity, Options { watermark: 0.0, ..Options::default() });
    for id in 0..SEQS as u32 {
        let prompt = (0..prompt as u32).map(|at| (at * 31 + id) % 1000).collect();
        let request = Request { prompt, bad_words: bad_words.to_vec(), ..Request::default() };
        scheduler.submit(request, Duration::ZERO).unwrap();
    }
    // Vectors grow by doubling. After some tokens, none grows for a long while.
    let mut decoded = 0;
    while decoded < answer + 2 * BLOCK_SIZE {
        let plan = step(&mut scheduler);
        assert!(!plan.seqs.is_empty(), "nothing is left to do");
        decoded += usize::from(decodes(&plan));
    }
    scheduler
}

fn decodes(plan: &StepPlan) -> bool {
    plan.seqs.len() == SEQS && plan.seqs.iter().all(|seq| seq.tokens.count() == 1)
}

/// Plans a step, and commits it with made-up samples.
fn step(scheduler: &mut Scheduler) -> StepPlan {
    let plan = scheduler.plan(Duration::ZERO);
    let result = result(&plan);
    scheduler.commit(&plan, &result, Duration::from_millis(10), Duration::ZERO);
    scheduler.take_events();
    plan
}

fn result(plan: &StepPlan) -> StepResult {
    let sampled = plan.seqs.iter().filter(|seq| seq.sample.is_some());
    let samples = sampled.map(|seq| Sample { slot: seq.slot, token: 7, ..Sample::default() });
    StepResult { samples: samples.collect(), ..StepResult::default() }
}

/// Bytes allocated by each step, for two blocks of tokens.
fn bytes(mut scheduler: Scheduler) -> Vec<u64> {
    let measure = |_| {
        let mut plan = StepPlan::default();
        let planning = allocation_counter::measure(|| plan = scheduler.plan(Duration::ZERO));
        assert!(decodes(&plan), "{plan:?}");
        let result = result(&plan);
        let took = Duration::from_millis(10);
        let committing = allocation_counter::measure(|| {
            scheduler.commit(&plan, &result, took, Duration::ZERO);
        });
        scheduler.take_events();
        planning.bytes_total + committing.bytes_total
    };
    (0..2 * BLOCK_SIZE).map(measure).collect()
}

#[test]
fn a_decode_step_allocates_the_same_for_long_and_short_contexts() {
    let [short, long] = [1024, 8192].map(|prompt| bytes(decoding(prompt, 0, &[])));
    assert!(short.iter().sum::<u64>() > 0, "nothing was counted");
    assert!(long.iter().sum::<u64>() <= short.iter().sum(), "{short:?} at 1k, {long:?} at 8k");
}

/// What the request must not say, ends and events are looked for in the newest tokens alone.
#[test]
fn a_decode_step_allocates_the_same_for_long_and_short_answers() {
    for bad_words in [vec![], vec![vec![1, 2, 3], vec![7, 8]]] {
        let [short, long] = [1024, 8192].map(|answer| bytes(decoding(8, answer, &bad_words)));
        assert!(long.iter().sum::<u64>() <= short.iter().sum(), "{short:?} at 1k, {long:?} at 8k");
    }
}
