//! An executor's own drafter: what it is, and the steps in which it runs, in words.

use crate::{
    Result,
    kernels::{
        Batch, BlockTables,
        batch::{DRAFTS, DRAFTS_AT, DRAWN, LAST_SAMPLE, ROW_WORDS, SLOT_TOKENS},
    },
    model::{DraftProgram, Features, ModelConfig},
    step::{Capacity, Follow, RowTokens, Sampling, SeqPlan, StepPlan},
    weights::Draft,
};

/// What drafts beside a model, with its weights as an executor holds them.
pub enum Drafter<W> {
    /// A head that reads what the model computes.
    Head(Box<Draft>, W),
    /// A smaller model with the same tokens.
    Model(Box<ModelConfig>, W),
    /// The model's own first layers, so many of them.
    EarlyExit(usize),
}

impl<W> Drafter<W> {
    /// What it computes beside `target`.
    pub fn program(&self, target: &ModelConfig) -> Result<DraftProgram> {
        match self {
            Drafter::Head(draft, _) => DraftProgram::head(&draft.config, target),
            Drafter::Model(config, _) => DraftProgram::model(config, target),
            Drafter::EarlyExit(layers) => DraftProgram::early_exit(target, *layers),
        }
    }

    /// What it reads of its target.
    pub fn features(&self) -> Option<&Features> {
        match self {
            Drafter::Head(draft, _) => Some(&draft.config.features),
            _ => None,
        }
    }

    /// Its weights, where it has any of its own.
    pub fn weights(&self) -> Option<&W> {
        match self {
            Drafter::Head(_, weights) | Drafter::Model(_, weights) => Some(weights),
            Drafter::EarlyExit(_) => None,
        }
    }

    /// The same with its weights.
    pub fn with<V>(self, weights: V) -> Drafter<V> {
        match self {
            Drafter::Head(draft, _) => Drafter::Head(draft, weights),
            Drafter::Model(config, _) => Drafter::Model(config, weights),
            Drafter::EarlyExit(layers) => Drafter::EarlyExit(layers),
        }
    }

    /// Its weights, and the target's ids of its tokens where they are others.
    pub fn into_parts(self) -> (Option<W>, Option<Vec<u32>>) {
        match self {
            Drafter::Head(draft, weights) => (Some(weights), draft.vocabulary),
            Drafter::Model(_, weights) => (Some(weights), None),
            Drafter::EarlyExit(_) => (None, None),
        }
    }
}

/// One batch for each draft that the drafter is to propose, the sequences' first drafts first: one row
/// and one sample per sequence that has so many.
///
/// The row of the first draft is `behind` positions before that of the last token which is known, and
/// the further ones follow. Its token is the last sample, and then the draft before. Drafts that are not
/// verified move the rows on as they do those of the plan.
pub fn passes(
    plan: &StepPlan,
    capacity: &Capacity,
    tables: &BlockTables,
    tile_rows: usize,
    behind: u32,
) -> Result<Vec<Batch>> {
    let drafts = |seq: &SeqPlan| seq.drafts.iter().filter(|draft| draft.token.is_none()).count();
    let most = plan.seqs.iter().map(drafts).max().unwrap_or(0) as u32;
    let pass = |before: u32| {
        let row = |seq: &SeqPlan| {
            let asked = seq.sample.unwrap_or(Sampling::GREEDY);
            let Sampling { temperature, seed, .. } = asked;
            SeqPlan {
                slot: seq.slot,
                tokens: RowTokens::LastSample,
                start: seq.start + seq.tokens.count() as u32 - 1 - behind + before,
                unverified: seq.unverified,
                sample: Some(Sampling { temperature, seed, ..Sampling::GREEDY }),
                ..Default::default()
            }
        };
        let seqs = plan.seqs.iter().filter(|seq| drafts(seq) > before as usize).map(row);
        let step = StepPlan { seqs: seqs.collect(), ..Default::default() };
        let mut batch = Batch::encode(&step, capacity, tables, tile_rows)?;
        for i in 0..batch.rows as usize {
            batch.row_mut(i)[0] += before;
            let sample = batch.sample_mut(i);
            sample[2] += behind;
            sample[9] |= (DRAFTS + before) << DRAFTS_AT;
        }
        Ok(batch)
    };
    (0..most).map(pass).collect()
}

/// The batch of a step's rows for a drafter that follows them: if it `reads_next`, each has the token
/// after it in place of its own. None if it follows no sequence.
pub fn follow(
    plan: &StepPlan,
    capacity: &Capacity,
    tables: &BlockTables,
    tile_rows: usize,
    reads_next: bool,
) -> Result<Option<Batch>> {
    if plan.seqs.iter().all(|seq| seq.follow == Follow::No) {
        return Ok(None);
    }
    let mut batch = Batch::encode(plan, capacity, tables, tile_rows)?;
    if !reads_next {
        return Ok(Some(batch));
    }
    let mut row = 0;
    for seq in &plan.seqs {
        let known = seq.tokens.count() - 1;
        for i in 0..seq.rows() {
            let next = match seq.follow {
                _ if i < known => batch.row(row + i + 1).token,
                Follow::Known(token) => token,
                Follow::Drawn | Follow::No => {
                    LAST_SAMPLE | (seq.slot * SLOT_TOKENS + DRAWN + (i - known) as u32)
                }
            };
            batch.row_mut(row + i)[0] = next;
        }
        row += seq.rows();
    }
    debug_assert_eq!(batch.words[6] as usize + ROW_WORDS * row, batch.words[7] as usize);
    Ok(Some(batch))
}
