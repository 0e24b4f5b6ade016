//! What steps cost.

use std::time::Duration;

use super::{
    batch::{Batch, Source},
    mean::{Mean, Rate},
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
    /// Steps with prompts since the former were measured.
    unread_since: usize,
    /// Extra seconds of the step after one with drafts: nothing was queued behind that.
    wait: Mean,
    /// The last step, unless no sequence was left running after it.
    last: Option<Last>,
}

/// The last step.
#[derive(Clone, Copy, Debug)]
struct Last {
    at: Duration,
    has_drafts: bool,
    /// Steps in a row without drafts and without the executor's drafter.
    plain: usize,
}

/// A step that is over.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Sequences that decode: one row, and drafts.
    pub decoding: usize,
    pub drafts: usize,
    pub source: Source,
    /// Tokens of sequences that still live, and the accepted drafts among them.
    pub tokens: usize,
    pub accepted: usize,
    /// Rows of prompts, and whether the executor's drafter read all or none of them.
    pub prompts: usize,
    pub read: Option<bool>,
    /// Whether it did nothing else, such as scores.
    pub is_usual: bool,
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
    /// Steps with prompts after which a row that is not read is taken to cost half of what it did.
    const PATIENCE: f64 = 50.0;

    /// Records a step that is over. `took`: the time from its submission, or from the end of the step before
    /// it if that came later. Returns the seconds that its drafts saved, if known.
    pub fn observe(&mut self, step: Observed, took: Duration, now: Duration) -> Option<f64> {
        let last = self.last;
        // Steps without drafts are submitted while others run; after drafts the host acts in between.
        let since = last.map_or(took, |last| now.saturating_sub(last.at));
        let took = since.clamp(took, 2 * took).as_secs_f64();
        let plain = match step.source {
            Source::None => 1 + last.map_or(0, |last| last.plain),
            Source::Lookup | Source::Device => 0,
        };
        self.last = Some(Last { at: now, has_drafts: step.drafts > 0, plain });
        if !step.is_usual {
            return None;
        }
        if step.prompts > 0 {
            let rest = match step.decoding {
                0 => Some(0.0),
                _ => self.decoding(&step),
            };
            if let Some((read, rest)) = step.read.zip(rest) {
                let prompts = &mut self.prompts[usize::from(read)];
                prompts.add_capped(step.prompts as f64, (took - rest).max(0.0));
                self.unread_since = if read { self.unread_since + 1 } else { 0 };
            }
            return None;
        }
        let usual = self.plain(step.decoding);
        if let (true, Some(usual)) = (last.is_some_and(|last| last.has_drafts), usual) {
            let more = if step.drafts > 0 { 0.0 } else { (took - usual).clamp(-usual, usual) };
            self.wait.add(more);
        }
        let batch = self.batches.get_mut(step.decoding.checked_sub(1)?)?;
        // The first two steps without drafts wait for the host, as those with drafts do. Those with drafts
        // show nothing before there is something to compare with: the very first steps of a device are slow.
        let is_settled = match step.source {
            Source::None => plain > 2,
            Source::Lookup | Source::Device => usual.is_some(),
        };
        batch.observe(step.source, step.drafts, step.tokens, is_settled.then_some(took));
        let usual = batch.plain().filter(|_| step.drafts > 0)?;
        let steps = (step.decoding + step.accepted) as f64 / step.decoding as f64;
        Some(steps * usual - took)
    }

    /// Records that no sequence is left running: the next step begins later.
    pub fn rest(&mut self) {
        self.last = None;
    }

    /// What was measured with so many decoding sequences, if steps with so many are measured.
    pub fn batch(&self, sequences: usize) -> Option<&Batch> {
        self.batches.get(sequences.checked_sub(1)?)
    }

    /// The same, where `sequences` is from 1 to less than [`Costs::ROWS`].
    pub fn batch_mut(&mut self, sequences: usize) -> &mut Batch {
        &mut self.batches[sequences - 1]
    }

    /// Extra seconds of a step after one with drafts.
    pub fn wait(&self) -> f64 {
        self.wait.get().unwrap_or(0.0).max(0.0)
    }

    /// Seconds of a row of a prompt, if known.
    pub fn row(&self) -> f64 {
        self.prompts.iter().find_map(Rate::get).unwrap_or(0.0)
    }

    /// Extra seconds of a row of a prompt that the executor's drafter reads. None if only such rows were
    /// measured.
    pub fn reading(&self) -> Option<f64> {
        let [unread, read] = self.prompts.each_ref().map(Rate::get);
        // What was not measured for long is taken to be better.
        let age = self.unread_since as f64 / Costs::PATIENCE;
        match (unread, read) {
            (None, Some(_)) => None,
            (Some(unread), Some(read)) => Some((read - unread / (1.0 + age)).max(0.0)),
            (_, None) => Some(0.0),
        }
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
    pub fn decoding(&self, step: &Observed) -> Option<f64> {
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
