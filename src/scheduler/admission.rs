//! Who gets a slot and blocks, and who gives them up.

use std::time::Duration;

use super::{
    request::{RequestId, TabId},
    sequence::Sequence,
    state::Scheduler,
};
use crate::{
    cache::BlockTable,
    step::{BLOCK_SIZE, Window},
};

/// What came of an attempt to find blocks for a running sequence.
pub(super) enum Room {
    Found,
    /// Blocks come back when a step in flight is over.
    Later,
    /// The sequence gave way itself.
    Gone,
}

impl Scheduler {
    /// Lets the next waiting request run if there are a slot and blocks for it.
    ///
    /// A tab with nothing running does not wait behind one that runs several and has no better
    /// claim: the latter gives up its latest.
    pub(super) fn admit(&mut self, now: Duration) -> bool {
        for tab in self.queue.turns() {
            while self.free_slots.is_empty() {
                if !self.reclaim() {
                    self.displace(tab);
                    return false;
                }
            }
            for id in self.candidates(tab) {
                if self.queue.get(id).is_none_or(|seq| self.awaits_prefix(seq)) {
                    continue;
                }
                let mut blocks = self.blocks_for(id);
                while blocks.is_none()
                    && (self.reclaim() || self.running.is_empty() && self.let_go_of_a_pin())
                {
                    blocks = self.blocks_for(id);
                }
                let Some((table, cached)) = blocks else {
                    self.displace(tab);
                    // Nobody overtakes a request for which there is no memory.
                    return false;
                };
                let (Some(mut seq), Some(slot)) = (self.queue.take(id), self.free_slots.pop())
                else {
                    return false;
                };
                if !seq.has_run() {
                    self.begin_to_draft(&mut seq);
                }
                self.metrics.looked_up(seq.tab.0, seq.known(), cached, seq.has_run());
                seq.times.admitted(now);
                seq.admit(slot, table, cached);
                self.running.push(seq);
                return true;
            }
        }
        false
    }

    fn candidates(&self, tab: TabId) -> Vec<RequestId> {
        let cached = |seq: &Sequence| self.cache.lookup(seq.tokens(), seq.salt);
        let aware = self.options.cache_aware && self.options.prefix_caching;
        self.queue.candidates(tab, aware.then_some(&cached as &dyn Fn(&Sequence) -> usize))
    }

    /// Whether somebody is computing a prefix that this request would otherwise compute as well.
    fn awaits_prefix(&self, seq: &Sequence) -> bool {
        const WORTH: usize = 32;
        if let Some(twin) = self.twin(seq) {
            return self.running[twin].verified() + 1 < seq.known();
        }
        if !self.options.prefix_caching || !seq.may_skip_rows() {
            return false;
        }
        let shared = |other: &Sequence| {
            let prompts = seq.tokens().iter().zip(other.prompt());
            prompts.take_while(|(a, b)| a == b).count()
        };
        let computing = |other: &&Sequence| {
            let goes_on = !other.yielding && !other.held;
            goes_on && other.salt == seq.salt && other.verified() < other.prompt().len()
        };
        // What is verified already, the cache has.
        self.running
            .iter()
            .filter(computing)
            .any(|other| shared(other).min(seq.known() - 1) >= other.verified() + WORTH)
    }

    /// The running request whose prompt this one repeats and that has computed it, or is about to.
    fn twin(&self, seq: &Sequence) -> Option<usize> {
        let twin_of = seq.twin_of.filter(|_| !seq.has_run())?;
        let computes = |other: &Sequence| !other.held || other.verified() + 1 >= seq.known();
        let of = |other: &Sequence| other.id == twin_of && !other.yielding && computes(other);
        self.running.iter().position(of)
    }

