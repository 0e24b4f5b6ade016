//! Chooses draft tokens as far as they pay, and measures what they cost.

use std::time::Duration;

use super::{
    request::RequestId,
    sequence::{Proposal, Sequence},
    state::{DraftSource, LastStep, Scheduler},
};
use crate::{
    speculate::{Acceptance, Costs, Ledger, SeqDrafts, Worth},
    step::{Follow, MAX_DRAFTS, Sample, SeqPlan, StepPlan},
};

/// What a step consisted of.
struct StepStats {
    rows: usize,
    sequences: usize,
    /// Sequences that sampled.
    sampling: usize,
    drafts: usize,
    /// Accepted drafts of sequences that still live.
    accepted: usize,
    /// Whether it had no prefill rows: one row for each sequence, and drafts.
    decodes: bool,
    /// Whether the executor's drafter drafted, and whether it read rows.
    on_device: bool,
    reads: bool,
}

impl StepStats {
    /// `is_live` says whether the sequence of a slot was still live when the step ended.
    fn of(plan: &StepPlan, samples: &[Sample], is_live: impl Fn(u32) -> bool) -> StepStats {
        let on_device =
            |seq: &SeqPlan| seq.drafts.first().is_some_and(|draft| draft.token.is_none());
        let sampling = plan.seqs.iter().filter(|seq| seq.sample.is_some());
        let live = sampling.clone().filter(|seq| is_live(seq.slot)).count();
        let kept = samples.iter().filter(|sample| is_live(sample.slot)).count();
        let sampling = sampling.count();
        StepStats {
            rows: plan.rows(),
            sequences: plan.seqs.len(),
            sampling,
            drafts: plan.seqs.iter().map(|seq| seq.drafts.len()).sum(),
            accepted: kept.saturating_sub(live),
            decodes: plan.seqs.iter().all(|seq| seq.sample.is_some() && seq.tokens.count() == 1),
            on_device: plan.seqs.iter().any(on_device),
            reads: plan.seqs.iter().any(|seq| seq.follow != Follow::No),
        }
    }

    fn source(&self) -> DraftSource {
        match (self.on_device || self.reads, self.drafts) {
            (true, _) => DraftSource::Device,
            (false, 0) => DraftSource::None,
            (false, _) => DraftSource::Lookup,
        }
    }
}

/// Rounds of an answer before the next round is planned while the one before runs. A round planned
/// after the end of an answer is wasted, and a long answer is more likely to go on.
const ROUNDS_BEFORE_AHEAD: usize = 16;

impl Scheduler {
    /// Records what a step cost, and what its drafts saved.
    pub(super) fn learn_costs(
        &mut self,
        plan: &StepPlan,
        samples: &[Sample],
        took: Duration,
        now: Duration,
    ) {
        let is_live = |slot| self.running.iter().any(|seq| seq.slot == slot);
        let stats = StepStats::of(plan, samples, is_live);
        let (source, has_drafts) = (stats.source(), stats.drafts > 0);
        let last = self.last_step;
        // Steps without drafts are submitted while others run; after drafts the host acts in between.
        let since = last.map_or(took, |last| now.saturating_sub(last.at));
        let took = since.clamp(took, 2 * took).as_secs_f64();
        let after = last.filter(|last| last.has_drafts).map(|last| last.source);
        if stats.decodes {
            self.learn_rows(&stats, took, after.is_some());
        }
        let is_known = self.plain_costs.seconds(stats.sequences, 0).is_some();
        self.pauses.of(stats.sequences).step(source != DraftSource::None, !stats.decodes, is_known);
        let plain = match source {
            DraftSource::Device => 0,
            DraftSource::None | DraftSource::Lookup => 1 + last.map_or(0, |last| last.plain),
        };
        self.last_step = Some(LastStep { at: now, source, has_drafts, plain });
        if plan.seqs.iter().any(|seq| seq.score.is_some() || seq.pool.is_some()) {
            return;
        }
        // The step after one with drafts had to wait for their result.
        let charged = if source == DraftSource::None { after.unwrap_or(source) } else { source };
        self.learn_worth(&stats, took, charged);
        // The first two steps without drafts wait for the host, as those with drafts do.
        if charged == DraftSource::None && (last.is_none() || plain > 2) {
            self.plain_costs.observe(stats.sampling, stats.rows - stats.sampling, took);
        }
    }

    /// Records the time of a step with drafts, and the wait of the step after it.
    fn learn_rows(&mut self, stats: &StepStats, took: f64, after_drafts: bool) {
        let &StepStats { rows, sequences, drafts, accepted, .. } = stats;
        if after_drafts && let Some(usual) = self.plain_costs.usual(sequences) {
            const WEIGHT: f64 = 0.1;
            let more = if drafts > 0 { 0.0 } else { (took - usual).clamp(-usual, usual) };
            self.wait += WEIGHT * (more - self.wait);
        }
        if drafts == 0 {
            return;
        }
        let costs = match stats.on_device {
            true => &mut self.device_costs[sequences.min(Costs::ROWS / 2) - 1],
            false => &mut self.costs,
        };
        costs.observe(rows, took);
        if let Some(usual) = self.plain_costs.usual(sequences) {
            let steps = (sequences + accepted) as f64 / sequences as f64;
            self.metrics.spec_decode_seconds_saved += steps * usual - took;
        }
    }

