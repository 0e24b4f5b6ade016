//! Guesses what follows sequences' tokens, as far as it pays, and learns what that costs.

use std::time::Duration;

use super::{
    request::RequestId,
    sequence::{Guess, Sequence},
    state::{Before, By, Scheduler},
};
use crate::{
    speculate::{Acceptance, Costs, Guesses, Ledger, Worth},
    step::{Follow, MAX_DRAFTS, Sample, SeqPlan, StepPlan},
};

/// What a step was made of.
struct Made {
    rows: usize,
    sequences: usize,
    /// Sequences that drew.
    drawing: usize,
    drafts: usize,
    /// Drafts that were right, of use to somebody.
    right: usize,
    /// Whether it had no prompts: a row of each sequence, and drafts.
    decodes: bool,
    /// Whether the executor's drafter drafted, and whether it read.
    on_device: bool,
    reads: bool,
}

impl Made {
    /// `lives` tells slots whose sequences have not ended before the step was over.
    fn of(plan: &StepPlan, samples: &[Sample], lives: impl Fn(u32) -> bool) -> Made {
        let on_device =
            |seq: &SeqPlan| seq.drafts.first().is_some_and(|draft| draft.token.is_none());
        let drawing = plan.seqs.iter().filter(|seq| seq.sample.is_some());
        let live = drawing.clone().filter(|seq| lives(seq.slot)).count();
        let drawn = samples.iter().filter(|sample| lives(sample.slot)).count();
        let drawing = drawing.count();
        Made {
            rows: plan.rows(),
            sequences: plan.seqs.len(),
            drawing,
            drafts: plan.seqs.iter().map(|seq| seq.drafts.len()).sum(),
            right: drawn.saturating_sub(live),
            decodes: plan.seqs.iter().all(|seq| seq.sample.is_some() && seq.tokens.count() == 1),
            on_device: plan.seqs.iter().any(on_device),
            reads: plan.seqs.iter().any(|seq| seq.follow != Follow::No),
        }
    }

    fn by(&self) -> By {
        match (self.on_device || self.reads, self.drafts) {
            (true, _) => By::Device,
            (false, 0) => By::Nobody,
            (false, _) => By::Lookup,
        }
    }
}

/// Rounds of an answer before the next are planned while those before them run. A round planned behind
/// the end of its answer is for nothing, and the longer an answer is, the more there is to come of it.
const ROUNDS_BEFORE_AHEAD: usize = 16;

impl Scheduler {
    /// Learns what a step cost, and what its drafts saved.
    pub(super) fn learn_costs(
        &mut self,
        plan: &StepPlan,
        samples: &[Sample],
        took: Duration,
        now: Duration,
    ) {
        let lives = |slot| self.running.iter().any(|seq| seq.slot == slot);
        let made = Made::of(plan, samples, lives);
        let (by, has_drafts) = (made.by(), made.drafts > 0);
        let before = self.before;
        // Steps without drafts are submitted while others run; drafts have the host in between.
        let since = before.map_or(took, |before| now.saturating_sub(before.at));
        let took = since.clamp(took, 2 * took).as_secs_f64();
        let after = before.filter(|before| before.has_drafts).map(|before| before.by);
        if made.decodes {
            self.learn_rows(&made, took, after.is_some());
        }
        let is_known = self.plain_costs.seconds(made.sequences, 0).is_some();
        self.rests.of(made.sequences).step(by != By::Nobody, !made.decodes, is_known);
        let plain = match by {
            By::Device => 0,
            By::Nobody | By::Lookup => 1 + before.map_or(0, |before| before.plain),
        };
        self.before = Some(Before { at: now, by, has_drafts, plain });
        if plan.seqs.iter().any(|seq| seq.score.is_some() || seq.pool.is_some()) {
            return;
        }
        // The step after one with drafts had to wait for them.
        let charged = if by == By::Nobody { after.unwrap_or(by) } else { by };
        self.learn_worth(&made, took, charged);
        // The first two after others wait for the host as those with drafts do.
        if charged == By::Nobody && (before.is_none() || plain > 2) {
            self.plain_costs.observe(made.drawing, made.rows - made.drawing, took);
        }
    }

