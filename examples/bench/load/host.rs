//! Host time per step, independent of the device.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;
use tabloom::{
    engine::Options,
    scheduler::{Request, Scheduler},
    step::{BLOCK_SIZE, Capacity, HostMemory, KvGroups, Sample, StepPlan, StepResult},
};

const STEPS: usize = 500;
/// Tokens of a prompt that waits, and of the prefix that those which wait share.
const WAITING_PROMPT: usize = 8192;
const SHARED: usize = 8000;
/// What a step takes: so long that a prompt gets a row of it, where its prefix is to be computed for long.
const FAST: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_secs(1);

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
    // One computes what the others wait for, and a slot is free.
    let more = if waiting > 0 { 2 } else { 0 };
    let capacity = Capacity {
        rows: sequences * context,
        seqs: sequences + more,
        logit_rows: sequences + more,
        blocks: (sequences + more) * most.div_ceil(BLOCK_SIZE) + 1,
        context: most,
        vocab: 1000,
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };
    let options = Options { watermark: 0.0, ..Options::default() };
    let mut scheduler = Scheduler::new(capacity, options);
    let prompt = |id: usize, tokens: usize| Request {
        prompt: (0..tokens).map(|at| ((at * 31 + id * 7) % 1000) as u32).collect(),
        ..Request::default()
    };
    for id in 0..sequences {
        scheduler.submit(prompt(id, context), Duration::ZERO)?;
    }
    while decoding(&run(&mut scheduler, FAST).0) < sequences {}
    let took = if waiting > 0 { SLOW } else { FAST };
    run(&mut scheduler, took);
    let shared = prompt(sequences, SHARED).prompt;
    for id in 0..waiting + more / 2 {
        let mut request = prompt(sequences + id, WAITING_PROMPT);
        request.prompt[..SHARED].copy_from_slice(&shared);
        scheduler.submit(request, Duration::ZERO)?;
    }
    let mut times: Vec<Duration> = (0..STEPS).map(|_| run(&mut scheduler, took).1).collect();
    times.sort();
    let metrics = scheduler.metrics();
    let found = (metrics.num_requests_running, metrics.num_requests_waiting);
    ensure!(found == (sequences + more / 2, waiting), "{found:?} requests run and wait");
    Ok(HostStep { sequences, context, waiting, seconds: times[STEPS / 2].as_secs_f64() })
}

/// Plans a step and commits it at once, as if it `took` so long; returns it, and the time for both.
fn run(scheduler: &mut Scheduler, took: Duration) -> (StepPlan, Duration) {
    let begin = Instant::now();
    let plan = scheduler.plan(Duration::ZERO);
    let planned = begin.elapsed();
    let sampled = plan.seqs.iter().filter(|seq| seq.sample.is_some());
    let samples = sampled.map(|seq| Sample { slot: seq.slot, token: 7, ..Sample::default() });
    let result = StepResult { samples: samples.collect(), ..StepResult::default() };
    let begin = Instant::now();
    scheduler.commit(&plan, &result, took, Duration::ZERO);
    let spent = planned + begin.elapsed();
    scheduler.take_events();
    (plan, spent)
}

/// Sequences of which a step computes one row.
fn decoding(plan: &StepPlan) -> usize {
    plan.seqs.iter().filter(|seq| seq.tokens.count() == 1).count()
}
