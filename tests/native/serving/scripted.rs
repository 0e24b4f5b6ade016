//! An executor without a model: the next token is a hash of all tokens before it, read back from where
//! the plans put them. A token in the wrong place changes all tokens after it.

use std::{cell::Cell, collections::VecDeque, rc::Rc};

use futures::{FutureExt, future::ready};
use tabloom::{
    Error, Result,
    step::{
        BLOCK_SIZE, BlockRead, Capacity, Draft, Executor, Follow, HostMemory, KvGroups, Logprobs,
        MAX_DRAFTS, Mask, RowTokens, Sample, SeqPlan, StepPlan, StepResult, Window,
    },
};

pub const VOCAB: u32 = 24;
pub const END: u32 = 0;
/// A prompt with this token gives logits and embeddings that are not finite. It is never sampled.
pub const POISON: u32 = VOCAB - 1;

fn hash(tokens: &[u32], seed: u64) -> u32 {
    let mix = |hash: u64, token: &u32| (hash ^ u64::from(*token)).wrapping_mul(0x100_0000_01b3);
    (tokens.iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, mix) >> 32) as u32
}

/// The contribution of a token to the embedding of its prompt.
pub fn embedded(token: u32) -> f32 {
    if token == POISON { f32::NAN } else { token as f32 }
}

/// The token after `tokens`, of those that the bits of `mask` allow.
pub fn next_token(tokens: &[u32], seed: u64, mask: u32) -> u32 {
    let first = hash(tokens, seed) % POISON;
    let candidates = (0..POISON).map(|i| (first + i) % POISON);
    candidates.into_iter().find(|token| mask >> token & 1 == 1).expect("some token is permitted")
}

/// The score of the last of `tokens` after those before it.
pub fn logprobs(tokens: &[u32], top: u32) -> Logprobs {
    let score = |of: u32| -((of % 1000) as f32);
    Logprobs {
        chosen: score(hash(tokens, 1)),
        top: (0..top).map(|i| (i, score(hash(tokens, 2 + u64::from(i))))).collect(),
    }
}

/// When an executor loses its device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failure {
    Submit(usize),
    Result(usize),
}

/// Checks every plan and computes it.
pub struct Scripted<const DEPTH: usize> {
    pub capacity: Capacity,
    pub failure: Option<Failure>,
    /// Whether there is sometimes no host memory for a block.
    pub lacks_memory: bool,
    /// Most drafts of its own drafter.
    drafts: usize,
    /// Sequences in steps that started behind unverified drafts.
    pub ran_ahead: Rc<Cell<usize>>,
    kv: Vec<u32>,                // [blocks][BLOCK_SIZE] tokens
    host: Vec<Option<Vec<u32>>>, // [host blocks][BLOCK_SIZE] tokens
    slots: Vec<Slot>,
    in_flight: VecDeque<(StepPlan, StepResult)>,
    /// What the steps in flight save, with the host blocks.
    saved: VecDeque<Vec<(u32, Vec<u32>)>>,
    submitted: usize,
    returned: usize,
}

/// State of the current sequence of a slot.
#[derive(Clone, Debug, Default)]
struct Slot {
    table: Vec<u32>,
    /// Position and token of the last sample.
    sample: Option<(u32, u32)>,
    computed: u32,
    /// Drafts of the last step, and how many of them were accepted.
    drafted: (u32, u32),
    /// Whether the drafter read the last step's rows.
    followed: bool,
    /// The last masks, by their place in a step.
    masks: [Option<u32>; 1 + MAX_DRAFTS],
    /// The tokens that penalties count, and how many of them are the prompt.
    history: Option<(Vec<u32>, usize)>,
    pooled: Vec<u32>,
}

/// The position after the rows of a sequence, if all drafts before them are accepted.
fn reach(seq: &SeqPlan) -> usize {
    seq.start as usize + seq.unverified as usize + seq.rows()
}

impl<const DEPTH: usize> Scripted<DEPTH> {
    pub fn new(rows: usize, seqs: usize, blocks: usize, context: usize) -> Self {
        let capacity = Capacity {
            rows,
            seqs,
            logit_rows: seqs + 8, // room for drafts
            blocks: blocks + 1,   // the null block
            context,
            vocab: VOCAB as usize,
            groups: KvGroups::FULL,
            host: HostMemory::NONE,
        };
        Scripted {
            capacity,
            host: Vec::new(),
            saved: VecDeque::new(),
            failure: None,
            lacks_memory: true,
            drafts: 0,
            ran_ahead: Rc::default(),
            kv: vec![END; capacity.blocks * BLOCK_SIZE],
            slots: vec![Slot::default(); seqs],
            in_flight: VecDeque::new(),
            submitted: 0,
            returned: 0,
        }
    }

