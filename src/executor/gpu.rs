//! The executor on the GPU: per step one metadata write, one pass and one small read-back.

use std::{cell::RefCell, collections::VecDeque, ops::ControlFlow, rc::Rc};

use futures::FutureExt;
use wgpu::CommandEncoder;

use super::{
    buffers::StepBuffers,
    drafting::{self, Drafter},
    host_blocks::HostBlocks,
    lower::When,
    outcome::Outcome,
    profile::Profiler,
    recording::{DraftParts, GpuDraft, Model, Recorded, Recording, Recordings},
    shapes,
};
use crate::{
    Error, Result,
    gpu::{Dispatch, Gpu, Readback},
    kernels::{
        Attention, Batch, BlockTables, KvGroup, KvKind, Regime, Shift, Tuning, Upload, pool,
    },
    layout::row_stride,
    model::ModelConfig,
    step::{BlockRead, Capacity, Executor, HostMemory, StepPlan, StepResult},
    weights::GpuWeights,
};

/// Runs a model's steps on a GPU.
pub struct GpuExecutor {
    gpu: Gpu,
    tuning: Tuning,
    capacity: Capacity,
    hidden: usize,
    attention: Attention,
    buffers: StepBuffers,
    tables: BlockTables,
    weights: GpuWeights,
    /// Prepared once: dispatches over all rows, and over the logit rows, per regime.
    body: Recordings,
    head: Recordings,
    draft: Option<GpuDraft>,
    shift: Dispatch,
    in_flight: VecDeque<InFlight>,
    spare: Vec<Readback>,
    host: HostBlocks,
    /// For the contents of the blocks that a step saves.
    spare_saves: Vec<Readback>,
    /// For [`Executor::read_blocks`]: one at most, taken while a read is not over.
    spare_read: Rc<RefCell<Option<Readback>>>,
    profiler: Option<Profiler>,
    work: HostWork,
}

/// Counts of the host's work on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct HostWork {
    pub steps: u64,
    pub submissions: u64,
    pub read_backs: u64,
    pub dispatches: u64,
    pub buffer_writes: u64,
    /// Constant once the executor is made.
    pub bind_groups: u64,
    pub pipelines: u64,
}

struct InFlight {
    outcome: Outcome,
    /// Sums of the embeddings `[embedded][hidden]`, results, then timestamps if available.
    small: Readback,
    /// [logit rows][row_stride(vocab)]
    logits: Option<Readback>,
    saves: Option<Saves>,
}

/// The blocks that a step saves.
struct Saves {
    /// Host blocks.
    to: Vec<u32>,
    contents: Readback,
}

impl GpuExecutor {
    /// Steps that may be in flight: the device computes one while the host handles the other.
    pub const DEPTH: usize = 2;