    /// Learns what steps with drafts take, and how long the one after them waits.
    fn learn_rows(&mut self, made: &Made, took: f64, after_drafts: bool) {
        let &Made { rows, sequences, drafts, right, .. } = made;
        if after_drafts && let Some(usual) = self.plain_costs.usual(sequences) {
            const WEIGHT: f64 = 0.1;
            let more = if drafts > 0 { 0.0 } else { (took - usual).clamp(-usual, usual) };
            self.wait += WEIGHT * (more - self.wait);
        }
        if drafts == 0 {
            return;
        }
        let costs = match made.on_device {
            true => &mut self.device_costs[sequences.min(Costs::ROWS / 2) - 1],
            false => &mut self.costs,
        };
        costs.observe(rows, took);
        if let Some(usual) = self.plain_costs.usual(sequences) {
            let steps = (sequences + right) as f64 / sequences as f64;
            self.metrics.spec_decode_seconds_saved += steps * usual - took;
        }
    }

    /// Enters a step in the accounts of drafts: those of who is `charged` with it, and the others'.
    fn learn_worth(&mut self, made: &Made, took: f64, charged: By) {
        let &Made { rows, sequences, drawing, drafts, right, .. } = made;
        let without = |more| self.plain_costs.seconds(drawing, more);
        let Some(step) = self.plain_costs.seconds(sequences, 0) else { return };
        // Each right draft would have been a part of a further step.
        let further = without(0).map(|later| later * right as f64 / drawing.max(1) as f64);
        let alone = without(rows - drafts - drawing).zip(further);
        for by in [By::Lookup, By::Device] {
            let ledger = self.ledger(by, sequences);
            if by != charged {
                ledger.earn(took / step);
            } else if let Some((now, further)) = alone {
                ledger.observe(took / step, (now + further) / step);
            }
        }
    }

    /// The account of drafts for batches of so many sequences.
    fn ledger(&mut self, by: By, sequences: usize) -> &mut Ledger {
        match by {
            By::Device => self.device_ledgers.of(sequences),
            By::Nobody | By::Lookup => self.ledgers.of(sequences),
        }
    }

    /// Most drafts of each of so many sequences that draw.
    fn most_drafts(&self, sequences: usize) -> usize {
        let spare = Costs::ROWS.min(self.capacity.logit_rows).saturating_sub(sequences);
        (spare / sequences).min(MAX_DRAFTS).min(self.options.max_drafts)
    }

    /// Decides whether the executor's drafter reads a new sequence.
    pub(super) fn begin_to_draft(&mut self, seq: &mut Sequence) {
        let most = self.device_drafts.min(self.options.max_drafts);
        if most == 0 || !seq.may_follow() {
            return;
        }
        seq.reads = true;
        if self.options.adaptive_drafts {
            let sequences = (1 + self.running.len() + self.queue.len()).min(Costs::ROWS / 2);
            let most = most.min(self.most_drafts(sequences));
            let best = self.best_on_device(&self.device_acceptance, sequences, sequences, most);
            let ledger = self.device_ledgers.of(sequences);
            seq.trial = if best == 0 && ledger.may_try() { Ledger::ROUNDS } else { 0 };
            seq.reads =
                !self.rests.of(sequences).is_on() && ledger.pays() && (best > 0 || seq.trial > 0);
        }
        seq.follows = seq.reads;
        seq.reads_late = !seq.reads;
        if let Some(late) = self.late_acceptance.as_ref().filter(|_| seq.reads_late) {
            seq.device_acceptance = late.clone();
        }
    }

    /// Decides whether the executor's drafter begins to read a sequence that it does not read. It drafts
    /// after what it reads from now on, if not as well.
    fn begin_to_read(&mut self, at: usize, sequences: usize, most: usize) {
        let seq = &self.running[at];
        let most = most.min(self.device_drafts);
        if most == 0 || seq.reads || !self.options.adaptive_drafts || !seq.may_follow() {
            return;
        }
        let best = self.best_on_device(&seq.device_acceptance, sequences, sequences, most);
        let ledger = self.device_ledgers.of(sequences);
        let trial = if best == 0 && ledger.tries() { Ledger::ROUNDS } else { 0 };
        if ledger.pays() && (best > 0 || trial > 0) {
            let seq = &mut self.running[at];
            (seq.reads, seq.trial) = (true, trial);
        }
    }

    /// Drafts of the executor's that `drafting` of so many sequences should have, each at most `most`.
    fn best_on_device(
        &self,
        acceptance: &Acceptance,
        sequences: usize,
        drafting: usize,
        most: usize,
    ) -> usize {
        let costs = &self.device_costs[sequences.min(Costs::ROWS / 2) - 1];
        let plain = self.plain_costs.usual(sequences);
        let worth = Worth { plain, costs, wait: self.wait, sequences };
        let guesses = Guesses { acceptance, pending: 0, drafts: most };
        worth.best(&vec![guesses; drafting], most)
    }

