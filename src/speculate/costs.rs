//! What steps cost.

use std::time::Duration;

use super::{
    batch::{Batch, Source},
    mean::Rate,
    times::Curve,
};

/// The time of steps by the number of decoding sequences, the source of drafts and the number of these, and
/// what the rows of prompts add to it.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// By the number of decoding sequences, less one.
    batches: [Batch; Costs::ROWS],
    /// Seconds per row of a prompt that the executor's drafter does not read, and of one that it reads.
    prompts: [Rate; 2],
}

/// A step that is over.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Sequences that decode: one row, and drafts.
    pub decoding: usize,
    pub drafts: usize,
    pub source: Source,
    /// Rows of prompts, and whether the executor's drafter read all or none of them.
    pub prompts: usize,
    pub read: Option<bool>,
    /// Whether it did nothing else, such as scores.
    pub is_usual: bool,
}

/// What is known of the time of a step, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    /// Of the sequences that decode and their drafts.
    pub decoding: Option<f64>,
    /// Saved by its drafts.
    pub saved: Option<f64>,
}

/// Seconds of steps by the number of drafts, as measured with some number of sequences.
#[derive(Debug)]
pub struct StepTimes {
    curve: Curve,
    /// Drafts there for one here, and seconds here for one there.
    drafts: (usize, usize),
    factor: f64,
}

impl StepTimes {
    /// Seconds of a step with this many drafts.
    pub fn seconds(&self, drafts: usize) -> f64 {
        let (there, here) = self.drafts;
        self.factor * self.curve.seconds((drafts * there).div_ceil(here))
    }
}

impl Costs {
    /// Most rows of a step with drafts: further ones read the weights once more.
    pub const ROWS: usize = 16;

    /// Records a step that is over. `accepted`: the drafts that were. Returns what is known of its time.
    pub fn observe(&mut self, step: Observed, accepted: usize, took: Duration) -> Spent {
        let (took, decoding) = (took.as_secs_f64(), self.decoding(&step));
        if !step.is_usual {
            return Spent { decoding, saved: None };
        }
        if step.prompts > 0 {
            let rest = if step.decoding > 0 { decoding } else { Some(0.0) };
            if let Some((read, rest)) = step.read.zip(rest) {
                let prompts = &mut self.prompts[usize::from(read)];
                prompts.add_capped(step.prompts as f64, (took - rest).max(0.0));
            }
            return Spent { decoding, saved: None };
        }
        // Steps with drafts show nothing before there is something to compare with: the very first steps of a
        // device are slow.
        let is_settled = step.source == Source::None || self.plain(step.decoding).is_some();
        let saved = self.batch_mut(step.decoding).and_then(|batch| {
            batch.observe(step.source, step.drafts, is_settled.then_some(took));
            let usual = batch.plain().filter(|_| step.drafts > 0)?;
            let steps = (step.decoding + accepted) as f64 / step.decoding as f64;
            Some(steps * usual - took)
        });
        Spent { decoding, saved }
    }

    /// What was measured with so many decoding sequences, if steps with so many are measured.
    pub fn batch(&self, sequences: usize) -> Option<&Batch> {
        self.batches.get(sequences.checked_sub(1)?)
    }

    /// The same, if there are measurements for so many.
    pub fn batch_mut(&mut self, sequences: usize) -> Option<&mut Batch> {
        self.batches.get_mut(sequences.checked_sub(1)?)
    }

    /// Seconds of a row of a prompt, if known.
    fn row(&self) -> f64 {
        self.prompts.iter().find_map(Rate::get).unwrap_or(0.0)
    }

    /// Extra seconds of a row of a prompt that the executor's drafter reads, as far as both were measured.
    pub fn reading(&self) -> f64 {
        let [unread, read] = self.prompts.each_ref().map(Rate::get);
        unread.zip(read).map_or(0.0, |(unread, read)| (read - unread).max(0.0))
    }

    /// Seconds of a step without drafts. Where none was measured with so many sequences, it is estimated on
    /// the low side, so that one soon is.
    pub fn plain(&self, sequences: usize) -> Option<f64> {
        let (fewer, more) = self.batches.split_at(sequences.min(self.batches.len()));
        let below = fewer.iter().rev().find_map(Batch::plain);
        let above = || {
            let known = |(at, batch): (usize, &Batch)| Some((at, batch.plain()?));
            let (at, seconds) = (1..).zip(more).find_map(known)?;
            Some(seconds * sequences as f64 / (sequences + at) as f64)
        };
        below.or_else(above)
    }

    /// Seconds of steps with drafts from this source, if known. Where little was measured with so many
    /// sequences, they take longer than those without drafts by the same factor as with the nearest other
    /// number of them.
    pub fn times(&self, source: Source, sequences: usize) -> Option<StepTimes> {
        let plain = self.plain(sequences);
        let times = |sequences: usize| Some(self.batch(sequences)?.times(source));
        let is_known = |other: &usize| times(*other).is_some_and(|times| times.is_known());
        let nearest = (1..=self.batches.len()).filter(is_known);
        let nearest = nearest.min_by_key(|other| other.abs_diff(sequences));
        if let Some((other, plain)) = nearest.filter(|other| *other != sequences).zip(plain) {
            let usual = self.plain(other)?;
            let curve = times(other)?.curve(Some(usual))?;
            return Some(StepTimes { curve, drafts: (other, sequences), factor: plain / usual });
        }
        Some(StepTimes { curve: times(sequences)?.curve(plain)?, drafts: (1, 1), factor: 1.0 })
    }

    /// Seconds that the sequences which decode and their drafts take of a step, if known.
    fn decoding(&self, step: &Observed) -> Option<f64> {
        let Observed { source, decoding, drafts, prompts, .. } = *step;
        let plain = self.batch(decoding).and(self.plain(decoding))?;
        let seconds = self.times(source, decoding)?.seconds(drafts);
        // Beside rows of prompts those of drafts cost as much as these.
        let rows = if prompts > 0 { self.row() * drafts as f64 } else { 0.0 };
        Some(seconds.max(plain + rows))
    }

    /// Whether enough steps with drafts from this source were measured to rely on their times.
    pub fn is_known(&self, source: Source) -> bool {
        self.batches.iter().any(|batch| batch.times(source).is_known())
    }
}