    /// Allocates the buffers, compiles every kernel that the model can need and binds every dispatch.
    ///
    /// `kinds`: KV cache per layer, see [`super::gpu_kv_kinds`]. Calls `on_progress` with the number of
    /// compiled pipelines and their total; it may abort.
    pub async fn new(
        gpu: Gpu,
        config: &ModelConfig,
        weights: GpuWeights,
        capacity: Capacity,
        kinds: &[KvKind],
        on_progress: impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<GpuExecutor> {
        let made =
            GpuExecutor::with_draft(gpu, config, weights, None, capacity, kinds, on_progress);
        Ok(made.await?.0)
    }

    /// The same with a drafter. A drafter that cannot run is left out, and the reason returned.
    ///
    /// # Errors
    /// As for [`GpuExecutor::new`].
    pub async fn with_draft(
        gpu: Gpu,
        config: &ModelConfig,
        weights: GpuWeights,
        draft: Option<Drafter<GpuWeights>>,
        mut capacity: Capacity,
        kinds: &[KvKind],
        mut on_progress: impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(GpuExecutor, Option<Error>)> {
        let tuning = Tuning::of(&gpu.adapter);
        let model =
            Model { gpu: &gpu, config, weights: &weights, capacity: &capacity, kinds, tuning };
        let (recording, refused) = match model.record(draft.as_ref(), &mut on_progress).await {
            Err(error) if draft.is_some() && error != Error::Aborted => {
                draft.iter().filter_map(Drafter::weights).for_each(GpuWeights::destroy);
                (model.record(None, &mut on_progress).await?, Some(error))
            }
            recording => (recording?, None),
        };
        let Recording { buffers, body, head, draft, shift, tuning, bind_groups, pipelines } =
            recording;
        let work = HostWork {
            bind_groups: bind_groups as u64,
            pipelines: pipelines as u64,
            ..HostWork::default()
        };
        let profiler = Profiler::new(&gpu).await?;
        let small_bytes = buffers.pooled.size() + buffers.results.size() + Profiler::BYTES;
        let spare = Self::read_backs(&gpu, small_bytes).await?;
        let own = draft.as_ref().filter(|draft| !draft.is_inside);
        let own = own.map_or(0, |draft| draft.parts.buffers.block_bytes());
        let block_bytes = buffers.block_bytes() + own;
        let HostMemory { saves, reads, .. } = capacity.host;
        let spare_saves = match Self::read_backs(&gpu, saves as u64 * block_bytes).await {
            Ok(read_backs) => read_backs,
            Err(error) => {
                log::warn!("no block of the KV cache is kept in host memory: {error}");
                capacity.host = HostMemory::NONE;
                Vec::new()
            }
        };
        let spare_read = match reads {
            0 => None,
            _ => Readback::new(&gpu, reads as u64 * block_bytes).await.ok(),
        };
        if spare_read.is_none() {
            capacity.host.reads = 0;
        }
        let executor = GpuExecutor {
            host: HostBlocks::new(capacity.host),
            spare_saves,
            spare_read: Rc::new(RefCell::new(spare_read)),
            // Only for the grid, which does not depend on a layer's kind.
            attention: shapes::attention(
                config,
                capacity.groups.widest(),
                KvKind::F16,
                KvGroup::ALL,
            ),
            tables: BlockTables::new(&capacity),
            in_flight: VecDeque::new(),
            tuning,
            capacity,
            hidden: config.hidden,
            weights,
            body,
            head,
            draft,
            shift,
            spare,
            profiler,
            work,
            gpu,
            buffers,
        };
        Ok((executor, refused))
    }

    /// A read-back of this many bytes for each step in flight; none of no bytes.
    async fn read_backs(gpu: &Gpu, bytes: u64) -> Result<Vec<Readback>> {
        let mut read_backs = Vec::new();
        while bytes > 0 && read_backs.len() < Self::DEPTH {
            read_backs.push(Readback::new(gpu, bytes).await?);
        }
        Ok(read_backs)
    }

    /// The device it runs on.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Counts of the host's work on the device so far.
    pub fn work(&self) -> HostWork {
        self.work
    }

    /// Bytes of the weights.
    pub fn weight_bytes(&self) -> u64 {
        self.weights.bytes()
    }

    /// The buffers with keys and values: the model's, and those of a drafter of its own.
    fn with_kv(&self) -> impl Iterator<Item = &StepBuffers> {
        let own = self.draft.iter().filter(|draft| !draft.is_inside);
        [&self.buffers].into_iter().chain(own.map(|draft| &draft.parts.buffers))
    }

    /// Submits the read-back of the blocks that a plan saves, before anything overwrites them.
    fn save(&mut self, plan: &StepPlan) -> Option<Saves> {
        if plan.saves.is_empty() {
            return None;
        }
        let mut contents = self.spare_saves.pop()?;
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        for save in &plan.saves {
            for buffers in self.with_kv() {
                buffers.save_block(&mut encoder, save.from, &mut contents);
            }
        }
        contents.map(self.gpu.queue.submit([encoder.finish()]));
        self.work.submissions += 1;
        self.work.read_backs += 1;
        Some(Saves { to: plan.saves.iter().map(|save| save.to).collect(), contents })
    }

    /// Writes the blocks that a plan restores.
    fn restore(&mut self, plan: &StepPlan) -> Result<()> {
        for restore in &plan.restores {
            let words = self.host.load(restore.from)?;
            let mut words = &words[..];
            for buffers in self.with_kv() {
                words = buffers.restore_block(&self.gpu, restore.to, words);
            }
        }
        Ok(())
    }

    /// Keeps what a step has read of the blocks that it saves; returns those for which there is no memory.
    async fn keep(&mut self, saves: Saves) -> Result<Vec<u32>> {
        let Saves { to, mut contents } = saves;
        let words = contents.words(&self.gpu).await?;
        self.spare_saves.push(contents);
        let each = words.len() / to.len().max(1);
        let mut lost = Vec::new();
        for (block, words) in to.into_iter().zip(words.chunks_exact(each.max(1))) {
            if !self.host.store(block, words) {
                lost.push(block);
            }
        }
        Ok(lost)
    }

    /// Encodes and uploads the batches in which the drafter drafts, and in which it reads the rows.
    fn draft_batches(&mut self, plan: &StepPlan) -> Result<(Vec<Batch>, Vec<Batch>)> {
        let Some(draft) = &self.draft else { return Ok(Default::default()) };
        let Attention { heads, kv_heads, .. } = draft.attention;
        let (capacity, tables) = (&self.capacity, &self.tables);
        let tile_rows = Attention::tile_rows(heads, kv_heads);
        let passes = drafting::passes(plan, capacity, tables, tile_rows, draft.behind)?;
        let follow = match draft.follow.values().all(Vec::is_empty) {
            true => None,
            false => drafting::follow(plan, capacity, tables, tile_rows, draft.reads_next)?,
        };
        let follow = Vec::from_iter(follow);
        let stride = Batch::max_words(capacity);
        let mut words = Vec::new();
        for (place, batch) in passes.iter().chain(&follow).enumerate() {
            words.resize(place * stride, 0);
            words.extend(&batch.words);
        }
        if !words.is_empty() {
            self.gpu.queue.write_buffer(&draft.parts.words, 0, bytemuck::cast_slice(&words));
            self.work.buffer_writes += 1;
        }
        Ok((passes, follow))
    }

    /// Records [`Shift`] for rows behind unverified drafts, in the step's batch and in `drafting`
    /// batches of the drafter. It comes first, before the step verifies drafts of its own.
    fn record_shifts(&mut self, encoder: &mut CommandEncoder, batch: &Batch, drafting: usize) {
        if batch.shifts == 0 {
            return;
        }
        let mut pass = encoder.begin_compute_pass(&Default::default());
        let of_draft = self.draft.as_ref().filter(|_| drafting > 0);
        let of_draft = of_draft.map(|draft| (&draft.shift, drafting));
        for (dispatch, batches) in [(&self.shift, 1)].into_iter().chain(of_draft) {
            dispatch.record(&mut pass, Shift::grid(batch, batches));
            self.work.dispatches += 1;
        }
    }

    /// Records the pass of the model; `follows`: a drafter reads its hidden states.
    fn record_step(&mut self, encoder: &mut CommandEncoder, batch: &Batch, follows: bool) {
        let timestamp_writes = self.profiler.as_ref().map(Profiler::writes);
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: Some("step"),
            timestamp_writes,
        });
        let body = match batch.rows {
            0 => &[][..],
            rows => &self.body[&Regime::of(rows)],
        };
        let head = match batch.logit_rows {
            0 => &[][..],
            rows => &self.head[&Regime::of(rows)],
        };
        let calls = body.iter().chain(head);
        let calls = calls.filter(|call| call.when != When::Follows || follows);
        self.work.dispatches += record(&mut pass, calls, &self.attention, self.tuning, batch);
    }

