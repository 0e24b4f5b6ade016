//! Chooses the rows of a step.
//!
//! | Who gets rows, in this order | How many | At whose expense |
//! |---|---|---|
//! | nobody, while a token in flight is waited for | | all wait, so that all decode together |
//! | sequences that decode | one each | of a sequence that is preempted where blocks lack |
//! | their drafts | the rest, or half of it where a prompt waits | nobody's: dropped where blocks lack |
//! | prompts, those of new requests too | the rest, in chunks where several have rows left | of a tab that runs several requests, for one that runs none; of a request whose time slice is over |
//!
//! In each line but that of drafts visible tabs come before hidden ones, then those that were served less, then the
//! [`Policy`](super::Policy); drafts go where they are likeliest. Without free blocks for a decoding sequence nobody is admitted. A step that
//! completes a prompt computes no rows of longer prompts from tabs that were served more.

use std::time::Duration;

use super::{
    admission::Room,
    request::{FinishReason, RequestId, TabId},
    sequence::Sequence,
    state::Scheduler,
};
use crate::{
    speculate::{self, Decoding},
    step::StepPlan,
};

/// What is left of a step's limits while it is planned.
struct Budget {
    rows: usize,
    /// Rows that drafts may take of them: those that decoders leave, or half where a prompt waits.
    drafts: usize,
    /// Rows whose logits are computed.
    logit_rows: usize,
    /// Rows that one prompt may take.
    chunk: usize,
    /// Sequences still to be planned; each may need the logits of one row.
    to_come: usize,
    /// The first tab of which the step completes a prompt, with its [standing](super::queue::Queue::standing).
    completes: Option<(TabId, (bool, u64))>,
}

impl Scheduler {
    /// Chooses the rows of the next step. The plan [is empty](StepPlan::is_empty) if there is nothing to compute before a
    /// step in flight is over.
    pub fn plan(&mut self, now: Duration) -> StepPlan {
        let mut plan = StepPlan::default();
        self.cache.set_copying(self.pace.restoring_pays());
        let mut may_admit = self.running.iter().all(|seq| !seq.preempting);
        if may_admit {
            self.make_slots();
        }
        // One waiting request may be admitted.
        let may_come = !self.free_slots.is_empty() && self.queue.iter().any(Sequence::may_run);
        let to_come = self.running.len() + usize::from(may_come);
        let logit_rows = self.capacity.logit_rows;
        let decoding = self.order(Sequence::decodes);
        // On a slow device, too, all that decode get a row, and a prompt one.
        let rows = self.pace.rows().max(decoding.len() + 1).min(self.capacity.rows);
        let spare = rows.saturating_sub(decoding.len());
        let computes = |seq: &Sequence| !seq.decodes() && seq.remaining() > 0;
        let prompts = self.running.iter().any(computes) || may_come;
        let drafts = if prompts { spare / 2 } else { spare };
        let logits = logit_rows.saturating_sub(decoding.len());
        self.speculate(
            &decoding,
            speculate::Room { rows: drafts.min(logits), has_prompts: prompts },
        );
        // A step reads all weights, for one sequence as for many: so sequences decode together, and no
        // step is planned behind one whose tokens somebody waits for.
        if self.running.iter().any(|seq| seq.in_flight() > 0 && seq.may_run() && seq.waits()) {
            return plan;
        }
        let mut budget = Budget { rows, drafts, logit_rows, chunk: rows, to_come, completes: None };
        for &id in &decoding {
            match self.extend(id, &mut budget, &mut plan, now) {
                Room::Found => {}
                // Nobody is admitted in a step in which somebody lacks memory.
                Room::Later | Room::Gone => may_admit = false,
            }
        }
        // Newly admitted requests share the rows for prefill.
        while may_admit && budget.rows > 0 && self.admit(now) {}
        budget.chunk = self.chunk(budget.rows);
        for id in self.order(|seq| !decoding.contains(&seq.id)) {
            self.extend(id, &mut budget, &mut plan, now);
        }
        // Without rows there is no step, but for one that restores a prefix.
        if !plan.seqs.is_empty() || self.cache.restores() {
            [plan.saves, plan.restores] = self.cache.take_copies();
            plan.copies = std::mem::take(&mut self.copies);
        }
        plan
    }

