//! Admission and preemption: which requests get a slot and KV blocks, and which give them up.

use std::time::Duration;

use super::{
    queue::Queue,
    request::{RequestId, TabId},
    sequence::Sequence,
    state::Scheduler,
};
use crate::{cache::Admission, speculate::Load};

/// Tokens that a request gets for each that it had on admission, before it is preempted for its blocks.
const SLICE_FOR_BLOCKS: usize = 10;

/// The outcome of looking for a waiting request's first blocks.
enum First {
    /// With how many of its tokens that are cached in them.
    Blocks(usize),
    /// A step restores a part of its prefix first.
    Later,
    Missing,
}

/// The outcome of freeing blocks for a running sequence.
pub(super) enum Room {
    Found,
    /// Blocks become free when a step in flight is over.
    Later,
    /// The sequence itself was preempted.
    Gone,
}

impl Scheduler {
    /// Makes room for the waiting tabs with nothing running, a slot for each.
    ///
    /// They do not wait behind a tab that runs several requests of no higher rank: the last of these is
    /// preempted.
    pub(super) fn make_slots(&mut self) {
        let free = self.free_slots.len() + self.draining.len();
        let mut waiting = self.queue.turns(|tab| self.running_of(tab));
        // Not those that only wait because they give way.
        waiting.retain(|tab| self.running_of(*tab) == 0);
        for tab in waiting.into_iter().skip(free) {
            if let Some(at) = self.last_blocked().or_else(|| self.victim(tab, true)) {
                self.preempt_soon(at);
            }
        }
    }

    /// Admits the next waiting request if there are a slot and blocks for it.
    pub(super) fn admit(&mut self, now: Duration) -> bool {
        for tab in self.queue.turns(|tab| self.running_of(tab)) {
            while self.free_slots.is_empty() {
                if !self.reclaim() {
                    return false;
                }
            }
            for id in self.candidates(tab) {
                if self.queue.get(id).is_none_or(|seq| self.awaits_prefix(seq)) {
                    continue;
                }
                let mut found = self.find_blocks(id);
                while matches!(found, First::Missing)
                    && (self.reclaim() || self.running.is_empty() && self.unpin_oldest())
                {
                    found = self.find_blocks(id);
                }
                // Nobody overtakes a request for which there is no memory, or not yet.
                let cached = match found {
                    First::Blocks(cached) => cached,
                    First::Later => return false,
                    First::Missing => {
                        self.preempt_for(tab);
                        return false;
                    }
                };
                let (Some(mut seq), Some(slot)) = (self.queue.take(id), self.free_slots.pop())
                else {
                    return false;
                };
                if !seq.has_run() {
                    self.begin_to_draft(&mut seq, cached);
                }
                self.metrics.looked_up(seq.tab.0, seq.known(), cached, seq.has_run());
                self.metrics.restored(seq.tab.0, seq.table.restored());
                seq.times.admitted(now);
                seq.admit(slot, cached);
                self.running.push(seq);
                return true;
            }
        }
        false
    }

    fn begin_to_draft(&mut self, seq: &mut Sequence, cached: usize) {
        let load = Load {
            sequences: 1 + self.running.len() + self.queue.len(),
            prompt: seq.known() - cached,
            answer: seq.expected_answer(self.answers.get()),
            may_read: seq.may_read(),
        };
        self.speculation.begin(&mut seq.drafts, load);
    }

    fn candidates(&self, tab: TabId) -> Vec<RequestId> {
        let cached = |seq: &Sequence| self.cache.estimate(&seq.table);
        let aware = self.options.cache_aware && self.options.prefix_caching;
        self.queue.candidates(tab, aware.then_some(&cached as &dyn Fn(&Sequence) -> usize))
    }

    /// Whether a running request is computing a prefix that this one would otherwise compute again.
    fn awaits_prefix(&self, seq: &Sequence) -> bool {
        const WORTH: usize = 32;
        if let Some(twin) = self.twin(seq) {
            return self.running[twin].verified() + 1 < seq.known();
        }
        if !self.options.prefix_caching || !seq.may_skip_rows() {
            return false;
        }
        let computing = |other: &&Sequence| {
            !other.preempting && !other.held && other.verified() < other.prompt().len()
        };
        // What is verified is in the cache already.
        let shares = |other: &Sequence| {
            let common = seq.table.common(&other.table).min(other.prompt().len());
            common.min(seq.known() - 1) >= other.verified() + WORTH
        };
        self.running.iter().filter(computing).any(shares)
    }

    /// The running request that has the same prompt and has computed it, or is about to.
    fn twin(&self, seq: &Sequence) -> Option<usize> {
        let twin_of = seq.twin_of.filter(|_| !seq.has_run())?;
        let computes = |other: &Sequence| !other.held || other.verified() + 1 >= seq.known();
        let of = |other: &Sequence| other.id == twin_of && !other.preempting && computes(other);
        self.running.iter().position(of)
    }

