//! A drafter in host memory.

use super::{
    super::{
        drafting::{self, Drafter},
        shapes::{self, Widths},
    },
    model::{HostModel, Slots, out},
    pace::Pace,
};
use crate::{
    Result,
    kernels::{KvKind, LoadStates, StoreStates},
    layout::row_stride,
    model::{Act, DraftProgram, ModelConfig, Op},
    step::{Capacity, StepPlan},
    weights::HostWeights,
};

/// A drafter beside its target.
pub(super) struct HostDraft {
    /// None: it is inside its target.
    pub(super) model: Option<HostModel>,
    pub(super) program: DraftProgram,
    ids: Option<Vec<u32>>, // [vocab]: the target's
    states: Vec<f32>,      // [seqs][row_stride(hidden)]
}

impl HostDraft {
    pub(super) fn new(
        draft: Drafter<HostWeights>,
        target: &ModelConfig,
        target_weights: &HostWeights,
        capacity: &Capacity,
    ) -> Result<HostDraft> {
        let program = draft.program(target)?;
        let (weights, ids) = draft.into_parts();
        let config = &program.config;
        let widths = Widths { features: program.features, joined: program.joined, ordered: 0 };
        let model = weights.map(|mut weights| {
            if program.reads_next {
                weights.share(target_weights, target.head());
            }
            let kinds = vec![KvKind::F16; config.layers];
            HostModel::new(config.clone(), widths, Vec::new(), weights, capacity, kinds)
        });
        let states = vec![0.0; capacity.seqs * row_stride(config.hidden)];
        Ok(HostDraft { model: model.transpose()?, ids, states, program })
    }

    /// Drafts the tokens that a step verifies.
    pub(super) async fn draft(
        &mut self,
        plan: &StepPlan,
        capacity: &Capacity,
        target: &mut HostModel,
        slots: &mut Slots,
        pace: &mut Pace<impl AsyncFn()>,
    ) -> Result<()> {
        let HostDraft { model, program, ids, states } = self;
        let model = model.as_mut().unwrap_or(target);
        let passes = drafting::passes(plan, capacity, &slots.tables, 1, program.behind)?;
        for (place, batch) in passes.iter().enumerate() {
            for op in program.pass(place) {
                match op {
                    Op::LoadStates => {
                        let kernel = LoadStates { width: model.config.hidden };
                        kernel.reference(batch, states, out(&mut model.acts, Act::Residual));
                    }
                    Op::DraftSample => shapes::draft_sample(&model.config, ids.is_some())
                        .reference(
                            batch,
                            &model.acts[&Act::Logits],
                            ids.as_deref(),
                            &mut slots.last_samples,
                        ),
                    op => model.run_in_pieces(op, batch, slots, pace).await?,
                }
            }
        }
        Ok(())
    }

    /// Lets the drafter read the target's hidden states of a step.
    pub(super) async fn follow(
        &mut self,
        plan: &StepPlan,
        capacity: &Capacity,
        features: &[f32],
        slots: &mut Slots,
        pace: &mut Pace<impl AsyncFn()>,
    ) -> Result<()> {
        let HostDraft { model: Some(model), program, states, .. } = self else { return Ok(()) };
        let batch = drafting::follow(plan, capacity, &slots.tables, 1, program.reads_next)?;
        let Some(batch) = batch else { return Ok(()) };
        let held = batch.rows as usize * (features.len() / capacity.rows);
        out(&mut model.acts, Act::Features)[..held].copy_from_slice(&features[..held]);
        for op in &program.follow {
            match op {
                Op::StoreStates => {
                    let kernel = StoreStates { width: model.config.hidden };
                    kernel.reference(&batch, &model.acts[&Act::Residual], &slots.results, states);
                }
                op => model.run_in_pieces(op, &batch, slots, pace).await?,
            }
        }
        Ok(())
    }
}
