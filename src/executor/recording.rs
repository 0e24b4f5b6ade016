//! What the GPU executor prepares once: buffers, pipelines and bound dispatches.

use std::{collections::HashMap, ops::ControlFlow, rc::Rc};

use super::{
    buffers::StepBuffers,
    drafting::Drafter,
    kinds::read_vector,
    lower::{Call, Lowered, Lowering, When},
    shapes::{self, Widths},
};
use crate::{
    Error, Result,
    gpu::{Dispatch, Gpu, Kernels, Pipeline},
    kernels::{Attention, Batch, Kernel, KvGroup, KvKind, Regime, Shift, Tuning},
    model::{DraftProgram, ModelConfig, Op, program_with},
    step::{Capacity, MAX_DRAFTS},
    weights::GpuWeights,
};

/// Dispatches per regime of the number of rows.
pub type Recordings = HashMap<Regime, Vec<Recorded>>;

/// A drafter beside its target.
pub struct GpuDraft {
    pub attention: Attention,
    pub behind: u32,
    pub reads_next: bool,
    pub is_inside: bool,
    pub parts: DraftParts,
    pub follow: Recordings,
    /// As in [`DraftProgram::passes`].
    pub passes: Vec<Recordings>,
    pub most: usize,
    pub lookahead: usize,
    /// [`Shift`] in the batches of a step's passes.
    pub shift: Dispatch,
}

/// A dispatch, and the steps in which it runs.
pub struct Recorded {
    pub kernel: Box<dyn Kernel>,
    pub dispatch: Dispatch,
    pub when: When,
}

/// Everything prepared for a model.
pub struct Recording {
    pub buffers: StepBuffers,
    /// Dispatches over all rows, and over the logit rows.
    pub body: Recordings,
    pub head: Recordings,
    pub draft: Option<GpuDraft>,
    /// [`Shift`] in the batch of a step.
    pub shift: Dispatch,
    /// The variants of the kernels.
    pub tuning: Tuning,
    pub bind_groups: usize,
    pub pipelines: usize,
}

/// A model on its device.
pub struct Model<'a> {
    pub gpu: &'a Gpu,
    pub config: &'a ModelConfig,
    pub weights: &'a GpuWeights,
    pub capacity: &'a Capacity,
    /// Kind of KV cache per layer.
    pub kinds: &'a [KvKind],
    /// The variants of the kernels to try first.
    pub tuning: Tuning,
}

