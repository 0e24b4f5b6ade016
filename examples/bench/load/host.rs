//! Host time per step, independent of the device.

use std::time::{Duration, Instant};

use anyhow::Result;
use tabloom::{
    engine::Options,
    scheduler::{Request, Scheduler},
    step::{BLOCK_SIZE, Capacity, HostMemory, KvGroups, Sample, StepResult},
};

const SEQS: usize = 16;
const STEPS: usize = 1000;
const PROMPT: usize = 1000;

/// Median time to plan a decode step of 16 sequences and to commit its samples, in seconds of wall clock
/// time.
pub fn step_seconds() -> Result<f64> {
    let context = PROMPT + 2 * STEPS;
    let capacity = Capacity {
        rows: 256,
        seqs: SEQS,
        logit_rows: SEQS,
        blocks: SEQS * context.div_ceil(BLOCK_SIZE) + 1,
        context,
        vocab: 1000,
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };
    let mut scheduler = Scheduler::new(capacity, Options { watermark: 0.0, ..Options::default() });
    for id in 0..SEQS as u32 {
        let prompt = (0..PROMPT as u32).map(|at| (at * 31 + id) % 1000).collect();
        scheduler.submit(Request { prompt, ..Request::default() }, Duration::ZERO)?;
    }
    let mut times = Vec::with_capacity(STEPS);
    while times.len() < STEPS {
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
        if plan.seqs.len() == SEQS && plan.rows() == SEQS {
            times.push(took);
        }
    }
    times.sort();
    Ok(times[STEPS / 2].as_secs_f64())
}
