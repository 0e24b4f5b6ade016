//! What the scheduler asks of an executor for one step, and what comes back.
//!
//! There is no prefill mode and no decode mode: a step is a ragged list of
//! sequences, each with one row (decode) or several (a chunk of a prompt).

use std::{borrow::Cow, sync::Arc};

use crate::error::Result;

/// Tokens per KV block.
pub const BLOCK_SIZE: usize = 16;

/// One step over a ragged batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepPlan {
    /// Blocks to copy, in all layers, one after the other, before any row is computed.
    pub copies: Vec<BlockCopy>,
    pub seqs: Vec<SeqPlan>,
    /// Whether the result carries the logits of every row; at most `Capacity::logit_rows` rows then.
    pub read_logits: bool,
}

/// A copy of the keys and values of a whole block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCopy {
    pub from: u32,
    pub to: u32,
}

/// The rows of one sequence in a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeqPlan {
    /// The sequence's place in the executor's tables of blocks, last samples and sampling state;
    /// unique among live sequences.
    pub slot: u32,
    pub tokens: RowTokens,
    /// Position of the first row = tokens of this sequence already in the KV cache.
    pub start: u32,
    /// Drafts of the slot's step before, if the host does not know yet how many of them were right: the
    /// rows begin so many positions after `start`, and the blocks reach as far as if all were. The rows'
    /// tokens are then [`RowTokens::LastSample`] and what the executor's own drafter proposes.
    pub unverified: u32,
    /// Index of the first of `blocks` in the slot's block table.
    pub first_block: u32,
    /// Entries of the slot's block table from `first_block` on: KV block of positions 16·i .. 16·i + 15.
    /// The executor keeps those before, which earlier steps of the sequence have set, and all of them
    /// if this is empty; together they reach the last row's position. Entries that neither these rows
    /// nor later ones see may be anything.
    pub blocks: Vec<u32>,
    /// Draws a token from the logits of the last of these rows into `slot`.
    pub sample: Option<Sampling>,
    /// Tokens that are guessed to come next, at most [`MAX_DRAFTS`], with a row each. A token is drawn
    /// after each of them as well; what stands is the first draw, and one more for each draft, in
    /// order, that is the token drawn in its place. Needs `sample`, and goes with no `score`.
    pub drafts: Vec<Draft>,
    /// Whether the executor's own drafter reads these rows, so that it can draft after them, and what
    /// follows them.
    pub follow: Follow,
    /// Tokens whose log-probabilities are told with that of the drawn one, at most
    /// [`MAX_LOGPROB_TOKENS`].
    pub logprob_tokens: Arc<[u32]>,
    /// Replaces what the slot's draws are adjusted by. A sequence that draws with penalties or a
    /// bias brings it along with its first rows.
    pub adjust: Option<Box<Adjust>>,
    /// The tokens that the first draw may choose.
    pub mask: Mask,
    /// Log-probabilities of given tokens under each row's logits.
    pub score: Option<Score>,
    /// Adds the rows' final hidden states to an embedding.
    pub pool: Option<Pool>,
}

/// A token that a drafter expects, and what may be drawn after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// If none, the executor's own drafter proposes it, see [`Executor::drafts`]; then it does so for
    /// all drafts of the sequence.
    pub token: Option<u32>,
    /// The tokens that the draw after it may choose.
    pub mask: Mask,
}

/// The token after the rows of a sequence in a step, for the executor's own drafter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// The drafter does not read these rows.
    #[default]
    No,
    /// The rows draw, and what they draw follows.
    Drawn,
    Known(u32),
}

/// What a slot's draws are adjusted by: penalties look at the tokens, the bias is added to logits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adjust {
    /// All tokens of the sequence that the host knows. Tokens drawn later count by themselves.
    pub tokens: Vec<u32>,
    /// How many of them are the prompt.
    pub prompt: usize,
    /// (token, what is added to its logit), at most [`MAX_BIAS`].
    pub bias: Vec<(u32, f32)>,
}

