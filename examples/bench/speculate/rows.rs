//! The cost of additional rows per step, and of the executor's own drafter.

use std::time::Instant;

use anyhow::Result;
use tabloom::{
    executor::AnyExecutor,
    step::{Draft, Executor, Follow, MAX_DRAFTS, RowTokens, Sampling, SeqPlan, StepPlan},
};

/// Tokens in the KV cache before the measured steps.
const CONTEXT: usize = 64;
/// An arbitrary token.
const TOKEN: u32 = 100;

/// Costs of steps of one sequence; each step is waited for.
#[derive(Debug)]
pub struct Costs {
    /// Seconds per step with one row.
    pub step: f64,
    /// Time of steps with 1, 2, … rows, relative to one row: the first value is 1.
    pub rows: Vec<f64>,
    /// Time per draft token, relative to a step with one row, the drafter's processing of its row included.
    pub draft: f64,
    /// Time in which the drafter processes one row, relative to a step with one row.
    pub follow: f64,
}

/// A kind of measured step.
#[derive(Clone, Copy)]
struct Kind {
    drafts: usize,
    /// Whether the executor's own drafter proposes the draft tokens.
    proposed: bool,
    follow: bool,
}

/// Medians over `rounds` rounds; the kinds of steps alternate.
pub async fn measure(executor: &mut AnyExecutor, drafts: usize, rounds: usize) -> Result<Costs> {
    let plain = |drafts| Kind { drafts, proposed: false, follow: false };
    let mut kinds: Vec<Kind> = (0..=MAX_DRAFTS).map(plain).collect();
    kinds.push(Kind { drafts, proposed: true, follow: true });
    kinds.push(Kind { drafts: 0, proposed: false, follow: true });
    let blocks = executor.capacity().groups.blocks(CONTEXT + 1 + MAX_DRAFTS);
    let begin = SeqPlan {
        tokens: RowTokens::Known(vec![TOKEN; CONTEXT]),
        blocks: (1..=blocks as u32).collect(),
        sample: Some(Sampling::GREEDY),
        follow: Follow::Sampled,
        ..SeqPlan::default()
    };
    time(executor, begin).await?;
    let mut times = vec![Vec::new(); kinds.len()];
    // The first round is a warm-up.
    for round in 0..=rounds {
        for (kind, times) in kinds.iter().zip(&mut times) {
            let seconds = time(executor, kind.step()).await?;
            if round > 0 {
                times.push(seconds);
            }
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    let (rows, [drafted, followed]) = medians.split_at(1 + MAX_DRAFTS) else { unreachable!() };
    let step = rows[0];
    Ok(Costs {
        step,
        rows: rows.iter().map(|seconds| seconds / step).collect(),
        draft: (drafted - rows[drafts]) / drafts as f64 / step,
        follow: (followed - step) / step,
    })
}

impl Kind {
    fn step(self) -> SeqPlan {
        let token = (!self.proposed).then_some(TOKEN);
        SeqPlan {
            tokens: RowTokens::Known(vec![TOKEN]),
            start: CONTEXT as u32,
            sample: Some(Sampling::GREEDY),
            drafts: vec![Draft { token, ..Draft::default() }; self.drafts],
            follow: if self.follow { Follow::Sampled } else { Follow::No },
            ..SeqPlan::default()
        }
    }
}

async fn time(executor: &mut AnyExecutor, seq: SeqPlan) -> Result<f64> {
    let plan = StepPlan { seqs: vec![seq], ..StepPlan::default() };
    let start = Instant::now();
    executor.submit(&plan)?;
    executor.result(async || {}).await?;
    Ok(start.elapsed().as_secs_f64())
}

/// The median; of an even count, the higher of the two middle values.
pub fn median(values: Vec<f64>) -> f64 {
    quartiles(values)[1]
}

/// The quartiles.
pub fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|part| values[part * values.len() / 4])
}
