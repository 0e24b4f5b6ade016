//! The interface between scheduler and executor: a step's plan and its result.
//!
//! There is no prefill mode and no decode mode: a step is a ragged batch of sequences, each with one
//! row (decode) or several (a chunk of a prompt, or draft tokens).

use std::{borrow::Cow, sync::Arc};

use futures::future::LocalBoxFuture;

use crate::error::Result;

/// Tokens per KV block.
pub const BLOCK_SIZE: usize = 16;

/// One step over a ragged batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepPlan {
    /// KV blocks whose contents are kept in host blocks, as they are before this step; at most
    /// [`HostMemory::saves`]. They are there once the step's result is.
    pub saves: Vec<BlockCopy>,
    /// Host blocks whose contents are written to KV blocks, before these are copied or read by a row. What the
    /// step saves to a host block comes later.
    pub restores: Vec<BlockCopy>,
    /// KV blocks to copy, in all layers and in this order, before any row is computed.
    pub copies: Vec<BlockCopy>,
    pub seqs: Vec<SeqPlan>,
    /// Whether the result has the logits of every row; then at most `Capacity::logit_rows` rows.
    pub read_logits: bool,
}

/// A copy of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCopy {
    pub from: u32,
    pub to: u32,
}

/// The rows of one sequence in a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeqPlan {
    /// The sequence's index into the executor's block tables, last samples and sampling state; unique
    /// among running sequences.
    pub slot: u32,
    pub tokens: RowTokens,
    /// Position of the first row = number of the sequence's tokens in the KV cache.
    pub start: u32,
    /// Number of draft tokens in the slot's previous step, if the host does not know yet how many were
    /// accepted, else 0. The executor adds the accepted count to `start`; the blocks suffice for all. The
    /// rows' tokens are then [`RowTokens::LastSample`] and proposals of the executor's own drafter.
    pub unverified: u32,
    /// Index of the first of these entries in the slot's block table.
    pub first_entry: u32,
    /// Entries of the slot's block table from `first_entry` on, `[entries][groups]`; the table's entry i has
    /// the KV blocks of positions 16·i .. 16·i + 15, one for each group. The executor keeps the earlier
    /// entries, set by previous steps. Together they cover the last row's position. Blocks that no current or
    /// later row attends to may be anything.
    pub blocks: Vec<u32>,
    /// Samples a token from the logits of the last of these rows into `slot`.
    pub sample: Option<Sampling>,
    /// Draft tokens, at most [`MAX_DRAFTS`], one row each. A token is sampled after each of them, too. A
    /// draft is accepted if it equals the token sampled at its position and all drafts before it are
    /// accepted; the result has the first sample and one more per accepted draft. Needs `sample`; excludes
    /// `score`.
    pub drafts: Vec<Draft>,
    /// Whether the executor's own drafter processes these rows, so that it can draft after them, and the
    /// token after the rows.
    pub follow: Follow,
    /// Tokens whose log-probabilities are returned with that of the sampled token, at most
    /// [`MAX_LOGPROB_TOKENS`].
    pub logprob_tokens: Arc<[u32]>,
    /// Replaces the slot's penalty and bias state. A sequence with penalties or a bias sets it with its
    /// first rows.
    pub adjust: Option<Box<Adjust>>,
    /// Mask of the first sample.
    pub mask: Mask,
    /// Log-probabilities of given tokens under each row's logits.
    pub score: Option<Score>,
    /// Adds the rows' final hidden states to an embedding.
    pub pool: Option<Pool>,
}

/// A draft token, and the mask of the sample after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// If `None`, the executor's own drafter proposes it, see [`Executor::drafts`]; then it proposes all
    /// drafts of the sequence.
    pub token: Option<u32>,
    /// Mask of the sample after it.
    pub mask: Mask,
}

/// The token after the rows of a sequence in a step, for the executor's own drafter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// The drafter does not process these rows.
    #[default]
    No,
    /// The token that is sampled after the rows.
    Sampled,
    Known(u32),
}