/// The tokens that a draw may choose.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Mask {
    /// All.
    #[default]
    None,
    /// Those of the [`Mask::New`] that the slot was given last for a draw in this place of a step: for
    /// the first draw, for that after the first draft, and so on.
    Same,
    /// One bit per token, `[ceil(vocab / 32)]`; token t is bit t mod 32 of word t / 32.
    New(Vec<u32>),
}

/// Tokens whose log-probabilities are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// One per row: the token after it.
    pub targets: Vec<u32>,
    /// How many of each row's likeliest tokens to tell as well, at most [`MAX_LOGPROBS`].
    pub top: u32,
}

/// How the rows of a step become part of an embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    pub pooling: Pooling,
    /// Whether the sequence ends with these rows; the result then carries the embedding.
    pub last: bool,
}

/// How final hidden states become one embedding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all positions.
    Mean,
    /// The last position.
    #[default]
    Last,
}

/// Most drafts of a sequence in a step.
pub const MAX_DRAFTS: usize = 7;

/// Most entries of a bias.
pub const MAX_BIAS: usize = 1024;

/// Most of the likeliest tokens that a log-probability comes with.
pub const MAX_LOGPROBS: u32 = 20;

/// Most tokens that are named for their log-probabilities.
pub const MAX_LOGPROB_TOKENS: usize = 128;

/// Where the token ids of a sequence's rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum RowTokens {
    /// Ids the host knows, one per row.
    Known(Vec<u32>),
    /// One row, whose id is the slot's last draw that stands; the host need not have seen it.
    LastSample,
}

impl Default for RowTokens {
    fn default() -> RowTokens {
        RowTokens::Known(Vec::new())
    }
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

impl SeqPlan {
    /// Number of rows, those of drafts included.
    pub fn rows(&self) -> usize {
        self.tokens.count() + self.drafts.len()
    }

    /// Number of tokens drawn, whether they stand or not.
    pub fn draws(&self) -> usize {
        self.sample.map_or(0, |_| 1 + self.drafts.len())
    }

    /// The masks of its draws, the first of which follows the last token that is no draft.
    pub fn masks(&self) -> impl Iterator<Item = &Mask> {
        [&self.mask].into_iter().chain(self.drafts.iter().map(|draft| &draft.mask))
    }
}

impl StepPlan {
    /// Number of rows of all sequences.
    pub fn rows(&self) -> usize {
        self.seqs.iter().map(SeqPlan::rows).sum()
    }

    /// The plan once it is known how many drafts of a slot's step before were right.
    pub fn resolved(&self, accepted: impl Fn(u32) -> u32) -> Cow<'_, StepPlan> {
        let mut plan = Cow::Borrowed(self);
        if self.seqs.iter().any(|seq| seq.unverified > 0) {
            for seq in &mut plan.to_mut().seqs {
                seq.start += accepted(seq.slot).min(seq.unverified);
                seq.unverified = 0;
            }
        }
        plan
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
    /// Subtracted from the logit of each token of the output so far; 0 changes nothing.
    pub presence_penalty: f32,
    /// Subtracted once per occurrence in the output so far; 0 changes nothing.
    pub frequency_penalty: f32,
    /// Divides positive logits, multiplies negative ones, of tokens in prompt or output; 1 changes
    /// nothing.
    pub repetition_penalty: f32,
    /// Whether the slot has a bias, see [`Adjust`].
    pub bias: bool,
    /// Asks for the log-probability of the drawn token, and of this many of the likeliest, at most
    /// [`MAX_LOGPROBS`]: before penalties, bias, mask, temperature and filters.
    pub logprobs: Option<u32>,
}

impl Sampling {
    /// Plain argmax.
    pub const GREEDY: Sampling = Sampling {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        seed: 0,
        presence_penalty: 0.0,
        frequency_penalty: 0.0,
        repetition_penalty: 1.0,
        bias: false,
        logprobs: None,
    };