    /// The same with its own drafter.
    pub fn drafting(self, drafts: usize) -> Self {
        Scripted { drafts, ..self }
    }

    /// The same with host memory for blocks.
    pub fn with_host(self, host: HostMemory) -> Self {
        Scripted {
            capacity: Capacity { host, ..self.capacity },
            host: vec![None; host.blocks],
            ..self
        }
    }

    /// The same with other groups of layers.
    pub fn with_groups(self, groups: KvGroups) -> Self {
        Scripted { capacity: Capacity { groups, ..self.capacity }, ..self }
    }

    fn check(&mut self, plan: &StepPlan) {
        assert!(self.in_flight.len() < DEPTH, "too many steps in flight");
        assert!(!plan.is_empty() && plan.rows() <= self.capacity.rows, "{} rows", plan.rows());
        assert!(!plan.read_logits);
        let logit_rows = plan.seqs.iter().map(|seq| {
            let scored = seq.score.as_ref().map_or(0, |score| score.targets.len());
            scored.max(seq.sampled())
        });
        assert!(logit_rows.sum::<usize>() <= self.capacity.logit_rows, "too many logits");
        for (at, seq) in plan.seqs.iter().enumerate() {
            assert!(plan.seqs[..at].iter().all(|other| other.slot != seq.slot), "slot twice");
            let table = &mut self.slots[seq.slot as usize].table;
            let first = seq.first_entry as usize * self.capacity.groups.count();
            assert!(first <= table.len(), "a hole in the table of {seq:?}");
            if !seq.blocks.is_empty() || seq.start == 0 {
                table.truncate(first);
            }
            table.extend(&seq.blocks);
        }
        for seq in &plan.seqs {
            self.check_sequence(seq, plan);
        }
    }

    fn check_sequence(&self, seq: &SeqPlan, plan: &StepPlan) {
        let slot = &self.slots[seq.slot as usize];
        let on_device = |draft: &Draft| draft.token.is_none();
        assert!(seq.unverified == 0 || seq.unverified == slot.drafted.0, "{seq:?}");
        assert!(seq.unverified == 0 || seq.drafts.iter().all(on_device), "{seq:?}");
        if seq.drafts.iter().any(on_device) {
            assert!(slot.followed && seq.follow == Follow::Sampled, "{seq:?} was not followed");
            assert!(seq.drafts.iter().all(on_device) && seq.drafts.len() <= self.drafts);
        }
        let end = reach(seq);
        assert!(end > seq.start as usize && end <= self.capacity.context, "{seq:?}");
        // Blocks beyond may have been used for drafts of earlier steps.
        let groups = self.capacity.groups.count();
        let needed = end.div_ceil(BLOCK_SIZE) * groups;
        let spare = slot.table.len().checked_sub(needed);
        assert!(spare.is_some_and(|spare| spare <= groups), "{seq:?}");
        assert!(seq.drafts.len() <= MAX_DRAFTS && seq.drafts.iter().all(|d| d.token < Some(VOCAB)));
        assert!(slot.table.iter().all(|block| (*block as usize) < self.capacity.blocks));
        for (group, position) in self.visible(seq.start as usize, end) {
            let block = slot.table[position / BLOCK_SIZE * groups + group];
            assert_ne!(block, 0, "position {position} of group {group} of {seq:?}");
        }
        // No other sequence in this step or one in flight may use a written block. Where its rows begin
        // follows from the drafts accepted before.
        let accepted = |slot: u32| self.slots[slot as usize].drafted.1;
        let resolved = plan.resolved(accepted);
        let written = &slot.table[seq.start as usize / BLOCK_SIZE * groups..needed];
        let plans = self.in_flight.iter().map(|(plan, _)| plan).chain([&*resolved]);
        for other in plans.flat_map(|plan| &plan.seqs).filter(|other| other.slot != seq.slot) {
            let table = &self.slots[other.slot as usize].table;
            let (start, end) = (other.start as usize, reach(other));
            for (group, position) in self.visible(start, end) {
                let block = table[position / BLOCK_SIZE * groups + group];
                assert!(!written.contains(&block), "{seq:?} writes what {other:?} sees");
            }
        }
        match &seq.tokens {
            RowTokens::Known(ids) => assert!(ids.iter().all(|id| *id < VOCAB)),
            RowTokens::LastSample => {
                let position = slot.sample.map(|(position, _)| position);
                let start = seq.start + slot.drafted.1.min(seq.unverified);
                assert_eq!(position, Some(start), "no sample for {seq:?}");
            }
        }
    }