    /// Records a pass of the drafter with the batch at `place` of its buffer.
    fn record_draft(
        &self,
        encoder: &mut CommandEncoder,
        place: usize,
        batch: &Batch,
        recordings: impl Fn(&GpuDraft) -> Option<&Recordings>,
    ) -> u64 {
        let Some(draft) = &self.draft else { return 0 };
        let from = (place * Batch::max_words(&self.capacity)) as u64 * 4;
        let DraftParts { words, buffers, .. } = &draft.parts;
        let bytes = batch.words.len() as u64 * 4;
        encoder.copy_buffer_to_buffer(words, from, &buffers.step, 0, bytes);
        let mut pass = encoder.begin_compute_pass(&Default::default());
        let regime = Regime::of(batch.rows);
        let calls = recordings(draft).and_then(|list| list.get(&regime)).into_iter().flatten();
        record(&mut pass, calls, &draft.attention, self.tuning, batch)
    }
}

/// Records the calls that run in this step; returns their number.
fn record<'a>(
    pass: &mut wgpu::ComputePass,
    calls: impl Iterator<Item = &'a Recorded>,
    attention: &Attention,
    tuning: Tuning,
    batch: &Batch,
) -> u64 {
    let splits = attention.splits(tuning, batch);
    let runs = |when: &When| match when {
        When::Always | When::Follows => true,
        When::Split => splits,
        When::Whole => !splits,
        When::Pools => batch.pools > 0,
    };
    let mut dispatches = 0;
    for Recorded { kernel, dispatch, .. } in calls.filter(|call| runs(&call.when)) {
        let grid = kernel.grid(tuning, batch);
        dispatch.record(pass, grid);
        dispatches += u64::from(grid.iter().all(|side| *side > 0));
    }
    dispatches
}