    /// Guesses what follows the tokens of these sequences, as far as it pays to verify it.
    pub(super) fn guess(&mut self, due: &[RequestId]) {
        let decoding = self.running.iter().filter(|seq| seq.decodes() || seq.waits()).count();
        let sequences = decoding.max(1);
        let most = self.most_drafts(sequences);
        let rests = self.options.adaptive_drafts && self.rests.of(sequences).is_on();
        let mut found = Vec::new();
        for (at, seq) in self.running.iter_mut().enumerate() {
            if !due.contains(&seq.id) {
                continue;
            }
            seq.guess(Guess::default());
            if most == 0 || !seq.may_guess() {
                seq.follows &= most > 0;
            } else if rests {
                seq.follows = false;
            } else {
                found.push((at, self.drafter.propose(seq.tokens(), seq.pending() + most)));
            }
        }
        let looked_up = self.most_looked_up(&found, sequences, most);
        for (at, mut tokens) in found {
            let seq = &mut self.running[at];
            let pending = seq.pending();
            if looked_up > 0 && tokens.len() > pending && !self.device_is_better(at, &tokens) {
                tokens.truncate(pending + looked_up);
                self.running[at].guess(Guess::Tokens(tokens));
            } else {
                self.guess_on_device(at, sequences, most);
            }
        }
    }

    /// Whether the executor's drafter can draft for a sequence and is right more often than what was
    /// looked up: it takes time of its own.
    fn device_is_better(&self, at: usize, tokens: &[u32]) -> bool {
        let seq = &self.running[at];
        let drafts = tokens.len().saturating_sub(seq.pending()).min(self.device_drafts);
        seq.reads
            && seq.may_draft_on_device()
            && seq.device_acceptance.right(drafts) > seq.acceptance.right(drafts)
    }

    /// How many drafts at most a sequence should have of what was found for some, at their places.
    fn most_looked_up(
        &mut self,
        found: &[(usize, Vec<u32>)],
        sequences: usize,
        most: usize,
    ) -> usize {
        if !self.options.adaptive_drafts {
            return most;
        }
        let guesses = found.iter().filter(|(at, tokens)| !self.device_is_better(*at, tokens));
        let guesses = guesses.filter_map(|(at, tokens)| {
            let seq = &self.running[*at];
            let (acceptance, pending) = (&seq.acceptance, seq.pending());
            let drafts = tokens.len().checked_sub(pending)?;
            (drafts > 0).then_some(Guesses { acceptance, pending, drafts })
        });
        let guesses: Vec<Guesses> = guesses.collect();
        if guesses.is_empty() {
            return 0;
        }
        let plain = self.plain_costs.usual(sequences);
        let worth = Worth { plain, costs: &self.costs, wait: self.wait, sequences };
        let best = worth.best(&guesses, most);
        let ledger = self.ledgers.of(sequences);
        match best {
            0 if ledger.tries() => Ledger::DRAFTS.min(most),
            best if ledger.pays() => best,
            _ => 0,
        }
    }

    /// Decides how much the executor's drafter drafts for a sequence, and whether it still reads it.
    fn guess_on_device(&mut self, at: usize, sequences: usize, most: usize) {
        self.begin_to_read(at, sequences, most);
        let reading = self.running.iter().filter(|seq| seq.reads).count();
        let others =
            (0..).zip(&self.running).any(|(other, seq)| other != at && seq.drafts_on_device);
        let pays = self.device_ledgers.of(sequences).pays();
        let mut drafts = most.min(self.device_drafts);
        let seq = &self.running[at];
        let mut reads = seq.reads;
        if self.options.adaptive_drafts && reads {
            let least = if seq.trial > 0 { Ledger::DRAFTS.min(drafts) } else { 0 };
            let best = |drafting| {
                let found =
                    self.best_on_device(&seq.device_acceptance, sequences, drafting, drafts);
                found.max(least)
            };
            // Alone it would not be worth its part in steps that the others draft in anyhow.
            reads = pays && (others || best(sequences) > 0);
            drafts = best(reading.min(sequences));
        }
        let seq = &mut self.running[at];
        seq.trial = seq.trial.saturating_sub(1);
        (seq.reads, seq.follows) = (reads, reads);
        seq.drafts_on_device = reads && drafts > 0;
        seq.runs_ahead = !self.options.adaptive_drafts || seq.rounds() >= ROUNDS_BEFORE_AHEAD;
        let drafts = if reads && seq.may_draft_on_device() { drafts } else { 0 };
        seq.guess(Guess::Device(drafts));
    }
}