    /// Rows of a step that one prompt may take, of `rows` that are left.
    fn chunk(&self, rows: usize) -> usize {
        let contenders = self.running.iter().filter(|seq| seq.remaining() > 0).count();
        if contenders < 2 {
            return rows;
        }
        let share = if self.options.adaptive_threshold { rows / contenders } else { 0 };
        self.options.long_prefill_threshold.max(share)
    }

    /// The running sequences that are `due`, in the order in which they get rows: by tab, then by
    /// policy.
    fn order(&self, due: impl Fn(&Sequence) -> bool) -> Vec<RequestId> {
        let mut order: Vec<&Sequence> = self.running.iter().filter(|seq| due(seq)).collect();
        order.sort_by_cached_key(|seq| (self.queue.standing(seq.tab), self.queue.rank(seq)));
        order.into_iter().map(|seq| seq.id).collect()
    }

    /// Adds rows of a running sequence to the plan, as far as the budget allows.
    fn extend(
        &mut self,
        id: RequestId,
        budget: &mut Budget,
        plan: &mut StepPlan,
        now: Duration,
    ) -> Room {
        budget.to_come = budget.to_come.saturating_sub(1);
        let mut may_draft = true;
        loop {
            let Some(at) = self.running.iter().position(|seq| seq.id == id) else {
                return Room::Gone;
            };
            let others = self.running.len() - 1;
            let seq = &mut self.running[at];
            let mut count = seq.remaining().min(budget.chunk).min(budget.rows);
            if seq.scores_rows() {
                // The others sample, or will.
                let spare = budget.logit_rows.saturating_sub(others).max(1);
                count = count.min(spare).min(budget.logit_rows);
            } else if budget.logit_rows == 0 {
                count = 0;
            }
            let standing = self.queue.standing(seq.tab);
            let completes = count == seq.remaining() && !seq.decodes();
            // Nobody waits for a first token because of a tab that was served more.
            let is_late = |(tab, first)| tab != seq.tab && first < standing;
            let is_late = budget.completes.is_some_and(is_late);
            if count == 0 || seq.preempting || count < seq.remaining() && is_late {
                return Room::Found;
            }
            let mut drafts = seq.next_drafts().min(budget.rows - count).min(budget.drafts);
            drafts = drafts.min(budget.logit_rows.saturating_sub(1 + budget.to_come));
            if !may_draft || count < seq.remaining() {
                drafts = 0;
            }
            let length = seq.reach(count + drafts);
            if !self.cache.reserve(&mut seq.table, length) {
                if drafts > 0 {
                    may_draft = false;
                    continue;
                }
                match self.make_room() {
                    Room::Found => continue,
                    room => return room,
                }
            }
            match seq.advance(count, drafts) {
                Ok(rows) => {
                    budget.completes =
                        budget.completes.or(completes.then_some((seq.tab, standing)));
                    budget.rows -= rows.rows();
                    budget.drafts -= rows.drafts.len();
                    let scored = if rows.score.is_some() { count } else { 0 };
                    budget.logit_rows -= scored.max(rows.sampled());
                    self.queue.charge(seq.tab, rows.rows());
                    plan.seqs.push(rows);
                }
                Err(error) => self.finish_running(at, FinishReason::Error(error), now),
            }
            return Room::Found;
        }
    }

    /// Chooses the drafts of the sequences that decode.
    fn speculate(&mut self, decoding: &[RequestId], room: speculate::Room) {
        let due = self.running.iter_mut().filter(|seq| decoding.contains(&seq.id));
        let mut due: Vec<Decoding<'_>> = due.map(Sequence::decoding).collect();
        self.speculation.decide(room, &mut due);
    }
}
