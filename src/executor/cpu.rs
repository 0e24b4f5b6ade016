//! The executor in plain Rust: the oracle of whole-model tests, and the fallback without a GPU.

mod draft;
mod model;
mod pace;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use futures::{FutureExt, future::ready};

use self::{
    draft::HostDraft,
    model::{HostModel, Slots},
    pace::Pace,
};
use super::{drafting::Drafter, host_blocks::HostBlocks, outcome::Outcome, shapes::Widths};
use crate::{
    Error, Result,
    kernels::{
        Batch, BlockTables, HostTables, KvKind, Upload,
        batch::{ACCEPTED, SLOT_TOKENS},
        pool,
    },
    layout::row_stride,
    model::{Act, ModelConfig, program_with},
    step::{BlockRead, Capacity, Executor, MAX_DRAFTS, StepPlan, StepResult},
    weights::HostWeights,
};

/// Runs a model's steps with the CPU reference of every kernel.
pub struct CpuExecutor {
    capacity: Capacity,
    target: HostModel,
    draft: Option<HostDraft>,
    slots: Slots,
    host: HostBlocks,
    submitted: Option<Submitted>,
    /// Results of steps that were computed because a later one was submitted.
    done: VecDeque<StepResult>,
}

/// A step that is to be computed.
struct Submitted {
    plan: StepPlan,
    /// The host blocks that found no memory.
    lost: Vec<u32>,
}

impl CpuExecutor {
    /// Allocates the buffers of steps of this capacity. `kinds`: KV cache per layer, see
    /// [`super::host_kv_kinds`].
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the KV cache does not fit into main memory.
    pub fn new(
        config: ModelConfig,
        weights: HostWeights,
        capacity: Capacity,
        kinds: Vec<KvKind>,
    ) -> Result<CpuExecutor> {
        let (executor, _) = CpuExecutor::with_draft(config, weights, None, capacity, kinds)?;
        Ok(executor)
    }

    /// The same with a drafter. A drafter that cannot run is left out, and the reason returned.
    ///
    /// # Errors
    /// As for [`CpuExecutor::new`].
    pub fn with_draft(
        config: ModelConfig,
        weights: HostWeights,
        draft: Option<Drafter<HostWeights>>,
        capacity: Capacity,
        kinds: Vec<KvKind>,
    ) -> Result<(CpuExecutor, Option<Error>)> {
        let read = draft.as_ref().and_then(Drafter::features).cloned();
        let draft = draft.map(|draft| HostDraft::new(draft, &config, &weights, &capacity));
        let (draft, refused) = match draft.transpose() {
            Ok(draft) => (draft, None),
            Err(error) => (None, Some(error)),
        };
        let features = draft.as_ref().map_or(0, |draft| draft.program.features);
        let slots = Slots {
            tables: BlockTables::new(&capacity),
            pooled: vec![0.0; capacity.seqs * row_stride(config.hidden)],
            last_samples: vec![0; capacity.seqs * SLOT_TOKENS as usize],
            adjustments: HostTables::new(config.vocab, capacity.seqs),
            results: Vec::new(),
        };
        let program = program_with(&config, read.as_ref().filter(|_| draft.is_some()));
        let widths = Widths { features, ..Default::default() };
        let target = HostModel::new(config, widths, program, weights, &capacity, kinds)?;
        let host = HostBlocks::new(capacity.host);
        let (submitted, done) = Default::default();
        Ok((CpuExecutor { capacity, target, draft, slots, host, submitted, done }, refused))
    }

    /// Runs the layers on a step's rows and calls `observer` before each matrix product with the
    /// product's input rows `[rows][k]`, normalised where the product includes a norm. The observer may
    /// change the product's matrix; all that follows uses the new one.
    ///
    /// It returns no result, so steps that later steps depend on must go through [`Executor::submit`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn observe<E: From<Error>>(
        &mut self,
        plan: &StepPlan,
        observer: impl FnMut(
            &crate::model::Product,
            &[f32],
            &mut Vec<crate::layout::HostMatrix>,
        ) -> Result<(), E>,
    ) -> Result<(), E> {
        let CpuExecutor { capacity, target, slots, .. } = self;
        slots.tables.update(plan, |_, _| {})?;
        let batch = Batch::encode(plan, capacity, &slots.tables, 1)?;
        target.observe(&batch, slots, observer)
    }

    /// Returns the weights, with the changes of an observer.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn into_weights(self) -> HostWeights {
        self.target.weights
    }

    /// Computes the submitted step, if there is one.
    async fn compute(&mut self, turn: impl AsyncFn()) -> Result<Option<StepResult>> {
        let CpuExecutor { capacity, target, draft, slots, submitted, .. } = self;
        let Some(Submitted { plan, lost }) = submitted.take() else { return Ok(None) };
        if plan.seqs.is_empty() {
            return Ok(Some(StepResult { lost, ..Default::default() }));
        }
        let (plan, pace) = (&plan, &mut Pace::new(turn));
        let batch = Batch::encode(plan, capacity, &slots.tables, 1)?;
        if let Some(draft) = draft {
            draft.draft(plan, capacity, target, slots, pace).await?;
        }
        target.run_all(&batch, slots, pace).await?;
        if let Some(draft) = draft {
            draft.follow(plan, capacity, &target.acts[&Act::Features], slots, pace).await?;
        }
        let (vocab, hidden) = (target.config.vocab, target.config.hidden);
        let outcome = Outcome::of(plan, vocab);
        let (samples, scores) = outcome.read(&slots.results);
        let sum = |slot: &u32| &slots.pooled[*slot as usize * row_stride(hidden)..][..hidden];
        let embeddings = outcome.embedded.iter().map(|slot| pool::unit(sum(slot))).collect();
        let mut result = StepResult { samples, scores, embeddings, lost, ..Default::default() };
        if plan.read_logits {
            let rows = target.acts[&Act::Logits].chunks_exact(row_stride(vocab));
            result.logits = rows.take(plan.rows()).flat_map(|row| &row[..vocab]).copied().collect();
        }
        Ok(Some(result))
    }
}

