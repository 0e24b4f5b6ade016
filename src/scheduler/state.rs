//! What a scheduler holds.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use super::{
    options::Options,
    pace::Pace,
    queue::Queue,
    request::{Event, PinId},
    sequence::Sequence,
};
use crate::{
    cache::{KvCache, Pin},
    metrics::Metrics,
    speculate::{Acceptance, ByBatch, Costs, Drafter, Ledger, Ngram, PlainCosts, Rests},
    step::{BlockCopy, Capacity},
};

/// The requests of an engine and the KV blocks they share.
///
/// Decode rows come before chunks of prompts, and tabs that were served less
/// before those that were served more.
#[derive(Debug)]
pub struct Scheduler {
    pub(super) capacity: Capacity,
    pub(super) options: Options,
    pub(super) cache: KvCache,
    pub(super) pins: BTreeMap<PinId, Pin>,
    pub(super) queue: Queue,
    /// In order of admission. Each holds a slot and the blocks of what it computed.
    pub(super) running: Vec<Sequence>,
    /// Ended, but a step in flight still uses their slot and blocks.
    pub(super) draining: Vec<Sequence>,
    pub(super) free_slots: Vec<u32>,
    /// Blocks to copy before the rows of the next step.
    pub(super) copies: Vec<BlockCopy>,
    pub(super) pace: Pace,
    pub(super) drafter: Rc<dyn Drafter>,
    /// How long steps take whose drafts were looked up, and those with drafts of the executor's, by
    /// the number of sequences.
    pub(super) costs: Costs,
    pub(super) device_costs: [Costs; Costs::ROWS / 2],
    /// How often the drafts of all requests so far were right, and the executor's, where it has read
    /// the prompt and where it has not: what a new one begins with.
    pub(super) acceptance: Acceptance,
    pub(super) device_acceptance: Acceptance,
    pub(super) late_acceptance: Option<Acceptance>,
    /// How long steps take that the executor's drafter has no part in.
    pub(super) plain_costs: PlainCosts,
    /// What drafts are worth, those looked up and that drafter's.
    pub(super) ledgers: ByBatch<Ledger>,
    pub(super) device_ledgers: ByBatch<Ledger>,
    pub(super) rests: ByBatch<Rests>,
    /// The last step, if sequences were left to go on with.
    pub(super) before: Option<Before>,
    /// Seconds that the step after one with drafts takes more than usual, as nothing was queued behind
    /// the drafts; none where it has drafts itself.
    pub(super) wait: f64,
    /// Most drafts of the executor's own drafter; 0 if it has none.
    pub(super) device_drafts: usize,
    pub(super) submitted: u64,
    /// What has happened since [`Scheduler::take_events`] was last called.
    pub(super) events: Vec<Event>,
    pub(super) metrics: Metrics,
}

/// Who has a part in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Nobody,
    /// Prompt lookup alone.
    Lookup,
    /// The executor's drafter, which drafts or reads.
    Device,
}

/// A step that has been committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub at: Duration,
    pub by: By,
    pub has_drafts: bool,
    /// How many in a row the executor's drafter has had no part in.
    pub plain: usize,
}

impl Scheduler {
    /// A scheduler without requests, for an executor of this capacity.
    pub fn new(capacity: Capacity, options: Options) -> Scheduler {
        let seqs = options.max_running.min(capacity.seqs);
        let Capacity { blocks, window, rows, .. } = capacity;
        Scheduler {
            cache: KvCache::new(blocks, window, options.prefix_caching, options.seed)
                .with_share(options.tab_share),
            pins: BTreeMap::new(),
            queue: Queue::new(options.policy),
            running: Vec::new(),
            draining: Vec::new(),
            free_slots: (0..seqs as u32).rev().collect(),
            copies: Vec::new(),
            pace: Pace::new(options.step_seconds, rows),
            drafter: Rc::new(Ngram::default()),
            costs: Costs::default(),
            device_costs: Default::default(),
            acceptance: Acceptance::default(),
            device_acceptance: Acceptance::default(),
            late_acceptance: None,
            plain_costs: PlainCosts::default(),
            ledgers: ByBatch::new(Ledger::new),
            device_ledgers: ByBatch::new(Ledger::new),
            rests: ByBatch::new(|_| Rests::default()),
            before: None,
            wait: 0.0,
            device_drafts: 0,
            submitted: 0,
            events: Vec::new(),
            metrics: Metrics::default(),
            capacity,
            options,
        }
    }

    /// The same scheduler, empty, for an executor with a drafter of its own that proposes up to `drafts`
    /// tokens.
    pub fn with_device_drafts(self, drafts: usize) -> Scheduler {
        let lookahead = usize::from(drafts > 0);
        Scheduler { device_drafts: drafts, cache: self.cache.with_lookahead(lookahead), ..self }
    }

    /// The same scheduler with another drafter.
    pub fn with_drafter(self, drafter: Rc<dyn Drafter>) -> Scheduler {
        Scheduler { drafter, ..self }
    }

    /// Takes back the slot and the blocks of a sequence that no step in flight uses.
    pub(super) fn vacate(&mut self, seq: &mut Sequence) {
        self.cache.release(&mut seq.table);
        self.free_slots.push(seq.slot);
    }
}