    /// The first blocks of a waiting request, and how many of its tokens they already hold.
    ///
    /// Blocks are taken as they are needed, but nobody is admitted unless there are enough for all
    /// the tokens of all who run.
    fn blocks_for(&mut self, id: RequestId) -> Option<(BlockTable, usize)> {
        let seq = self.queue.get(id)?;
        let known = seq.known();
        let share = if self.running.is_empty() { 0.0 } else { self.options.watermark };
        let mut spare = (share * self.cache.usable() as f64).ceil() as usize;
        // A window gives blocks back while the prompt is computed.
        let rows = self.capacity.rows;
        let seen = |window: Window| (window.sinks + window.tokens + rows).div_ceil(BLOCK_SIZE) + 2;
        let most = self.capacity.window.map_or(usize::MAX, seen);
        spare += self.running.iter().map(|seq| seq.promised_blocks(most)).sum::<usize>();
        if let Some(twin) = self.twin(seq) {
            // The last token is computed again, for its logits.
            let shared = known - 1;
            let parent = &self.running[twin].table;
            let (table, copy) = self.cache.fork(parent, shared, known, spare)?;
            self.copies.extend(copy);
            return Some((table, shared));
        }
        let (tokens, may_skip) = (seq.tokens(), seq.may_skip_rows());
        let cached = if may_skip { self.cache.lookup(tokens, seq.salt) } else { 0 };
        let room = known.min(cached + 1);
        let [needed, taken] = [known, room].map(|tokens| tokens.div_ceil(BLOCK_SIZE).min(most));
        spare += needed - taken;
        let table = self.cache.admit(tokens, seq.salt, seq.tab.0, room, may_skip, spare)?;
        let cached = table.cached();
        Some((table, cached))
    }

    /// Finds blocks for a running sequence by sending another back to the queue.
    pub(super) fn make_room(&mut self) -> Room {
        if !self.draining.is_empty() || self.running.iter().any(|seq| seq.yielding) {
            return Room::Later;
        }
        if let [seq] = &self.running[..] {
            // Alone it fits, but for pinned blocks; a window lets go of some after a step in flight.
            if seq.in_flight > 0 {
                return Room::Later;
            }
            if self.let_go_of_a_pin() {
                return Room::Found;
            }
        }
        let claim = |at: &usize| self.queue.claim(&self.running[*at]);
        let Some(last) = (0..self.running.len()).max_by_key(claim) else { return Room::Later };
        self.give_way(last)
    }

    /// Makes blocks of the prefix that has been pinned for longest available.
    fn let_go_of_a_pin(&mut self) -> bool {
        let Some((_, pin)) = self.pins.pop_first() else { return false };
        self.cache.unpin(pin);
        true
    }

    /// Takes slot and blocks back from a held request. Returns whether it had to wait for no step in
    /// flight.
    fn reclaim(&mut self) -> bool {
        if !self.draining.is_empty() || self.running.iter().any(|seq| seq.yielding) {
            return false;
        }
        let held = (0..self.running.len()).filter(|at| self.running[*at].held);
        let last = held.max_by_key(|at| self.queue.claim(&self.running[*at]));
        last.is_some_and(|at| matches!(self.give_way(at), Room::Found))
    }

    /// Makes way for a tab with nothing running: sends the latest of the tab that runs most back to
    /// the queue, if that runs several and its turn there would be after the other's.
    fn displace(&mut self, tab: TabId) {
        let has_part = self.running.iter().any(|seq| seq.tab == tab);
        if has_part || !self.draining.is_empty() || self.running.iter().any(|seq| seq.yielding) {
            return;
        }
        let of_tab = |tab: TabId| self.running.iter().filter(|seq| seq.tab == tab).count();
        let busiest = (0..self.running.len())
            .max_by_key(|at| (of_tab(self.running[*at].tab), self.queue.rank(&self.running[*at])));
        let gives_way = |at: &usize| {
            let seq = &self.running[*at];
            of_tab(seq.tab) > 1 && self.queue.is_before(tab, seq)
        };
        if let Some(at) = busiest.filter(gives_way) {
            self.give_way(at);
        }
    }

    /// Sends a sequence back to the queue, now or when its steps in flight are over.
    pub(super) fn give_way(&mut self, at: usize) -> Room {
        if self.running[at].in_flight > 0 {
            self.running[at].yielding = true;
            return Room::Later;
        }
        self.preempt(at);
        Room::Found
    }

    /// Sends a sequence that no step in flight uses back to the queue, to be computed again later.
    pub(super) fn preempt(&mut self, at: usize) {
        let mut seq = self.running.remove(at);
        self.vacate(&mut seq);
        seq.restart();
        self.queue.push_front(seq);
        self.metrics.num_preemptions += 1;
    }
}
