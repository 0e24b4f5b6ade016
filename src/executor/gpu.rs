//! The executor on the GPU: one metadata write, one pass and one small read-back a step.

use std::{
    collections::{HashMap, VecDeque},
    ops::ControlFlow,
};

use wgpu::CommandEncoder;

use super::{
    buffers::StepBuffers,
    kinds::read_vector,
    lower::{Call, Lowering, When},
    outcome::Outcome,
    profile::Profiler,
    shapes,
};
use crate::{
    Error, Result,
    gpu::{Dispatch, Gpu, Kernels, Readback},
    kernels::{Attention, Batch, BlockTables, Kernel, KvKind, Regime, Tuning, Upload, pool},
    layout::row_stride,
    model::{ModelConfig, Op, program},
    step::{Capacity, Executor, StepPlan, StepResult},
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
    /// Recorded once: what runs over all rows, and over the logit rows, per regime of their count.
    body: HashMap<Regime, Vec<Recorded>>,
    head: HashMap<Regime, Vec<Recorded>>,
    in_flight: VecDeque<InFlight>,
    spare: Vec<Readback>,
    /// For steps whose logits are read: [logit rows][row_stride(vocab)]; one at a time.
    spare_logits: Option<Readback>,
    profiler: Option<Profiler>,
    work: HostWork,
}

/// What the host asked of the device so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct HostWork {
    pub steps: u64,
    pub dispatches: u64,
    pub buffer_writes: u64,
    /// Stands still once the executor is made.
    pub bind_groups: u64,
    pub pipelines: u64,
}

struct Recorded {
    kernel: Box<dyn Kernel>,
    dispatch: Dispatch,
    when: When,
}

struct InFlight {
    outcome: Outcome,
    /// Sums of the embeddings `[embedded][hidden]`, results, then timestamps where there are any.
    small: Readback,
    logits: Option<Readback>,
}

impl GpuExecutor {
    /// Allocates, compiles every kernel the model can need and records every dispatch.
    ///
    /// `kinds` say how each layer holds its keys and values; see [`super::gpu_kv_kinds`].
    /// `on_progress` is told how many of all dispatches are ready, and may break off.
    pub async fn new(
        gpu: Gpu,
        config: &ModelConfig,
        weights: GpuWeights,
        capacity: Capacity,
        kinds: &[KvKind],
        mut on_progress: impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<GpuExecutor> {
        let tuning = Tuning::of(&gpu.adapter);
        let rope_factors = match config.rope_factors(capacity.context) {
            Some(param) => {
                let factors = weights.vectors.get(&param).ok_or_else(|| param.missing())?;
                read_vector(&gpu, factors).await?
            }
            None => Vec::new(),
        };
        let buffers =
            StepBuffers::new(&gpu, config, &capacity, kinds, &rope_factors, tuning).await?;
        let lowering =
            Lowering { config, weights: &weights, buffers: &buffers, tuning, capacity: &capacity };

        let ops = program(config);
        let split = ops.iter().position(|op| *op == Op::Gather).unwrap_or(ops.len());
        let (body_ops, head_ops) = ops.split_at(split);
        let regimes = |ops, rows: usize| -> Result<Vec<(Regime, Vec<Call>)>> {
            let largest = Regime::of(rows as u32);
            let last = Regime::ALL.iter().position(|regime| *regime == largest);
            let needed = Regime::ALL.into_iter().take(last.map_or(0, |last| last + 1));
            needed.map(|regime| Ok((regime, lowering.lower(ops, regime)?))).collect()
        };
        let body = regimes(body_ops, capacity.rows)?;
        let head = regimes(head_ops, capacity.logit_rows)?;

        let total = body.iter().chain(&head).map(|(_, calls)| calls.len()).sum();
        let mut recorder = Recorder { gpu: &gpu, tuning, kernels: Kernels::default(), done: 0 };
        let mut on_progress = |done| on_progress(done, total);
        let body = recorder.record(body, &mut on_progress).await?;
        let head = recorder.record(head, &mut on_progress).await?;
        let work = HostWork {
            bind_groups: recorder.kernels.bind_groups as u64,
            pipelines: recorder.kernels.len() as u64,
            ..HostWork::default()
        };

        let profiler = Profiler::new(&gpu).await?;
        let small_bytes = buffers.pooled.size() + buffers.results.size() + Profiler::BYTES;
        let mut spare = Vec::new();
        for _ in 0..Self::DEPTH {
            spare.push(Readback::new(&gpu, small_bytes).await?);
        }
        Ok(GpuExecutor {
            // For the grid, which does not depend on a layer's kind.
            attention: shapes::attention(config, capacity.window, KvKind::F16),
            tables: BlockTables::new(&capacity),
            in_flight: VecDeque::new(),
            tuning,
            capacity,
            hidden: config.hidden,
            weights,
            body,
            head,
            spare,
            spare_logits: Some(Readback::new(&gpu, buffers.logits.size()).await?),
            profiler,
            work,
            gpu,
            buffers,
        })
    }

    /// The device it runs on.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// What the host asked of the device so far.
    pub fn work(&self) -> HostWork {
        self.work
    }

    /// Bytes of the weights.
    pub fn weight_bytes(&self) -> u64 {
        self.weights.bytes()
    }

    fn record_step(&mut self, encoder: &mut CommandEncoder, batch: &Batch) {
        let timestamp_writes = self.profiler.as_ref().map(Profiler::writes);
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: Some("step"),
            timestamp_writes,
        });
        let body = &self.body[&Regime::of(batch.rows)];
        let head = match batch.logit_rows {
            0 => &[][..],
            rows => &self.head[&Regime::of(rows)],
        };
        let splits = self.attention.splits(self.tuning, batch);
        let runs = |when: &When| match when {
            When::Always => true,
            When::Split => splits,
            When::Whole => !splits,
            When::Pools => batch.pools > 0,
        };
        for Recorded { kernel, dispatch, when } in body.iter().chain(head) {
            if !runs(when) {
                continue;
            }
            let grid = kernel.grid(self.tuning, batch);
            dispatch.record(&mut pass, grid);
            self.work.dispatches += u64::from(grid.iter().all(|side| *side > 0));
        }
    }
}

