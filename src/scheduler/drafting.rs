//! Guesses what follows a sequence's tokens, as far as it pays, and learns what that costs.

use std::time::Duration;

use super::{
    Scheduler,
    sequence::{Guess, Sequence},
};
use crate::{
    speculate::{Acceptance, Costs, Worth},
    step::{Follow, MAX_DRAFTS, Sample, SeqPlan, StepPlan},
};

/// A step that has been committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    at: Duration,
    has_drafts: bool,
    /// How many in a row the executor's drafter has had no part in.
    plain: usize,
}

impl Scheduler {
    /// Learns what a step cost, and what its drafts saved.
    pub(super) fn learn_costs(
        &mut self,
        plan: &StepPlan,
        samples: &[Sample],
        took: Duration,
        now: Duration,
    ) {
        let (rows, sequences) = (plan.rows(), plan.seqs.len());
        let on_device =
            |seq: &&SeqPlan| seq.drafts.first().is_some_and(|draft| draft.token.is_none());
        let drafting: Vec<&SeqPlan> = plan.seqs.iter().filter(on_device).collect();
        let reads = plan.seqs.iter().any(|seq| seq.follow != Follow::No);
        let decodes = plan.seqs.iter().all(|seq| seq.sample.is_some() && seq.tokens.count() == 1);
        // Steps without drafts are submitted while others run; drafts have the host in between.
        let before = self.before;
        let since = before.map_or(took, |before| now.saturating_sub(before.at));
        let took = since.clamp(took, 2 * took).as_secs_f64();
        let has_drafts = plan.seqs.iter().any(|seq| !seq.drafts.is_empty());
        let after_drafts = before.is_some_and(|before| before.has_drafts);
        if after_drafts
            && decodes
            && let Some(usual) = self.plain_costs.usual(sequences)
        {
            const WEIGHT: f64 = 0.1;
            let more = if has_drafts { 0.0 } else { (took - usual).clamp(-usual, usual) };
            self.wait += WEIGHT * (more - self.wait);
        }
        if decodes {
            let costs = match drafting.is_empty() {
                false => &mut self.device_costs[sequences.min(Costs::ROWS / 2) - 1],
                true => &mut self.costs,
            };
            // What the executor's drafter reads is for the drafts to come.
            if rows > sequences || !reads {
                costs.observe(rows, took);
            }
            if rows > sequences {
                let steps = samples.len() as f64 / sequences as f64;
                let without = steps * self.costs.seconds(sequences);
                self.metrics.spec_decode_seconds_saved += without - took;
            }
        }
        let drafter = reads || !drafting.is_empty();
        let is_known = self.plain_costs.seconds(sequences, 0).is_some();
        self.rests.of(sequences).step(drafter, !decodes, is_known);
        let plain = if drafter { 0 } else { 1 + before.map_or(0, |before| before.plain) };
        self.before = Some(Before { at: now, has_drafts, plain });
        if plan.seqs.iter().any(|seq| seq.score.is_some() || seq.pool.is_some()) {
            return;
        }
        let drafts: usize = drafting.iter().map(|seq| seq.drafts.len()).sum();
        let drawing = plan.seqs.iter().filter(|seq| seq.sample.is_some()).count();
        let more = rows - drafts - drawing;
        let without = |drawing, more| self.plain_costs.seconds(drawing, more);
        let step = without(sequences, 0);
        if !drafter {
            if let Some(step) = step {
                self.ledgers.of(sequences).earn(took / step);
            }
            // The first two after others wait for the host as those with drafts do.
            let is_usual = before.is_none() || plain > 2;
            if is_usual && !has_drafts && !after_drafts {
                self.plain_costs.observe(drawing, more, took);
            }
            return;
        }
        let right = |seq: &&SeqPlan| {
            samples.iter().filter(|sample| sample.slot == seq.slot).count().saturating_sub(1)
        };
        let right: usize = drafting.iter().map(right).sum();
        if let (Some(step), Some(now), Some(later)) =
            (step, without(drawing, more), without(drawing, 0))
        {
            // Each of the others would have been a part of a further step.
            let without = now + later * right as f64 / drawing.max(1) as f64;
            self.ledgers.of(sequences).observe(took / step, without / step);
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
            let (without, with) = (&self.costs, &self.device_costs[sequences - 1]);
            let worth = Worth { without, with, wait: self.wait, sequences, drafting: sequences };
            let best = self.device_acceptance.best(worth, most.min(self.most_drafts(sequences)));
            let ledger = self.ledgers.of(sequences);
            seq.trial = if best == 0 && ledger.may_try() { Acceptance::ROUNDS } else { 0 };
            seq.reads =
                !self.rests.of(sequences).is_on() && ledger.pays() && (best > 0 || seq.trial > 0);
        }
        seq.follows = seq.reads;
    }

    /// Guesses what follows the tokens of a running sequence, as far as it pays to verify it.
    pub(super) fn guess(&mut self, at: usize) {
        let decoding = self.running.iter().filter(|seq| seq.decodes() || seq.waits()).count();
        let sequences = decoding.max(1);
        let most = self.most_drafts(sequences);
        let reading = self.running.iter().filter(|seq| seq.reads).count();
        let others =
            (0..).zip(&self.running).any(|(other, seq)| other != at && seq.drafts_on_device);
        let adaptive = self.options.adaptive_drafts;
        let pays = self.ledgers.of(sequences).pays();
        let rests = self.rests.of(sequences).is_on();
        let wait = self.wait;
        let seq = &mut self.running[at];
        let pending = seq.pending();
        if most == 0 || !seq.may_guess() {
            seq.follows &= most > 0;
            return seq.guess(Guess::default());
        }
        if adaptive && rests {
            seq.follows = false;
            return seq.guess(Guess::default());
        }
        let mut tokens = self.drafter.propose(seq.tokens(), pending + most);
        let found = tokens.len().saturating_sub(pending);
        // The executor's drafter takes time of its own: it has to be right more often.
        let has_better = seq.reads && seq.may_draft_on_device() && {
            let drafts = found.min(self.device_drafts);
            seq.device_acceptance.right(drafts) > seq.acceptance.right(drafts)
        };
        if found > 0 && !has_better {
            let (without, with) = (&self.costs, &self.costs);
            let worth = Worth { without, with, wait, sequences, drafting: sequences };
            let drafts = if adaptive { seq.acceptance.choose(worth, found) } else { found };
            if drafts > 0 {
                tokens.truncate(pending + drafts);
                return seq.guess(Guess::Tokens(tokens));
            }
        }
        seq.follows = seq.reads;
        let mut drafts = most.min(self.device_drafts);
        if adaptive && seq.reads {
            let (without, with) = (&self.costs, &self.device_costs[sequences - 1]);
            let best = |drafting| {
                let worth = Worth { without, with, wait, sequences, drafting };
                seq.device_acceptance.best(worth, drafts)
            };
            let least = if seq.trial > 0 { Acceptance::TRIAL.min(drafts) } else { 0 };
            // Alone it would not be worth its part in steps that the others draft in anyhow.
            seq.reads = pays && (others || best(sequences).max(least) > 0);
            drafts = best(reading.min(sequences)).max(least);
            seq.trial = seq.trial.saturating_sub(1);
            seq.follows = seq.reads;
        }
        seq.drafts_on_device = seq.reads && drafts > 0;
        let drafts = if seq.follows && seq.may_draft_on_device() { drafts } else { 0 };
        seq.guess(Guess::Device(drafts));
    }
}
