//! Prefixes that are stored between visits: what ended is read, and what was stored comes back through host
//! memory.

use std::time::Duration;

use super::{
    request::{Ended, FinishReason, TabId},
    sequence::Sequence,
    state::Scheduler,
};
use crate::{Error, step::BLOCK_SIZE};

/// Sequences that wait to be stored.
const MOST: usize = 16;

impl Scheduler {
    /// Keeps the tokens of sequences with this salt when they end, for [`Scheduler::take_ended`].
    pub fn note_ended_of(&mut self, salt: u64) {
        self.stored_salt = Some(salt);
    }

    /// The sequences that have ended since, at most the last 16.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    pub(super) fn note_ended(&mut self, seq: &Sequence, reason: &FinishReason) {
        let is_sound = !matches!(reason, FinishReason::Error(Error::Numerical { .. }));
        if self.stored_salt == Some(seq.table.salt()) && seq.may_skip_rows() {
            if self.ended.len() == MOST {
                self.ended.remove(0);
            }
            self.ended.push(Ended { tokens: seq.tokens().to_vec(), is_sound });
        }
    }

    /// Tokens of the longest prefix that is cached on the device or in host memory.
    pub fn cached(&self, tokens: &[u32], salt: u64) -> usize {
        self.cache.cached(tokens, salt)
    }

    /// The device blocks of the longest prefix that is cached on the device, `[entries][groups]`.
    pub fn on_device(&self, tokens: &[u32], salt: u64) -> Vec<Option<u32>> {
        self.cache.on_device(tokens, salt)
    }

    /// Gives blocks whose contents come from storage, (entry, group), a place in host memory, see
    /// [`KvCache::adopt`](crate::cache::KvCache::adopt).
    pub fn adopt(
        &mut self,
        tokens: &[u32],
        salt: u64,
        blocks: &[(usize, usize)],
    ) -> Vec<Option<u32>> {
        self.cache.adopt(tokens, salt, blocks)
    }

    /// Forgets the content of a host block that could not be set.
    pub fn disown(&mut self, block: u32) {
        self.cache.disown(block);
    }

    /// Counts entries of a tab's prompt that came from storage.
    pub fn count_stored(&mut self, tab: TabId, entries: usize) {
        self.metrics.stored(tab.0, entries * BLOCK_SIZE);
    }

    /// Time to compute a row of a prompt, once a step has shown it.
    pub fn row_time(&self) -> Option<Duration> {
        self.pace.row_time()
    }
}