    /// Copies blocks between device and host.
    fn exchange(&mut self, plan: &StepPlan) {
        let Capacity { host, groups, .. } = self.capacity;
        assert!(plan.saves.len() <= host.saves);
        assert!(plan.restores.len() <= (host.saves / 2).max(groups.count()));
        let tokens = |block: u32| self.kv[block as usize * BLOCK_SIZE..][..BLOCK_SIZE].to_vec();
        self.saved.push_back(plan.saves.iter().map(|save| (save.to, tokens(save.from))).collect());
        for restore in &plan.restores {
            let content = self.host[restore.from as usize].as_ref().expect("it was saved");
            self.kv[restore.to as usize * BLOCK_SIZE..][..BLOCK_SIZE].copy_from_slice(content);
        }
    }

    /// Of each group the earlier positions that the row at `position` attends to, and those up to `end`.
    fn visible(
        &self,
        position: usize,
        end: usize,
    ) -> impl Iterator<Item = (usize, usize)> + use<DEPTH> {
        let groups = self.capacity.groups.windows().enumerate();
        groups.flat_map(move |(group, window)| {
            let Window { sinks, tokens } =
                window.unwrap_or(Window { sinks: 0, tokens: usize::MAX });
            let earlier = move |at: &usize| *at < sinks || at.saturating_add(tokens) > position;
            (0..position).filter(earlier).chain(position..end).map(move |at| (group, at))
        })
    }

    /// The tokens before `upto` that the row there attends to, of each group.
    fn read(&self, table: &[u32], upto: usize) -> Vec<u32> {
        let seen = self.visible(upto - 1, upto);
        seen.map(|(group, at)| self.kv[self.place(table, group, at)]).collect()
    }

    /// Where a group has the token at a position.
    fn place(&self, table: &[u32], group: usize, at: usize) -> usize {
        let entry = at / BLOCK_SIZE * self.capacity.groups.count();
        table[entry + group] as usize * BLOCK_SIZE + at % BLOCK_SIZE
    }

    /// The drafter's next token: mostly right.
    fn draft(&self, tokens: &[u32], seed: u64) -> u32 {
        let errs = hash(tokens, !seed).is_multiple_of(4);
        (next_token(tokens, seed, u32::MAX) + u32::from(errs)) % VOCAB
    }

    fn compute(&mut self, seq: &SeqPlan, result: &mut StepResult) {
        let index = seq.slot as usize;
        let mut slot = std::mem::take(&mut self.slots[index]);
        let mut ids = match &seq.tokens {
            RowTokens::Known(ids) => ids.clone(),
            RowTokens::LastSample => slot.sample.map(|(_, token)| token).into_iter().collect(),
        };
        let (start, known) = (seq.start as usize, ids.len());
        let end = start + seq.rows();
        for at in start..end {
            if at >= start + known {
                let seed = seq.sample.map_or(0, |sampling| sampling.seed);
                let draft = || self.draft(&self.read(&slot.table, at), seed);
                ids.push(seq.drafts[at - start - known].token.unwrap_or_else(draft));
            }
            for group in 0..self.capacity.groups.count() {
                let place = self.place(&slot.table, group, at);
                self.kv[place] = ids[at - start];
            }
        }
        slot.computed = end as u32;
        slot.followed = seq.follow != Follow::No;
        let read = |upto: usize| self.read(&slot.table, upto);
        if let Some(score) = &seq.score {
            assert_eq!(score.targets.len(), ids.len());
            for (row, target) in (start..end).zip(&score.targets) {
                let tokens = [read(row + 1), vec![*target]].concat();
                result.scores.push(logprobs(&tokens, score.top));
            }
        }
        if let Some(pool) = seq.pool {
            if start == 0 {
                slot.pooled.clear();
            }
            slot.pooled.extend(&ids);
            assert_eq!(slot.pooled.len(), end, "rows are missing from {seq:?}");
            if pool.last {
                result.embeddings.push(slot.pooled.iter().map(|token| embedded(*token)).collect());
            }
        }
        if let Some(adjust) = &seq.adjust {
            slot.history = Some((adjust.tokens.clone(), adjust.prompt));
        }
        let first = start + known;
        // A token after a draft is accepted if the draft equals the token sampled in its place.
        let mut accepted = true;
        let next = ids[known..].iter().copied().map(Some).chain([None]);
        for ((place, mask), draft) in seq.masks().enumerate().zip(next) {
            let Some(sampling) = seq.sample else { break };
            let tokens = read(first + place);
            if sampling.penalises() && accepted {
                let (history, prompt) = slot.history.as_mut().expect("penalties know the tokens");
                assert!(*prompt > 0 && history.len() >= *prompt);
                // Without a window, the history can be compared.
                if self.capacity.groups == KvGroups::FULL {
                    assert_eq!(*history, tokens);
                }
            }
            let mask = match mask {
                Mask::None => u32::MAX,
                Mask::Same => slot.masks[place].expect("a mask was given before"),
                Mask::New(words) => *slot.masks[place].insert(words[0]),
            };
            let token = next_token(&tokens, sampling.seed, mask);
            if accepted {
                slot.sample = Some(((first + place) as u32, token));
                slot.computed = (first + place) as u32;
                slot.drafted = (seq.drafts.len() as u32, place as u32);
                if let Some((history, _)) = &mut slot.history {
                    history.push(token);
                }
                let poison = tokens.iter().filter(|token| **token == POISON);
                let not_finite = poison.count() as u32;
                let scored = [tokens, vec![token]].concat();
                let logprobs = sampling.logprobs.map(|top| logprobs(&scored, top));
                result.samples.push(Sample { slot: seq.slot, token, not_finite, logprobs });
            }
            accepted &= draft == Some(token);
        }
        self.slots[index] = slot;
    }