    /// Whether draws depend on the tokens before them.
    pub fn penalises(&self) -> bool {
        (self.presence_penalty, self.frequency_penalty, self.repetition_penalty) != (0.0, 0.0, 1.0)
    }
}

/// What a step produced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepResult {
    /// The draws that stand, in the plan's order: of each sequence that samples, the first and as many
    /// more as it had drafts that were right.
    pub samples: Vec<Sample>,
    /// One entry per row that is scored, in the plan's order.
    pub scores: Vec<Logprobs>,
    /// One embedding per sequence whose pooling ended, in the plan's order: `[hidden]`, of length 1.
    pub embeddings: Vec<Vec<f32>>,
    /// `[rows][vocab]`, if the plan asked for it.
    pub logits: Vec<f32>,
    /// Time the device spent on the step, where it can tell.
    pub device_nanos: Option<u64>,
}

/// A sampled token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub slot: u32,
    pub token: u32,
    /// How many of the row's logits were NaN or infinite; the token means nothing unless this is 0.
    pub not_finite: u32,
    /// If [`Sampling::logprobs`] asked for them.
    pub logprobs: Option<Logprobs>,
}

/// How likely a token was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logprobs {
    /// Natural logarithm of the token's probability; NaN if a logit of its row is NaN or infinite.
    pub chosen: f32,
    /// The likeliest tokens and their log-probabilities, the likeliest first; then those that were
    /// named.
    pub top: Vec<(u32, f32)>,
}

/// Runs steps. The one seam between the serving core and the hardware.
///
/// Steps run in the order of submission. At most [`Executor::depth`] may be
/// in flight: the caller submits the next step before it has read the last
/// one's samples, which stay on the device and feed [`RowTokens::LastSample`].
#[allow(async_fn_in_trait)] // single-threaded by design: no future crosses threads
pub trait Executor {
    /// What the executor can hold.
    fn capacity(&self) -> Capacity;

    /// Steps that may be in flight: 1 for an executor that computes a step while it is submitted.
    fn depth(&self) -> usize;

    /// Most tokens that a drafter of its own proposes for a sequence in a step; 0: it has none.
    ///
    /// It drafts after the rows that it [follows](SeqPlan::follow): after those of the slot's step
    /// before, and the better the more of the rows before these it has followed.
    fn drafts(&self) -> usize {
        0
    }

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
    /// KV blocks, the null block among them: block 0, which holds no tokens.
    pub blocks: usize,
    /// Most tokens in one sequence.
    pub context: usize,
    pub vocab: usize,
    /// What a row sees of its sequence; everything if none. Blocks out of sight of all rows to come
    /// need not be kept.
    pub window: Option<Window>,
}

impl Capacity {
    /// Most tokens of one sequence that the blocks have room for: with a window, only what rows see
    /// takes any.
    pub fn longest(&self) -> usize {
        let pool = self.blocks.saturating_sub(1) * BLOCK_SIZE;
        match self.window {
            // What a step's rows see, wherever its first and last block begin.
            Some(Window { sinks, tokens })
                if sinks.saturating_add(tokens)
                    <= pool.saturating_sub(self.rows + 2 * BLOCK_SIZE) =>
            {
                self.context
            }
            _ => self.context.min(pool),
        }
    }
}

/// A limited view of the past: the last `tokens` positions, and the first `sinks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Positions at the beginning that stay visible, whole blocks of them (StreamingLLM's attention
    /// sinks); 0 for models trained with a sliding window.
    pub sinks: usize,
    /// The row's own position included.
    pub tokens: usize,
}

impl Window {
    /// The first of the last positions that a row at `position` sees; the sinks may reach beyond it.
    pub fn start(&self, position: usize) -> usize {
        (position + 1).saturating_sub(self.tokens)
    }

    /// How many positions, between the sinks and those, a row at `position` does not see.
    pub fn hidden(&self, position: usize) -> usize {
        self.start(position).saturating_sub(self.sinks)
    }
}