impl Executor for GpuExecutor {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn depth(&self) -> usize {
        Self::DEPTH
    }

    fn drafts(&self) -> usize {
        self.draft.as_ref().map_or(0, |draft| draft.most)
    }

    fn lookahead(&self) -> usize {
        self.draft.as_ref().map_or(0, |draft| draft.lookahead)
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        self.gpu.check()?;
        let (queue, device_tables) = (&self.gpu.queue, &self.buffers.tables);
        self.tables.update(plan, |at, entries| {
            queue.write_buffer(device_tables, at as u64 * 4, bytemuck::cast_slice(entries));
            self.work.buffer_writes += 1;
        })?;
        let batch = Batch::encode(
            plan,
            &self.capacity,
            &self.tables,
            Attention::tile_rows(self.attention.heads, self.attention.kv_heads),
        )?;
        let mut small = self.spare.pop().ok_or_else(|| Error::InvalidRequest {
            param: "step".into(),
            message: format!("{} steps are in flight already", Self::DEPTH),
        })?;
        self.gpu.queue.write_buffer(&self.buffers.step, 0, bytemuck::cast_slice(&batch.words));
        self.work.buffer_writes += 1;
        for Upload { table, at, words } in Upload::of(plan, self.capacity.vocab) {
            let bytes = bytemuck::cast_slice(&words);
            self.gpu.queue.write_buffer(self.buffers.table(table), at as u64 * 4, bytes);
            self.work.buffer_writes += 1;
        }
        let (passes, follow) = self.draft_batches(plan)?;
        let saves = self.save(plan);
        self.restore(plan)?;
        self.work.steps += 1;

        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        for copy in &plan.copies {
            self.with_kv().for_each(|buffers| buffers.copy_block(&mut encoder, *copy));
        }
        self.record_shifts(&mut encoder, &batch, passes.len() + follow.len());
        for (place, batch) in passes.iter().enumerate() {
            self.work.dispatches += self.record_draft(&mut encoder, place, batch, |draft| {
                draft.passes.get(place).or(draft.passes.last())
            });
        }
        self.record_step(&mut encoder, &batch, !follow.is_empty());
        for batch in &follow {
            let place = passes.len();
            let follow = self.record_draft(&mut encoder, place, batch, |draft| Some(&draft.follow));
            self.work.dispatches += follow;
        }
        let outcome = Outcome::of(plan, self.capacity.vocab);
        for slot in &outcome.embedded {
            let at = u64::from(*slot) * row_stride(self.hidden) as u64 * 4;
            let row = at..at + self.hidden as u64 * 4;
            small.copy_range(&mut encoder, &self.buffers.pooled, row);
        }
        // At least one word, so that there is something to wait for.
        small.copy(&mut encoder, &self.buffers.results, u64::from(batch.result_words.max(1)) * 4);
        if let Some(profiler) = &self.profiler {
            let resolved = profiler.resolve(&mut encoder);
            small.copy(&mut encoder, resolved, Profiler::BYTES);
        }
        let mut logits = None;
        if plan.read_logits {
            // Only tools read logits, so no memory is kept for them.
            let mut readback = Readback::at_once(&self.gpu, self.buffers.logits.size());
            let bytes = plan.rows() * row_stride(self.capacity.vocab) * 4;
            readback.copy(&mut encoder, &self.buffers.logits, bytes as u64);
            logits = Some(readback);
        }
        let submission = self.gpu.queue.submit([encoder.finish()]);
        self.work.submissions += 1;
        for readback in logits.iter_mut().chain([&mut small]) {
            readback.map(submission.clone());
            self.work.read_backs += 1;
        }
        self.in_flight.push_back(InFlight { outcome, small, logits, saves });
        Ok(())
    }