/// A slot's state for adjusting logits: the tokens that penalties apply to, and the bias.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adjust {
    /// All tokens of the sequence that the host knows. The executor adds later samples itself.
    pub tokens: Vec<u32>,
    /// Number of prompt tokens among them.
    pub prompt: usize,
    /// (token, value added to its logit), at most [`MAX_BIAS`].
    pub bias: Vec<(u32, f32)>,
}

/// The tokens that may be sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Mask {
    /// All tokens.
    #[default]
    None,
    /// The slot's last [`Mask::New`] at the same index in a step: of the first sample, of the sample after
    /// the first draft, and so on.
    Same,
    /// One bit per token, `[ceil(vocab / 32)]`; token t is bit t mod 32 of word t / 32.
    New(Vec<u32>),
}

/// Tokens whose log-probabilities to compute.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// One per row: the token that follows it.
    pub targets: Vec<u32>,
    /// Number of top tokens to return per row, at most [`MAX_LOGPROBS`].
    pub top: u32,
}

/// How to add the rows of a step to an embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    pub pooling: Pooling,
    /// Whether the sequence ends with these rows; the result then has the embedding.
    pub last: bool,
}

/// How to pool final hidden states into one embedding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all positions.
    Mean,
    /// The last position.
    #[default]
    Last,
}

/// Most draft tokens per sequence and step.
pub const MAX_DRAFTS: usize = 7;

/// Most entries of a logit bias.
pub const MAX_BIAS: usize = 1024;

/// Most top tokens per log-probability.
pub const MAX_LOGPROBS: u32 = 20;

/// Most tokens whose log-probabilities a request may name.
pub const MAX_LOGPROB_TOKENS: usize = 128;

/// Token ids of a sequence's rows.
#[derive(Clone, Debug, PartialEq)]
pub enum RowTokens {
    /// One id per row, known on the CPU side.
    Known(Vec<u32>),
    /// One row, whose id is the slot's last sample after verification; the host may not know it yet.
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
    /// Number of rows, drafts included.
    pub fn rows(&self) -> usize {
        self.tokens.count() + self.drafts.len()
    }

    /// Number of tokens sampled, accepted or not.
    pub fn sampled(&self) -> usize {
        self.sample.map_or(0, |_| 1 + self.drafts.len())
    }

    /// The masks of its samples, in order.
    pub fn masks(&self) -> impl Iterator<Item = &Mask> {
        [&self.mask].into_iter().chain(self.drafts.iter().map(|draft| &draft.mask))
    }
}

impl StepPlan {
    /// Number of rows of all sequences.
    pub fn rows(&self) -> usize {
        self.seqs.iter().map(SeqPlan::rows).sum()
    }

    /// Whether there is nothing to do: no row to compute and no block to restore.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0 && self.restores.is_empty()
    }

    /// The plan with `unverified` resolved: `accepted` gives the number of accepted drafts in a slot's
    /// previous step.
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

/// Sampling parameters, already validated.
///
/// The token at position p is argmax over v of (log p(v) + Gumbel noise keyed (seed, p, v)), so it
/// depends on neither batch nor schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// 0 means greedy.
    pub temperature: f32,
    /// Keep the k most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep the smallest set of most likely tokens whose mass reaches this; 1 keeps all.
    pub top_p: f32,
    /// Drop tokens with a probability below this fraction of the highest; 0 keeps all.
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
    /// Returns the log-probability of the sampled token, and of this many top tokens, at most
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

    /// Whether sampling depends on the previous tokens.
    pub fn penalises(&self) -> bool {
        (self.presence_penalty, self.frequency_penalty, self.repetition_penalty) != (0.0, 0.0, 1.0)
    }
}

/// The result of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepResult {
    /// In the plan's order: for each sequence that samples, the first sample and one more per accepted
    /// draft.
    pub samples: Vec<Sample>,
    /// One entry per scored row, in the plan's order.
    pub scores: Vec<Logprobs>,
    /// One embedding per sequence whose pooling ended, in the plan's order: `[hidden]`, Euclidean length 1.
    pub embeddings: Vec<Vec<f32>>,
    /// `[rows][vocab]`, if the plan has `read_logits`.
    pub logits: Vec<f32>,
    /// Host blocks of the step's saves for which there was no memory.
    pub lost: Vec<u32>,
    /// Time that the device spent on the step, if it can measure that.
    pub device_nanos: Option<u64>,
}

