//! Speculation of one sequence.

use super::{Proposer, acceptance::Acceptance};
use crate::step::Draft;

/// The draft tokens of one sequence, and how they fared.
#[derive(Debug)]
pub struct Drafts {
    pub(super) lookup: Box<dyn Proposer>,
    /// Acceptance rates of drafts from prompt lookup, and by the executor's drafter.
    pub(super) looked_up: Acceptance,
    pub(super) on_device: Acceptance,
    /// Whether the executor's drafter is to read its next rows.
    pub(super) reads: bool,
    /// Whether the executor's drafter has read the rows before the next ones.
    pub(super) has_read: bool,
    /// Drafts behind the tokens that the host knows.
    choice: Choice,
    /// Whether a step may be planned behind one with drafts before it is known which of these are
    /// accepted: the executor drafts wherever they end.
    runs_ahead: bool,
    /// Tokens that its answer will probably have.
    pub(super) expected: f64,
    /// Steps with drafts so far, drafts in them, and accepted drafts.
    rounds: usize,
    made: usize,
    accepted: usize,
}

/// The draft tokens of a sequence's next step.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Choice {
    #[default]
    None,
    /// These, starting with the ones for the tokens in flight.
    Tokens(Vec<u32>),
    /// This many, drafted by the executor behind the tokens in flight.
    Device(usize),
}

/// A sequence that decodes, for which drafts are chosen.
pub struct Decoding<'a> {
    pub drafts: &'a mut Drafts,
    /// The tokens that the host knows.
    pub tokens: &'a [u32],
    /// Tokens in flight behind them.
    pub pending: usize,
    /// Most drafts that the answer has room for; 0 if it must have none.
    pub room: usize,
    /// Whether the executor's drafter can draft for it.
    pub may_read: bool,
}

/// A sequence for which a step sampled.
pub struct Sampled<'a> {
    pub drafts: &'a mut Drafts,
    /// What the host knew before.
    pub tokens: &'a [u32],
    /// The sampled token, and one more for each accepted draft.
    pub came: Vec<u32>,
    pub made: &'a [Draft],
}

/// Rounds that an answer must have, so far or probably, for the next one to be planned while the one
/// before runs: that saves a wait in each, and wastes a round behind the end.
const ROUNDS_TO_RUN_AHEAD: f64 = 16.0;

impl Drafts {
    /// No drafts so far.
    pub(super) fn new(lookup: Box<dyn Proposer>) -> Drafts {
        Drafts {
            lookup,
            looked_up: Acceptance::default(),
            on_device: Acceptance::default(),
            reads: false,
            has_read: false,
            choice: Choice::default(),
            runs_ahead: false,
            expected: 0.0,
            rounds: 0,
            made: 0,
            accepted: 0,
        }
    }

    /// The draft tokens of the next step.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Sets the draft tokens of the next step. `adaptive`: drafts have to pay.
    pub(super) fn choose(&mut self, choice: Choice, adaptive: bool) {
        self.choice = choice;
        // As if two tokens had come in a round before the first.
        let rounds = self.rounds as f64;
        let tokens = (rounds + self.accepted as f64 + 2.0) / (rounds + 1.0);
        self.runs_ahead = !adaptive || rounds.max(self.expected / tokens) >= ROUNDS_TO_RUN_AHEAD;
    }

    /// Whether the executor's drafter is to read the next rows.
    pub fn reads(&self) -> bool {
        self.reads
    }

    /// Records whether the executor's drafter reads the rows of a step.
    pub fn read(&mut self, reads: bool) {
        self.has_read = reads;
    }

    /// Whether the executor's drafter has read the rows before the next ones, and so can draft.
    pub fn has_read(&self) -> bool {
        self.has_read
    }

    /// Records that all rows will be computed again.
    pub fn restart(&mut self) {
        self.has_read = false;
        self.choice = Choice::default();
    }

    /// Prepares for lookups behind these tokens.
    pub fn index(&mut self, tokens: &[u32]) {
        self.lookup.read(tokens);
    }

    /// Whether the next step may be planned before it is known how many drafts of the step before are
    /// accepted: the executor drafts, wherever they end.
    pub fn runs_ahead(&self) -> bool {
        self.runs_ahead && self.has_read && matches!(self.choice, Choice::Device(_))
    }

    /// Records a step with drafts.
    pub(super) fn verified(&mut self, made: usize) {
        self.rounds += usize::from(made > 0);
        self.made += made;
    }

    /// Records an accepted draft.
    pub fn accept(&mut self) {
        self.accepted += 1;
    }

    /// Accepted and rejected drafts so far.
    pub fn counts(&self) -> (usize, usize) {
        (self.accepted, self.made - self.accepted)
    }
}
