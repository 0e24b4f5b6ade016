//! What the scheduler asks of an executor for one step, and what comes back.
//!
//! There is no prefill mode and no decode mode: a step is a ragged list of
//! sequences, each with one row (decode) or several (a chunk of a prompt).

use crate::error::Result;

/// Tokens per KV block.
pub const BLOCK_SIZE: usize = 16;

/// One step over a ragged batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepPlan {
    pub seqs: Vec<SeqPlan>,
    /// Whether the result carries the logits of every row; at most `Capacity::logit_rows` rows then.
    pub read_logits: bool,
}

/// The rows of one sequence in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct SeqPlan {
    /// The sequence's place in the executor's table of last samples; unique among live sequences.
    pub slot: u32,
    pub tokens: RowTokens,
    /// Position of the first row = tokens of this sequence already in the KV cache.
    pub start: u32,
    /// Block table: KV block of positions 16·i .. 16·i + 15, for all positions up to the last row's.
    pub blocks: Vec<u32>,
    /// Samples a token from the last row's logits into `slot`.
    pub sample: Option<Sampling>,
}

/// Where the token ids of a sequence's rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum RowTokens {
    /// Ids the host knows, one per row.
    Known(Vec<u32>),
    /// One row, whose id is the last sample of the sequence's slot; the host need not have seen it.
    LastSample,
}

impl RowTokens {
    /// Number of rows.
    pub fn count(&self) -> usize {
        match self {
            RowTokens::Known(ids) => ids.len(),
            RowTokens::LastSample => 1,
        }
    }
}

impl StepPlan {
    /// Number of rows of all sequences.
    pub fn rows(&self) -> usize {
        self.seqs.iter().map(|seq| seq.tokens.count()).sum()
    }
}

/// How a token is drawn from logits. Already validated: ranges hold.
///
/// A token at position p is argmax over v of (log p(v) + Gumbel noise keyed
/// (seed, p, v)), so it depends on neither batch nor schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// Keep the k most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep the smallest set of most likely tokens whose mass reaches this; 1 keeps all.
    pub top_p: f32,
    /// Drop tokens less likely than this share of the likeliest; 0 keeps all.
    pub min_p: f32,
    pub seed: u64,
}

impl Sampling {
    /// Plain argmax.
    pub const GREEDY: Sampling =
        Sampling { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0 };
}

/// What a step produced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepResult {
    /// One entry per sequence of the plan that samples, in the plan's order.
    pub samples: Vec<Sample>,
    /// `[rows][vocab]`, if the plan asked for it.
    pub logits: Vec<f32>,
    /// Time the device spent on the step, where it can tell.
    pub device_nanos: Option<u64>,
}

/// A sampled token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub slot: u32,
    pub token: u32,
    /// How many of the row's logits were NaN or infinite; the token means nothing unless this is 0.
    pub not_finite: u32,
}

/// Runs steps. The one seam between the serving core and the hardware.
///
/// Steps run in the order of submission. At most [`Executor::DEPTH`] may be
/// in flight: the caller submits the next step before it has read the last
/// one's samples, which stay on the device and feed [`RowTokens::LastSample`].
#[allow(async_fn_in_trait)] // single-threaded by design: no future crosses threads
pub trait Executor {
    /// Steps that may be in flight.
    const DEPTH: usize = 2;

    /// What the executor can hold.
    fn capacity(&self) -> Capacity;

    /// Starts a step. The plan must respect [`Executor::capacity`]; it is checked.
    fn submit(&mut self, plan: &StepPlan) -> Result<()>;

    /// Waits for the oldest step in flight and returns what it produced.
    async fn result(&mut self) -> Result<StepResult>;
}

/// Sizes fixed when an executor is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Rows per step.
    pub rows: usize,
    /// Sequences per step, and size of the table of last samples.
    pub seqs: usize,
    /// Rows per step whose logits are computed: at least `seqs`.
    pub logit_rows: usize,
    /// KV blocks, all usable by the caller.
    pub blocks: usize,
    /// Most tokens in one sequence.
    pub context: usize,
    pub vocab: usize,
}
