//! The state of a scheduler.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    options::Options,
    pace::Pace,
    queue::Queue,
    request::{Ended, Event, PinId},
    sequence::Sequence,
};
use crate::{
    cache::{KvCache, Pin},
    metrics::Metrics,
    speculate::{Mean, Proposer, Speculation},
    step::{BlockCopy, Capacity},
};

/// The requests of an engine and the KV blocks they share.
///
/// Decode rows come before prefill chunks, and tabs that were served less before tabs that were served
/// more.
#[derive(Debug)]
pub struct Scheduler {
    pub(super) capacity: Capacity,
    pub(super) options: Options,
    pub(super) cache: KvCache,
    pub(super) pins: BTreeMap<PinId, Pin>,
    pub(super) queue: Queue,
    /// In order of admission. Each holds a slot and the KV blocks of its tokens.
    pub(super) running: Vec<Sequence>,
    /// Ended, but a step in flight still uses their slot and blocks.
    pub(super) draining: Vec<Sequence>,
    pub(super) free_slots: Vec<u32>,
    /// Blocks to copy before the rows of the next step.
    pub(super) copies: Vec<BlockCopy>,
    pub(super) pace: Pace,
    /// Tokens of the answers so far.
    pub(super) answers: Mean,
    pub(super) speculation: Speculation,
    pub(super) submitted: u64,
    /// Sequences of this salt are stored when they end.
    pub(super) stored_salt: Option<u64>,
    pub(super) ended: Vec<Ended>,
    /// Events since the last [`Scheduler::take_events`].
    pub(super) events: Vec<Event>,
    pub(super) metrics: Metrics,
}

impl Scheduler {
    /// A scheduler without requests, for an executor of this capacity.
    pub fn new(capacity: Capacity, options: Options) -> Scheduler {
        let seqs = options.max_running.min(capacity.seqs);
        let Capacity { blocks, groups, host, rows, .. } = capacity;
        Scheduler {
            cache: KvCache::new(blocks, groups, options.prefix_caching, options.seed)
                .with_share(options.tab_share)
                .with_host(host),
            pins: BTreeMap::new(),
            queue: Queue::new(options.policy),
            running: Vec::new(),
            draining: Vec::new(),
            free_slots: (0..seqs as u32).rev().collect(),
            copies: Vec::new(),
            pace: Pace::new(options.step_seconds, rows),
            answers: Mean::default(),
            speculation: Speculation::new(options.max_drafts, options.adaptive_drafts),
            submitted: 0,
            stored_salt: None,
            ended: Vec::new(),
            events: Vec::new(),
            metrics: Metrics::default(),
            capacity,
            options,
        }
    }

    /// The same scheduler, empty, for an executor whose own drafter proposes up to `drafts` tokens. Its keys
    /// and values depend on `lookahead` tokens after their own.
    pub fn with_device_drafts(self, drafts: usize, lookahead: usize) -> Scheduler {
        let speculation = self.speculation.with_device(drafts);
        Scheduler { speculation, cache: self.cache.with_lookahead(lookahead), ..self }
    }

    /// The same scheduler, empty, for an executor that computes within [`submit`](crate::step::Executor::submit):
    /// short steps, between which the thread can do other work.
    pub fn with_short_steps(self) -> Scheduler {
        Scheduler { pace: self.pace.row_by_row(), ..self }
    }

    /// The same scheduler with another proposer in place of prompt lookup.
    pub fn with_proposer(self, proposer: Rc<dyn Proposer>) -> Scheduler {
        Scheduler { speculation: self.speculation.with_proposer(proposer), ..self }
    }

    /// Hashes the tokens of a sequence that will wait, once: each plan may look up its prefix.
    pub(super) fn hash(&self, seq: &mut Sequence) {
        let (table, tokens) = seq.table_and_tokens();
        self.cache.hash(table, tokens);
    }

    /// Frees the slot and the blocks of a sequence that no step in flight uses.
    pub(super) fn release(&mut self, seq: &mut Sequence) {
        self.cache.release(&mut seq.table);
        self.free_slots.push(seq.slot);
    }
}