/// A sampled token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub slot: u32,
    pub token: u32,
    /// Number of NaN or infinite logits in the row; the token is valid only if this is 0.
    pub not_finite: u32,
    /// If [`Sampling::logprobs`] requested them.
    pub logprobs: Option<Logprobs>,
}

/// Log-probabilities at one position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logprobs {
    /// Natural logarithm of the token's probability; NaN if a logit of its row is NaN or infinite.
    pub chosen: f32,
    /// The top tokens and their log-probabilities, most likely first; then those of
    /// [`SeqPlan::logprob_tokens`].
    pub top: Vec<(u32, f32)>,
}

/// Runs steps. The only interface between the serving core and the hardware.
///
/// Steps run in the order of submission. At most [`Executor::depth`] may be in flight: the caller can
/// submit the next step before it has read the previous one's samples, which stay on the device as
/// [`RowTokens::LastSample`].
#[allow(async_fn_in_trait)] // single-threaded by design: no future crosses threads
pub trait Executor {
    /// What the executor can hold.
    fn capacity(&self) -> Capacity;

    /// Most steps in flight; 1 for an executor that computes on the caller's thread.
    fn depth(&self) -> usize;

    /// Most draft tokens per sequence and step of the executor's own drafter; 0 if it has none.
    ///
    /// It can draft for a slot if it [processed](SeqPlan::follow) the rows of the slot's previous step.
    /// The more of the earlier rows it processed, the better the drafts.
    fn drafts(&self) -> usize {
        0
    }

    /// Tokens after a row that its keys and values depend on: one with a draft head that reads them.
    fn lookahead(&self) -> usize {
        0
    }

    /// Starts a step. The plan must respect [`Executor::capacity`]; it is checked.
    fn submit(&mut self, plan: &StepPlan) -> Result<()>;

    /// Waits for the oldest step in flight and returns its result. An executor that computes on the caller's
    /// thread leaves it to others now and then, by awaiting `turn`.
    async fn result(&mut self, turn: impl AsyncFn()) -> Result<StepResult>;

    /// Reads the contents of KV blocks, at most [`HostMemory::reads`], as the submitted steps leave them. The
    /// future does not borrow the executor: steps go on. `None` while another read is not over, or a step on the
    /// caller's thread.
    fn read_blocks(&mut self, blocks: &[u32]) -> Option<BlockRead> {
        let _ = blocks;
        None
    }

    /// Sets the content of a host block that no step in flight saves to. Returns false if it is not as long as
    /// that of a KV block, or there is no memory for it.
    #[must_use]
    fn set_host_block(&mut self, block: u32, words: &[u32]) -> bool {
        let _ = (block, words);
        false
    }
}

/// The blocks of some entries of a sequence, with their contents.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryBlocks {
    pub first_entry: usize,
    /// Whether a block is among them: those that a window hides need not be. `[entries][groups]`
    pub present: Vec<bool>,
    /// `[present blocks][words of a block]`
    pub words: Vec<u32>,
}

impl EntryBlocks {
    /// Entry and group of each block that is present, with its content.
    pub fn blocks(&self, groups: usize) -> impl Iterator<Item = ((usize, usize), &[u32])> {
        let present = self.present.iter().enumerate().filter(|(_, present)| **present);
        let count = present.clone().count();
        let words = self.words.chunks_exact((self.words.len() / count.max(1)).max(1));
        let place = move |at: usize| (self.first_entry + at / groups, at % groups);
        present.map(move |(at, _)| place(at)).zip(words)
    }
}

/// The contents of KV blocks, one after the other.
pub type BlockRead = LocalBoxFuture<'static, Result<Vec<u32>>>;

/// Sizes that are fixed when an executor is created.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Rows per step.
    pub rows: usize,
    /// Sequences per step, and size of the table of last samples.
    pub seqs: usize,
    /// Rows per step whose logits are computed; at least `seqs`.
    pub logit_rows: usize,
    /// KV blocks, including block 0, the null block, which holds no tokens.
    pub blocks: usize,
    /// Most tokens per sequence.
    pub context: usize,
    pub vocab: usize,
    /// What the groups of layers attend to. Blocks outside a group's window of all later rows can be freed.
    pub groups: KvGroups,
    /// Where the contents of KV blocks can be kept beside the device.
    pub host: HostMemory,
}