    fn lost(&self, now: Failure) -> Result<()> {
        match self.failure == Some(now) {
            true => Err(Error::DeviceLost { reason: "unplugged".into() }),
            false => Ok(()),
        }
    }
}

impl<const DEPTH: usize> Executor for Scripted<DEPTH> {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn depth(&self) -> usize {
        DEPTH
    }

    fn drafts(&self) -> usize {
        self.drafts
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        self.lost(Failure::Submit(self.submitted))?;
        self.submitted += 1;
        self.check(plan);
        self.exchange(plan);
        for copy in &plan.copies {
            let [from, to] = [copy.from, copy.to].map(|block| block as usize * BLOCK_SIZE);
            self.kv.copy_within(from..from + BLOCK_SIZE, to);
        }
        let mut result = StepResult::default();
        let ahead = plan.seqs.iter().filter(|seq| seq.unverified > 0).count();
        self.ran_ahead.update(|count| count + ahead);
        let resolved = plan.resolved(|slot| self.slots[slot as usize].drafted.1).into_owned();
        for seq in &resolved.seqs {
            self.compute(seq, &mut result);
        }
        self.in_flight.push_back((resolved, result));
        Ok(())
    }

    async fn result(&mut self, _turn: impl AsyncFn()) -> Result<StepResult> {
        self.lost(Failure::Result(self.returned))?;
        self.returned += 1;
        let (_, mut result) = self.in_flight.pop_front().expect("a step is in flight");
        for (block, tokens) in self.saved.pop_front().into_iter().flatten() {
            if self.lacks_memory && hash(&tokens, 7).is_multiple_of(5) {
                self.host[block as usize] = None;
                result.lost.push(block);
            } else {
                self.host[block as usize] = Some(tokens);
            }
        }
        Ok(result)
    }

    fn read_blocks(&mut self, blocks: &[u32]) -> Option<BlockRead> {
        assert!(blocks.iter().all(|block| (1..self.capacity.blocks).contains(&(*block as usize))));
        let tokens = |block: &u32| self.kv[*block as usize * BLOCK_SIZE..][..BLOCK_SIZE].to_vec();
        let words = blocks.iter().flat_map(tokens).collect();
        (blocks.len() <= self.capacity.host.reads).then_some(ready(Ok(words)).boxed_local())
    }

    fn set_host_block(&mut self, block: u32, words: &[u32]) -> bool {
        let arrives = self.saved.iter().flatten().any(|(to, _)| *to == block);
        assert!(!arrives, "a save to host block {block} is in flight");
        let has_room = !self.lacks_memory || !hash(words, 9).is_multiple_of(5);
        self.host[block as usize] = has_room.then(|| words.to_vec());
        has_room
    }
}