    /// Enters a step in the ledgers: in that of the `charged` source, and as budget in the other.
    fn learn_worth(&mut self, stats: &StepStats, took: f64, charged: DraftSource) {
        let &StepStats { rows, sequences, sampling, drafts, accepted, .. } = stats;
        let without = |more| self.plain_costs.seconds(sampling, more);
        let Some(step) = self.plain_costs.seconds(sequences, 0) else { return };
        // Each accepted draft saved a part of a later step.
        let further = without(0).map(|later| later * accepted as f64 / sampling.max(1) as f64);
        let alone = without(rows - drafts - sampling).zip(further);
        for source in [DraftSource::Lookup, DraftSource::Device] {
            let ledger = self.ledger(source, sequences);
            if source != charged {
                ledger.earn(took / step);
            } else if let Some((now, further)) = alone {
                ledger.observe(took / step, (now + further) / step);
            }
        }
    }

    /// The ledger of a draft source for batches of this many sequences.
    fn ledger(&mut self, source: DraftSource, sequences: usize) -> &mut Ledger {
        match source {
            DraftSource::Device => self.device_ledgers.of(sequences),
            DraftSource::None | DraftSource::Lookup => self.ledgers.of(sequences),
        }
    }

    /// Most drafts per sequence where this many sample.
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
                !self.pauses.of(sequences).is_on() && ledger.pays() && (best > 0 || seq.trial > 0);
        }
        seq.follows = seq.reads;
        seq.reads_late = !seq.reads;
        if let Some(late) = self.late_acceptance.as_ref().filter(|_| seq.reads_late) {
            seq.device_acceptance = late.clone();
        }
    }

    /// Decides whether the executor's drafter starts to read a sequence that it did not read so far. It
    /// then drafts with a shorter context and a lower acceptance rate.
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

    /// The best number of drafts by the executor, up to `most`, if `drafting` of `sequences` have them.
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
        let proposed = SeqDrafts { acceptance, pending: 0, drafts: most };
        worth.best(&vec![proposed; drafting], most)
    }

    /// Chooses draft tokens for these sequences as far as verifying them pays.
    pub(super) fn draft(&mut self, due: &[RequestId]) {
        let decoding = self.running.iter().filter(|seq| seq.decodes() || seq.waits()).count();
        let sequences = decoding.max(1);
        let most = self.most_drafts(sequences);
        let pauses = self.options.adaptive_drafts && self.pauses.of(sequences).is_on();
        let mut found = Vec::new();
        for (at, seq) in self.running.iter_mut().enumerate() {
            if !due.contains(&seq.id) {
                continue;
            }
            seq.set_proposal(Proposal::default());
            if most == 0 || !seq.may_draft() {
                seq.follows &= most > 0;
            } else if pauses {
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
                self.running[at].set_proposal(Proposal::Tokens(tokens));
            } else {
                self.draft_on_device(at, sequences, most);
            }
        }
    }

    /// Whether the executor's drafter can draft for a sequence and has a higher acceptance rate than
    /// prompt lookup. It costs time of its own.
    fn device_is_better(&self, at: usize, tokens: &[u32]) -> bool {
        let seq = &self.running[at];
        let drafts = tokens.len().saturating_sub(seq.pending()).min(self.device_drafts);
        seq.reads
            && seq.may_draft_on_device()
            && seq.device_acceptance.expected(drafts) > seq.acceptance.expected(drafts)
    }

    /// Most drafts per sequence from prompt lookup. `found`: (index in `running`, tokens).
    fn most_looked_up(
        &mut self,
        found: &[(usize, Vec<u32>)],
        sequences: usize,
        most: usize,
    ) -> usize {
        if !self.options.adaptive_drafts {
            return most;
        }
        let proposed = found.iter().filter(|(at, tokens)| !self.device_is_better(*at, tokens));
        let proposed = proposed.filter_map(|(at, tokens)| {
            let seq = &self.running[*at];
            let (acceptance, pending) = (&seq.acceptance, seq.pending());
            let drafts = tokens.len().checked_sub(pending)?;
            (drafts > 0).then_some(SeqDrafts { acceptance, pending, drafts })
        });
        let proposed: Vec<SeqDrafts> = proposed.collect();
        if proposed.is_empty() {
            return 0;
        }
        let plain = self.plain_costs.usual(sequences);
        let worth = Worth { plain, costs: &self.costs, wait: self.wait, sequences };
        let best = worth.best(&proposed, most);
        let ledger = self.ledgers.of(sequences);
        match best {
            0 if ledger.tries() => Ledger::DRAFTS.min(most),
            best if ledger.pays() => best,
            _ => 0,
        }
    }

    /// Decides how many tokens the executor drafts for a sequence, and whether it still reads it.
    fn draft_on_device(&mut self, at: usize, sequences: usize, most: usize) {
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
            // Alone it may not pay, but the others draft in the same steps anyway.
            reads = pays && (others || best(sequences) > 0);
            drafts = best(reading.min(sequences));
        }
        let seq = &mut self.running[at];
        seq.trial = seq.trial.saturating_sub(1);
        (seq.reads, seq.follows) = (reads, reads);
        seq.drafts_on_device = reads && drafts > 0;
        seq.runs_ahead = !self.options.adaptive_drafts || seq.rounds() >= ROUNDS_BEFORE_AHEAD;
        let drafts = if reads && seq.may_draft_on_device() { drafts } else { 0 };
        seq.set_proposal(Proposal::Device(drafts));
    }
}