impl Executor for GpuExecutor {
    fn capacity(&self) -> Capacity {
        self.capacity
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
        self.work.steps += 1;

        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        for copy in &plan.copies {
            self.buffers.copy_block(&mut encoder, *copy);
        }
        self.record_step(&mut encoder, &batch);
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
            let mut readback = self.spare_logits.take().ok_or_else(|| Error::InvalidRequest {
                param: "step".into(),
                message: "the logits of another step are still to be read".into(),
            })?;
            let bytes = plan.rows() * row_stride(self.capacity.vocab) * 4;
            readback.copy(&mut encoder, &self.buffers.logits, bytes as u64);
            logits = Some(readback);
        }
        self.gpu.queue.submit([encoder.finish()]);
        small.map();
        logits.iter_mut().for_each(Readback::map);
        self.in_flight.push_back(InFlight { outcome, small, logits });
        Ok(())
    }

    async fn result(&mut self) -> Result<StepResult> {
        let Some(mut step) = self.in_flight.pop_front() else {
            return Err(Error::InvalidRequest {
                param: "step".into(),
                message: "no step is in flight".into(),
            });
        };
        let words = step.small.words(&self.gpu).await?;
        self.spare.push(step.small);
        let mut logits = Vec::new();
        if let Some(mut readback) = step.logits {
            let rows = readback.words(&self.gpu).await?;
            for row in rows.chunks_exact(row_stride(self.capacity.vocab)) {
                logits.extend(row[..self.capacity.vocab].iter().map(|w| f32::from_bits(*w)));
            }
            self.spare_logits = Some(readback);
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
            device_nanos: self.profiler.as_ref().and_then(|profiler| profiler.nanos(times)),
        })
    }
}

impl Drop for GpuExecutor {
    fn drop(&mut self) {
        self.buffers.destroy();
        self.weights.destroy();
    }
}

struct Recorder<'a> {
    gpu: &'a Gpu,
    tuning: Tuning,
    kernels: Kernels,
    done: usize,
}

impl Recorder<'_> {
    async fn record(
        &mut self,
        lowered: Vec<(Regime, Vec<Call<'_>>)>,
        on_progress: &mut impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<HashMap<Regime, Vec<Recorded>>> {
        let mut recorded = HashMap::new();
        for (regime, calls) in lowered {
            let mut list = Vec::with_capacity(calls.len());
            for Call { kernel, buffers, when } in calls {
                let shader = kernel.shader(self.tuning);
                let pipeline = self.kernels.pipeline(self.gpu, &shader).await?;
                let dispatch = self.kernels.bind(self.gpu, &pipeline, &buffers);
                list.push(Recorded { kernel, dispatch, when });
                self.done += 1;
                if on_progress(self.done).is_break() {
                    return Err(Error::Aborted);
                }
            }
            recorded.insert(regime, list);
        }
        Ok(recorded)
    }
}