    async fn result(&mut self, _turn: impl AsyncFn()) -> Result<StepResult> {
        let Some(mut step) = self.in_flight.pop_front() else {
            return Err(Error::InvalidRequest {
                param: "step".into(),
                message: "no step is in flight".into(),
            });
        };
        let words = step.small.words(&self.gpu).await?;
        self.spare.push(step.small);
        let lost = match step.saves {
            Some(saves) => self.keep(saves).await?,
            None => Vec::new(),
        };
        let mut logits = Vec::new();
        if let Some(mut readback) = step.logits {
            let rows = readback.words(&self.gpu).await?;
            for row in rows.chunks_exact(row_stride(self.capacity.vocab)) {
                logits.extend(row[..self.capacity.vocab].iter().map(|w| f32::from_bits(*w)));
            }
        }
        let times =
            words.len() - if self.profiler.is_some() { Profiler::BYTES as usize / 4 } else { 0 };
        let (results, times) = words.split_at(times);
        let (sums, results) = results.split_at(step.outcome.embedded.len() * self.hidden);
        let sums = sums.chunks_exact(self.hidden).map(bytemuck::cast_slice);
        let embeddings = sums.map(pool::unit).collect();
        let (samples, scores) = step.outcome.read(results);
        Ok(StepResult {
            samples,
            scores,
            embeddings,
            logits,
            lost,
            device_nanos: self.profiler.as_ref().and_then(|profiler| profiler.nanos(times)),
        })
    }

    fn read_blocks(&mut self, blocks: &[u32]) -> Option<BlockRead> {
        if blocks.len() > self.capacity.host.reads {
            return None;
        }
        let mut contents = self.spare_read.borrow_mut().take()?;
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        for block in blocks {
            for buffers in self.with_kv() {
                buffers.save_block(&mut encoder, *block, &mut contents);
            }
        }
        contents.map(self.gpu.queue.submit([encoder.finish()]));
        self.work.submissions += 1;
        self.work.read_backs += 1;
        let (gpu, spare) = (self.gpu.clone(), self.spare_read.clone());
        let read = async move {
            let words = contents.words(&gpu).await;
            *spare.borrow_mut() = Some(contents);
            words
        };
        Some(read.boxed_local())
    }

    fn set_host_block(&mut self, block: u32, words: &[u32]) -> bool {
        let expected: u64 = self.with_kv().map(StepBuffers::block_bytes).sum();
        words.len() as u64 * 4 == expected && self.host.store(block, words)
    }
}

impl Drop for GpuExecutor {
    fn drop(&mut self) {
        self.buffers.destroy();
        self.weights.destroy();
        self.draft.iter().for_each(|draft| draft.parts.destroy());
    }
}
