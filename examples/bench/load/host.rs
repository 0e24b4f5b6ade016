//! Host time per step, independent of the device.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tabloom::{
    engine::Options,
    scheduler::{Request, Scheduler},
    step::{BLOCK_SIZE, Capacity, HostMemory, KvGroups, Sample, StepPlan, StepResult},
};

const STEPS: usize = 500;
/// Tokens of a prompt that waits.
const WAITING_PROMPT: usize = 8192;

/// The time to plan a decode step and to commit its samples.
#[derive(Clone, Debug, Serialize)]
pub struct HostStep {
    pub sequences: usize,
    /// Tokens of each.
    pub context: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Median, wall clock.
    pub seconds: f64,
}

/// Times for 1, 16 and 64 sequences of short and long contexts, and with requests that wait.
pub fn steps() -> Result<Vec<HostStep>> {
    let contexts = [1 << 10, 32 << 10, 128 << 10];
    let mut steps = Vec::new();
    for sequences in [1, 16, 64] {
        for context in contexts {
            steps.push(step(sequences, context, 0)?);
        }
    }
    steps.push(step(64, 128 << 10, 90)?);
    Ok(steps)
}

fn step(sequences: usize, context: usize, waiting: usize) -> Result<HostStep> {
    let most = context + 2 * STEPS;
    let capacity = Capacity {
        rows: sequences * context,
        seqs: sequences,
        logit_rows: sequences,
        blocks: sequences * most.div_ceil(BLOCK_SIZE) + 1,
        context: most,
        vocab: 1000,
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };
    let options = Options { watermark: 0.0, step_seconds: f64::INFINITY, ..Options::default() };
    let mut scheduler = Scheduler::new(capacity, options);
    let prompt = |id: usize, tokens: usize| Request {
        prompt: (0..tokens).map(|at| ((at * 31 + id * 7) % 1000) as u32).collect(),
        ..Request::default()
    };
    for id in 0..sequences {
        scheduler.submit(prompt(id, context), Duration::ZERO)?;
    }
    while decoding(&run(&mut scheduler).0) < sequences {}
    for id in 0..waiting {
        scheduler.submit(prompt(sequences + id, WAITING_PROMPT), Duration::ZERO)?;
    }
    let mut times: Vec<Duration> = (0..STEPS).map(|_| run(&mut scheduler).1).collect();
    times.sort();
    Ok(HostStep { sequences, context, waiting, seconds: times[STEPS / 2].as_secs_f64() })
}

/// Plans a step and commits it at once; returns it, and the time for both.
fn run(scheduler: &mut Scheduler) -> (StepPlan, Duration) {
    let begin = Instant::now();
    let plan = scheduler.plan(Duration::ZERO);
    let planned = begin.elapsed();
    let sampled = plan.seqs.iter().filter(|seq| seq.sample.is_some());
    let samples = sampled.map(|seq| Sample { slot: seq.slot, token: 7, ..Sample::default() });
    let result = StepResult { samples: samples.collect(), ..StepResult::default() };
    let begin = Instant::now();
    scheduler.commit(&plan, &result, Duration::from_millis(10), Duration::ZERO);
    let took = planned + begin.elapsed();
    scheduler.take_events();
    (plan, took)
}

/// Sequences of which a step computes one row.
fn decoding(plan: &StepPlan) -> usize {
    plan.seqs.iter().filter(|seq| seq.tokens.count() == 1).count()
}
