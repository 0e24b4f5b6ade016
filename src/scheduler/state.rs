//! The state of a scheduler.

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
    speculate::{Acceptance, ByBatch, Costs, Drafter, Ledger, Mean, Ngram, Pauses, PlainCosts},
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
    pub(super) drafter: Rc<dyn Drafter>,
    /// Times of steps with drafts from prompt lookup, and of those with drafts by the executor, the
    /// latter by the number of sequences.
    pub(super) costs: Costs,
    pub(super) device_costs: [Costs; Costs::ROWS / 2],
    /// Acceptance rates over all requests, the start value of a new one: of prompt lookup, and of the
    /// executor's drafter where it has read the prompt and where it has not.
    pub(super) acceptance: Acceptance,
    pub(super) device_acceptance: Acceptance,
    pub(super) late_acceptance: Option<Acceptance>,
    /// Times of steps without the executor's drafter.
    pub(super) plain_costs: PlainCosts,
    /// Whether drafts pay: from prompt lookup, and by the executor.
    pub(super) ledgers: ByBatch<Ledger>,
    pub(super) device_ledgers: ByBatch<Ledger>,
    pub(super) pauses: ByBatch<Pauses>,
    /// The last step, unless no sequence was left running after it.
    pub(super) last_step: Option<LastStep>,
    /// Extra seconds of the step after one with drafts: nothing was queued behind those. Zero if that
    /// step has drafts too.
    pub(super) wait: f64,
    /// Most drafts of the executor's own drafter; 0 if it has none.
    pub(super) device_drafts: usize,
    pub(super) submitted: u64,
    /// Events since the last [`Scheduler::take_events`].
    pub(super) events: Vec<Event>,
    pub(super) metrics: Metrics,
}

/// Where the drafts of a step come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DraftSource {
    None,
    /// Prompt lookup only.
    Lookup,
    /// The executor's drafter, which drafts or at least reads rows.
    Device,
}

/// The last committed step.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastStep {
    pub at: Duration,
    pub source: DraftSource,
    pub has_drafts: bool,
    /// Steps in a row without the executor's drafter.
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
            answers: Mean::default(),
            drafter: Rc::new(Ngram::default()),
            costs: Costs::default(),
            device_costs: Default::default(),
            acceptance: Acceptance::default(),
            device_acceptance: Acceptance::default(),
            late_acceptance: None,
            plain_costs: PlainCosts::default(),
            ledgers: ByBatch::new(Ledger::new),
            device_ledgers: ByBatch::new(Ledger::new),
            pauses: ByBatch::new(|_| Pauses::default()),
            last_step: None,
            wait: 0.0,
            device_drafts: 0,
            submitted: 0,
            events: Vec::new(),
            metrics: Metrics::default(),
            capacity,
            options,
        }
    }

    /// The same scheduler, empty, for an executor whose own drafter proposes up to `drafts` tokens.
    pub fn with_device_drafts(self, drafts: usize) -> Scheduler {
        let lookahead = usize::from(drafts > 0);
        Scheduler { device_drafts: drafts, cache: self.cache.with_lookahead(lookahead), ..self }
    }

    /// The same scheduler with another drafter.
    pub fn with_drafter(self, drafter: Rc<dyn Drafter>) -> Scheduler {
        Scheduler { drafter, ..self }
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