    /// Gives a waiting request its first blocks.
    ///
    /// Blocks are allocated as they are needed, but a request is admitted only if there are enough for
    /// all running requests, whose answers are expected to become as long as others were: else some would
    /// be preempted and computed again.
    fn find_blocks(&mut self, id: RequestId) -> First {
        let Some(seq) = self.queue.get(id) else { return First::Missing };
        let known = seq.known();
        let share = if self.running.is_empty() { 0.0 } else { self.options.watermark };
        let mut spare = (share * self.cache.usable() as f64).ceil() as usize;
        let answer = self.answers.get().filter(|_| !self.running.is_empty());
        let answer = answer.unwrap_or(0.0) as usize;
        let blocks = |tokens: usize| self.capacity.blocks_of(tokens);
        let promised = |seq: &Sequence| seq.promised_blocks(answer, &self.capacity);
        spare += self.running.iter().map(promised).sum::<usize>();
        spare += blocks(seq.expected(answer)) - blocks(known);
        if let Some(twin) = self.twin(seq) {
            // The last token is computed again for its logits.
            let shared = known - 1;
            let parent = &self.running[twin].table;
            let forked = self.cache.fork(parent, shared, known, spare);
            let (Some((table, copies)), Some(seq)) = (forked, self.queue.get_mut(id)) else {
                return First::Missing;
            };
            self.copies.extend(copies);
            seq.table = table;
            return First::Blocks(shared);
        }
        let may_skip = seq.may_skip_rows();
        let cached = if may_skip { self.cache.lookup(&seq.table, seq.tokens()) } else { 0 };
        let room = known.min(cached + 1);
        spare += blocks(known) - blocks(room);
        let Some(seq) = self.queue.get_mut(id) else { return First::Missing };
        let (table, tokens) = seq.table_and_tokens();
        match self.cache.admit(table, tokens, room, may_skip, spare) {
            Admission::Admitted => First::Blocks(table.cached()),
            Admission::Restoring => First::Later,
            Admission::NoRoom => First::Missing,
        }
    }

    /// Frees blocks for a running sequence: preempts another one.
    pub(super) fn make_room(&mut self) -> Room {
        if self.frees_soon() {
            return Room::Later;
        }
        if let [seq] = &self.running[..] {
            // Alone it fits, except for pinned blocks; with a window, a step in flight may free some.
            if seq.in_flight() > 0 {
                return Room::Later;
            }
            if self.unpin_oldest() {
                return Room::Found;
            }
        }
        let order = |at: &usize| self.queue.preemption_order(&self.running[*at]);
        let Some(last) = (0..self.running.len()).max_by_key(order) else { return Room::Later };
        self.preempt_soon(last)
    }

    /// Unpins the prefix that has been pinned for longest.
    fn unpin_oldest(&mut self) -> bool {
        let Some((_, pin)) = self.pins.pop_first() else { return false };
        self.cache.unpin(pin);
        true
    }

    /// Preempts a blocked request. Returns false if there is none or a step in flight still uses it.
    fn reclaim(&mut self) -> bool {
        let blocked = self.last_blocked().filter(|_| !self.frees_soon());
        blocked.is_some_and(|at| matches!(self.preempt_soon(at), Room::Found))
    }

    /// Whether a step in flight is about to free a slot and blocks.
    fn frees_soon(&self) -> bool {
        !self.draining.is_empty() || self.running.iter().any(|seq| seq.preempting)
    }

    /// Makes room for a tab for which blocks lack.
    fn preempt_for(&mut self, tab: TabId) {
        if self.running_of(tab) == 0
            && !self.frees_soon()
            && let Some(at) = self.victim(tab, false)
        {
            self.preempt_soon(at);
        }
    }

    /// The running requests that are not about to leave.
    fn staying(&self) -> impl Iterator<Item = usize> {
        (0..self.running.len()).filter(|at| !self.running[*at].preempting)
    }

    /// The last running request that is blocked.
    fn last_blocked(&self) -> Option<usize> {
        let blocked = self.staying().filter(|at| self.running[*at].is_blocked());
        blocked.max_by_key(|at| self.queue.preemption_order(&self.running[*at]))
    }

    /// The running request that gives way to a tab with nothing running: the last one of the busiest tab,
    /// if that tab runs several and ranks no higher, else one whose time slice is over.
    fn victim(&self, tab: TabId, needs_slot: bool) -> Option<usize> {
        let busiest = self.staying().max_by_key(|at| {
            let seq = &self.running[*at];
            (self.running_of(seq.tab), self.queue.rank(seq))
        });
        let may_preempt = |at: &usize| {
            let seq = &self.running[*at];
            self.running_of(seq.tab) > 1 && self.queue.ranks_no_lower(tab, seq)
        };
        busiest.filter(may_preempt).or_else(|| self.slice_over(tab, needs_slot))
    }

    fn running_of(&self, tab: TabId) -> usize {
        self.staying().filter(|at| self.running[*at].tab == tab).count()
    }

    /// A running request that had its time slice and is to be preempted for a waiting one of `tab`. One that
    /// is preempted for its blocks is computed again, so its slice is the longer, the more it had.
    fn slice_over(&self, tab: TabId, needs_slot: bool) -> Option<usize> {
        let over = |at: &usize| {
            let seq = &self.running[*at];
            let worth = if needs_slot { 0 } else { SLICE_FOR_BLOCKS * seq.admitted() };
            seq.has_had(worth.max(Queue::QUANTUM as usize))
                && self.queue.trails(tab, seq.tab)
                && self.queue.is_before(tab, seq)
        };
        let over = self.staying().filter(over);
        over.max_by_key(|at| self.queue.standing(self.running[*at].tab))
    }

    /// Preempts a sequence, now or when its steps in flight are over.
    pub(super) fn preempt_soon(&mut self, at: usize) -> Room {
        if self.running[at].in_flight() > 0 {
            self.running[at].preempting = true;
            return Room::Later;
        }
        self.preempt(at);
        Room::Found
    }

    /// Sends a sequence that no step in flight uses back to the queue, to be recomputed later.
    pub(super) fn preempt(&mut self, at: usize) {
        let mut seq = self.running.remove(at);
        self.release(&mut seq);
        seq.restart();
        self.hash(&mut seq);
        self.queue.push_front(seq);
        self.metrics.num_preemptions += 1;
    }
}