/// Room for the contents of KV blocks in host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// Host blocks, each for one KV block.
    pub blocks: usize,
    /// KV blocks that a step can save.
    pub saves: usize,
    /// KV blocks that [`Executor::read_blocks`] can read at once; 0 if it need not.
    pub reads: usize,
}

impl HostMemory {
    /// No room.
    pub const NONE: HostMemory = HostMemory { blocks: 0, saves: 0, reads: 0 };
}

impl Capacity {
    /// Longest sequence that fits into the KV blocks; with a window, only positions in it need blocks.
    pub fn longest(&self) -> usize {
        let fits = |entries: &usize| self.blocks_of(entries * BLOCK_SIZE) < self.blocks.max(1);
        let (mut fit, mut too_long) = (0, self.context.div_ceil(BLOCK_SIZE) + 1);
        while fit + 1 < too_long {
            let middle = (fit + too_long) / 2;
            *(if fits(&middle) { &mut fit } else { &mut too_long }) = middle;
        }
        self.context.min(fit * BLOCK_SIZE)
    }

    /// Most blocks that a sequence of this many tokens holds while its rows are computed.
    pub fn blocks_of(&self, tokens: usize) -> usize {
        let entries = tokens.div_ceil(BLOCK_SIZE);
        // What a step's rows attend to, for any alignment of the first and last block.
        let visible = |Window { sinks, tokens }: Window| {
            sinks.saturating_add(tokens).saturating_add(self.rows).div_ceil(BLOCK_SIZE) + 2
        };
        self.groups
            .windows()
            .map(|window| window.map_or(entries, |w| visible(w).min(entries)))
            .sum()
    }
}

/// Most [`KvGroups`] of layers.
pub const MAX_GROUPS: usize = 8;

/// What each group of layers attends to, the widest window first.
///
/// The layers of a group share KV blocks: a block has the keys and values of 16 tokens in all of them. So
/// a group whose layers see a window keeps a window's blocks, whatever the others keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvGroups {
    windows: [Option<Window>; MAX_GROUPS],
    count: usize,
}

impl KvGroups {
    /// All layers in one group, which attends to all positions.
    pub const FULL: KvGroups = KvGroups::one(None);

    /// All layers in one group.
    pub const fn one(window: Option<Window>) -> KvGroups {
        KvGroups { windows: [window; MAX_GROUPS], count: 1 }
    }

    /// KvGroups with these windows, the widest first; those beyond [`MAX_GROUPS`] are left out.
    pub fn new(windows: impl IntoIterator<Item = Option<Window>>) -> KvGroups {
        let mut groups = KvGroups { windows: [None; MAX_GROUPS], count: 0 };
        for (place, window) in groups.windows.iter_mut().zip(windows) {
            *place = window;
            groups.count += 1;
        }
        groups
    }

    /// Number of groups.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Blocks in the entries of this many tokens.
    pub fn blocks(&self, tokens: usize) -> usize {
        tokens.div_ceil(BLOCK_SIZE) * self.count
    }

    /// The window of each group; `None` is full attention.
    pub fn windows(&self) -> impl DoubleEndedIterator<Item = Option<Window>> + use<> {
        self.windows.into_iter().take(self.count)
    }

    /// The window that no layer attends beyond.
    pub fn widest(&self) -> Option<Window> {
        self.windows[0]
    }
}

/// An attention window: the last `tokens` positions and the first `sinks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Positions at the start that stay visible, in whole blocks (StreamingLLM's attention sinks); 0 for
    /// models trained with a sliding window.
    pub sinks: usize,
    /// Including the row's own position.
    pub tokens: usize,
}

impl Window {
    /// First position of the window of a row at `position`; the sinks may overlap it.
    pub fn start(&self, position: usize) -> usize {
        (position + 1).saturating_sub(self.tokens)
    }

    /// Number of positions between the sinks and the window of a row at `position`.
    pub fn hidden(&self, position: usize) -> usize {
        self.start(position).saturating_sub(self.sinks)
    }
}