impl Executor for CpuExecutor {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn depth(&self) -> usize {
        1
    }

    fn drafts(&self) -> usize {
        let most = self.draft.as_ref().map(|draft| draft.program.most.unwrap_or(MAX_DRAFTS));
        most.map_or(0, |most| most.min(MAX_DRAFTS))
    }

    fn lookahead(&self) -> usize {
        self.draft.as_ref().map_or(0, |draft| draft.program.lookahead())
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        // It may depend on what the step before it samples.
        if let Some(computed) = self.compute(async || {}).now_or_never() {
            self.done.extend(computed?);
        }
        let CpuExecutor { capacity, target, draft, slots, host, submitted, .. } = self;
        slots.tables.update(plan, |_, _| {})?;
        // An invalid plan must be refused before it is resolved.
        Batch::encode(plan, capacity, &slots.tables, 1)?;
        let last_samples = &slots.last_samples;
        let plan = plan.resolved(|slot| last_samples[(slot * SLOT_TOKENS + ACCEPTED) as usize]);
        let own = draft.as_mut().and_then(|draft| draft.model.as_mut());
        let lost = exchange(&plan, host, [Some(&mut *target), own])?;
        for copy in &plan.copies {
            target.copy_block(*copy);
            let beside = draft.iter_mut().filter_map(|draft| draft.model.as_mut());
            beside.for_each(|model| model.copy_block(*copy));
        }
        for upload in Upload::of(&plan, target.config.vocab) {
            slots.adjustments.write(&upload);
        }
        *submitted = Some(Submitted { plan: plan.into_owned(), lost });
        Ok(())
    }

    async fn result(&mut self, turn: impl AsyncFn()) -> Result<StepResult> {
        let result = match self.done.pop_front() {
            None => self.compute(turn).await?,
            done => done,
        };
        result.ok_or_else(|| Error::InvalidRequest {
            param: "step".into(),
            message: "no step is in flight".into(),
        })
    }

    fn read_blocks(&mut self, blocks: &[u32]) -> Option<BlockRead> {
        if self.submitted.is_some() {
            return None;
        }
        let own = self.draft.as_mut().and_then(|draft| draft.model.as_mut());
        let mut models: Vec<_> = [&mut self.target].into_iter().chain(own).collect();
        let words = blocks.iter().flat_map(|block| content(&mut models, *block)).collect();
        Some(ready(Ok(words)).boxed_local())
    }

    fn set_host_block(&mut self, block: u32, words: &[u32]) -> bool {
        let own = self.draft.as_mut().and_then(|draft| draft.model.as_mut());
        let mut models: Vec<_> = [&mut self.target].into_iter().chain(own).collect();
        let expected: usize =
            models.iter_mut().flat_map(|model| model.block(0)).map(|w| w.len()).sum();
        words.len() == expected && self.host.store(block, words)
    }
}

/// The content of a block, place by place.
fn content(models: &mut [&mut HostModel], block: u32) -> Vec<u32> {
    let places = models.iter_mut().flat_map(|model| model.block(block));
    places.flat_map(|words| &*words).copied().collect()
}

/// Copies the blocks of a plan between models and host; returns the host blocks that found no memory.
fn exchange(
    plan: &StepPlan,
    host: &mut HostBlocks,
    models: [Option<&mut HostModel>; 2],
) -> Result<Vec<u32>> {
    let mut models: Vec<&mut HostModel> = models.into_iter().flatten().collect();
    let saved = plan.saves.iter().map(|save| (save.to, content(&mut models, save.from)));
    let saved: Vec<_> = saved.collect();
    for restore in &plan.restores {
        let words = host.load(restore.from)?;
        let mut words = &words[..];
        for place in models.iter_mut().flat_map(|model| model.block(restore.to)) {
            let (content, rest) = words.split_at(place.len());
            place.copy_from_slice(content);
            words = rest;
        }
    }
    let lost = saved.into_iter().filter(|(block, words)| !host.store(*block, words));
    Ok(lost.map(|(block, _)| block).collect())
}
