//! The executor's own drafter: its kinds, and the batches of its forward passes.

use crate::{
    Result,
    kernels::{
        Batch, BlockTables,
        batch::{DRAFTS, DRAFTS_AT, LAST_SAMPLE, ROW_WORDS, SAMPLED, SLOT_TOKENS},
    },
    model::{DraftProgram, Features, ModelConfig},
    step::{Capacity, Follow, RowTokens, Sampling, SeqPlan, StepPlan},
    weights::Draft,
};

/// A drafter beside a model. `W`: its weights, in the form that the executor uses.
#[derive(Clone)]
pub enum Drafter<W> {
    /// A draft head, which reads hidden states of the model (EAGLE, Medusa, MTP).
    Head(Box<Draft>, W),
    /// A smaller model with the same vocabulary.
    Model(Box<ModelConfig>, W),
    /// This many first layers of the model itself.
    EarlyExit(usize),
}

impl<W> Drafter<W> {
    /// The drafter's program beside `target`.
    pub fn program(&self, target: &ModelConfig) -> Result<DraftProgram> {
        match self {
            Drafter::Head(draft, _) => DraftProgram::head(&draft.config, target),
            Drafter::Model(config, _) => DraftProgram::model(config, target),
            Drafter::EarlyExit(layers) => DraftProgram::early_exit(target, *layers),
        }
    }

    /// Which hidden states of the target it reads.
    pub fn features(&self) -> Option<&Features> {
        match self {
            Drafter::Head(draft, _) => Some(&draft.config.features),
            _ => None,
        }
    }

    /// Its own weights, if it has any.
    pub fn weights(&self) -> Option<&W> {
        match self {
            Drafter::Head(_, weights) | Drafter::Model(_, weights) => Some(weights),
            Drafter::EarlyExit(_) => None,
        }
    }

    /// The same drafter with other weights.
    pub fn with<V>(self, weights: V) -> Drafter<V> {
        match self {
            Drafter::Head(draft, _) => Drafter::Head(draft, weights),
            Drafter::Model(config, _) => Drafter::Model(config, weights),
            Drafter::EarlyExit(layers) => Drafter::EarlyExit(layers),
        }
    }

    /// Its weights, and the target's ids of its tokens if its own ids differ.
    pub fn into_parts(self) -> (Option<W>, Option<Vec<u32>>) {
        match self {
            Drafter::Head(draft, weights) => (Some(weights), draft.vocabulary),
            Drafter::Model(_, weights) => (Some(weights), None),
            Drafter::EarlyExit(_) => (None, None),
        }
    }
}

/// One batch per draft token, the first drafts of all sequences first: one row and one sample for each
/// sequence that has so many drafts.
///
/// The row of the first draft is `behind` positions before the last known token; the further rows
/// follow. Its token is the last sample, and then the draft before it. Unverified drafts of the step
/// before shift the rows as they shift those of the plan.
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

/// The batch in which a drafter reads a step's rows. With `reads_next`, each row has the token after it
/// in place of its own. None if the drafter follows no sequence.
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
                Follow::Sampled | Follow::No => {
                    LAST_SAMPLE | (seq.slot * SLOT_TOKENS + SAMPLED + (i - known) as u32)
                }
            };
            batch.row_mut(row + i)[0] = next;
        }
        row += seq.rows();
    }
    debug_assert_eq!(batch.words[6] as usize + ROW_WORDS * row, batch.words[7] as usize);
    Ok(Some(batch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kernels::{Shift, batch::ACCEPTED},
        step::{Draft, HostMemory, KvGroups, MAX_DRAFTS},
    };

    const CAPACITY: Capacity = Capacity {
        rows: 64,
        seqs: 3,
        logit_rows: 64,
        blocks: 30,
        context: 160,
        vocab: 100,
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };

    /// A step whose sequences, except the last, start behind unverified drafts.
    fn random_plan(rng: &mut fastrand::Rng) -> StepPlan {
        let seqs = [2, 0, 1].map(|slot| SeqPlan {
            slot,
            tokens: RowTokens::LastSample,
            start: rng.u32(10..130),
            unverified: if slot == 1 { 0 } else { rng.u32(1..=MAX_DRAFTS as u32) },
            blocks: (0..10).map(|_| rng.u32(..30)).collect(),
            sample: Some(Sampling { temperature: 1.0, seed: rng.u64(..), ..Sampling::GREEDY }),
            drafts: vec![Draft::default(); rng.usize(..=MAX_DRAFTS)],
            follow: Follow::Sampled,
            ..Default::default()
        });
        StepPlan { seqs: seqs.to_vec(), ..Default::default() }
    }

    #[test]
    fn batches_of_a_drafter_shift_with_the_rows_of_the_step() {
        let mut rng = fastrand::Rng::new();
        println!("seed {}", rng.get_seed());
        for behind in [0, 1].repeat(20) {
            let plan = random_plan(&mut rng);
            let tables = BlockTables::of(&plan, &CAPACITY).unwrap();
            let mut last_samples = vec![u32::MAX; CAPACITY.seqs * SLOT_TOKENS as usize];
            for slot in last_samples.chunks_mut(SLOT_TOKENS as usize) {
                slot[ACCEPTED as usize] = rng.u32(..=MAX_DRAFTS as u32);
            }
            let accepted = |slot| last_samples[(slot * SLOT_TOKENS + ACCEPTED) as usize];
            let batches = |plan: &StepPlan| {
                let mut batches = passes(plan, &CAPACITY, &tables, 4, behind).unwrap();
                for reads_next in [false, true] {
                    batches.extend(follow(plan, &CAPACITY, &tables, 4, reads_next).unwrap());
                }
                batches
            };
            let (mut found, expected) = (batches(&plan), batches(&plan.resolved(accepted)));
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter_mut().zip(expected) {
                Shift::reference(found, &last_samples);
                // All words but the number of shifts, and the shifts.
                found.words[5] = 0;
                assert_eq!(found.words[..expected.words.len()], expected.words);
            }
        }
    }
}