impl Model<'_> {
    /// Allocates the buffers, compiles every kernel that steps can need and binds every dispatch, those
    /// of a drafter too; in simpler variants if the driver cannot compile those for its adapter.
    ///
    /// Calls `on_progress` with the number of compiled pipelines and their total; it may abort. On errors,
    /// the buffers are freed.
    pub async fn record(
        &self,
        draft: Option<&Drafter<GpuWeights>>,
        on_progress: &mut impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Recording> {
        let mut tuning = self.tuning;
        loop {
            let mut allocated = Vec::new();
            let recorded =
                self.record_in(&mut allocated, tuning, draft.cloned(), on_progress).await;
            let error = match recorded {
                Ok(recording) => return Ok(recording),
                Err(error) => error,
            };
            allocated.iter().for_each(StepBuffers::destroy);
            tuning = match (&error, tuning.simpler()) {
                (Error::Pipeline { .. }, Some(simpler)) => simpler,
                _ => return Err(error),
            };
            log::warn!("{error}; simpler shaders are tried: {tuning:?}");
        }
    }

    async fn record_in(
        &self,
        allocated: &mut Vec<StepBuffers>,
        tuning: Tuning,
        draft: Option<Drafter<GpuWeights>>,
        on_progress: &mut impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Recording> {
        let &Model { gpu, config, weights, capacity, kinds, .. } = self;
        let drafting = draft.as_ref().map(|draft| draft.program(config)).transpose()?;
        let features = drafting.as_ref().map_or(0, |drafting| drafting.features);
        let rope_factors = match config.rope_factors(capacity.context) {
            Some(param) => {
                let factors = weights.vectors.get(&param).ok_or_else(|| param.missing())?;
                read_vector(gpu, factors).await?
            }
            None => Vec::new(),
        };
        let ordered = weights.orders.keys().map(|(param, _)| weights.matrices[param].k).max();
        let widths = Widths { features, joined: 0, ordered: ordered.unwrap_or(0) };
        let buffers =
            StepBuffers::new(gpu, config, capacity, kinds, &rope_factors, tuning, widths).await?;
        allocated.push(buffers.clone());
        let lowering = Lowering { config, weights, buffers: &buffers, tuning, capacity, ids: None };
        let ops = program_with(config, draft.as_ref().and_then(Drafter::features));
        let split = ops.iter().position(|op| *op == Op::Gather).unwrap_or(ops.len());
        let (body_ops, head_ops) = ops.split_at(split);
        let body = lowering.regimes(body_ops, capacity.rows)?;
        let head = lowering.regimes(head_ops, capacity.logit_rows)?;
        let parts = match (draft, &drafting) {
            (Some(draft), Some(drafting)) => {
                let (own, ids) = draft.into_parts();
                let own = own.map(|mut own| {
                    if drafting.reads_next {
                        own.share(weights, config.head());
                    }
                    own
                });
                let target = (weights, &buffers);
                Some(DraftParts::new(gpu, own, ids, drafting, target, (capacity, tuning)).await?)
            }
            _ => None,
        };
        allocated.extend(parts.iter().map(|parts| parts.buffers.clone()));
        let of_draft = match (&parts, &drafting) {
            (Some(parts), Some(drafting)) => parts.lower(drafting, tuning, capacity)?,
            _ => Vec::new(),
        };

        let mut kernels = Kernels::default();
        let mut declare = |lowered| declare(&mut kernels, lowered, tuning);
        let (body, head) = (declare(body), declare(head));
        let of_draft: Vec<_> = of_draft.into_iter().map(declare).collect();
        let shift = Shift { stride: Batch::max_words(capacity) };
        let shift = kernels.declare(shift.shader());
        kernels.compile(gpu, on_progress).await?;

        let mut record = |declared| record(&mut kernels, gpu, declared);
        let (body, head) = (record(body), record(head));
        let mut recordings: Vec<_> = of_draft.into_iter().map(record).collect();
        let mut shift = |words| kernels.bind(gpu, &shift, &[words, &buffers.last_samples]);
        let of_step = shift(&buffers.step);
        let draft = match (parts, recordings.pop(), drafting) {
            (Some(parts), Some(follow), Some(drafting)) => Some(GpuDraft {
                attention: shapes::attention(
                    &drafting.config,
                    capacity.groups.widest(),
                    KvKind::F16,
                    KvGroup::ALL,
                ),
                behind: drafting.behind,
                reads_next: drafting.reads_next,
                is_inside: drafting.is_inside,
                shift: shift(&parts.words),
                parts,
                follow,
                passes: recordings,
                most: drafting.most.unwrap_or(MAX_DRAFTS).min(MAX_DRAFTS),
                lookahead: drafting.lookahead(),
            }),
            _ => None,
        };
        let (bind_groups, pipelines) = (kernels.bind_groups, kernels.len());
        Ok(Recording { buffers, body, head, draft, shift: of_step, tuning, bind_groups, pipelines })
    }
}

/// What the dispatches of a drafter are bound to.
pub struct DraftParts {
    /// A drafter inside its target shares the target's buffers, except for the words of a step.
    pub buffers: StepBuffers,
    weights: GpuWeights,
    ids: Option<wgpu::Buffer>, // [vocab]
    /// The batches of a step's passes, one after the other: [1 + MAX_DRAFTS][words of a step]. Each is
    /// copied to the buffer that the dispatches are bound to.
    pub words: wgpu::Buffer,
}

impl DraftParts {
    async fn new(
        gpu: &Gpu,
        weights: Option<GpuWeights>,
        ids: Option<Vec<u32>>,
        program: &DraftProgram,
        (target_weights, target): (&GpuWeights, &StepBuffers),
        (capacity, tuning): (&Capacity, Tuning),
    ) -> Result<DraftParts> {
        let ids = match &ids {
            Some(ids) => Some(gpu.upload("ids of drafts", ids).await?),
            None => None,
        };
        let (weights, buffers) = match weights {
            None => (target_weights.clone(), target.inside(gpu, capacity).await?),
            Some(weights) => {
                let config = &program.config;
                let ordered =
                    weights.orders.keys().map(|(param, _)| weights.matrices[param].k).max();
                let rope_factors = match config.rope_factors(capacity.context) {
                    Some(param) => {
                        let factors = weights.vectors.get(&param);
                        read_vector(gpu, factors.ok_or_else(|| param.missing())?).await?
                    }
                    None => Vec::new(),
                };
                let kinds = vec![KvKind::F16; config.layers];
                let buffers = StepBuffers::new(
                    gpu,
                    config,
                    capacity,
                    &kinds,
                    &rope_factors,
                    tuning,
                    Widths {
                        features: program.features,
                        joined: program.joined,
                        ordered: ordered.unwrap_or(0),
                    },
                );
                (weights, buffers.await?.beside(target))
            }
        };
        let words = (1 + MAX_DRAFTS) * Batch::max_words(capacity);
        let words = gpu.storage("draft steps", words as u64 * 4).await?;
        Ok(DraftParts { buffers, weights, ids, words })
    }

    /// Lowers the drafting passes and, last, the pass that follows the target's rows.
    fn lower<'a>(
        &'a self,
        program: &'a DraftProgram,
        tuning: Tuning,
        capacity: &'a Capacity,
    ) -> Result<Vec<Lowered<'a>>> {
        let lowering = Lowering {
            config: &program.config,
            weights: &self.weights,
            buffers: &self.buffers,
            tuning,
            capacity,
            ids: self.ids.as_ref(),
        };
        let passes = program.passes.iter().map(|pass| lowering.regimes(pass, capacity.seqs));
        let follow = lowering.regimes(&program.follow, capacity.rows);
        passes.chain([follow]).collect()
    }

    /// Frees the memory; dropping a buffer does not on the web.
    pub fn destroy(&self) {
        self.buffers.destroy();
        self.weights.destroy();
        self.words.destroy();
        self.ids.iter().for_each(wgpu::Buffer::destroy);
    }
}

/// Calls by regime, each with its pipeline.
type Declared<'a> = Vec<(Regime, Vec<(Call<'a>, Rc<Pipeline>)>)>;

fn declare<'a>(kernels: &mut Kernels, lowered: Lowered<'a>, tuning: Tuning) -> Declared<'a> {
    let mut with_pipeline = |call: Call<'a>| {
        let pipeline = kernels.declare(call.kernel.shader(tuning));
        (call, pipeline)
    };
    let declare = |(regime, calls): (_, Vec<_>)| {
        (regime, calls.into_iter().map(&mut with_pipeline).collect())
    };
    lowered.into_iter().map(declare).collect()
}

fn record(kernels: &mut Kernels, gpu: &Gpu, declared: Declared<'_>) -> Recordings {
    let mut bind = |(Call { kernel, buffers, when }, pipeline)| {
        let dispatch = kernels.bind(gpu, &pipeline, &buffers);
        Recorded { kernel, dispatch, when }
    };
    let record =
        |(regime, calls): (_, Vec<_>)| (regime, calls.into_iter().map(&mut bind).collect());
    declared.into_iter().map(record).collect()
}
