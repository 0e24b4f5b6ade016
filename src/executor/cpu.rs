//! The executor in plain Rust: the oracle of whole-model tests, and the fallback without a GPU.

#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

use futures::{FutureExt, future::ready};

use super::{
    drafting::{self, Drafter},
    homes::{Home, homes, layer_window, places},
    host_blocks::HostBlocks,
    outcome::Outcome,
    shapes::{self, RopeTables, Widths},
};
use crate::{
    Error, Result,
    kernels::{
        Batch, BlockTables, Copy, Embed, HostTables, KvKind, LoadStates, Matmul, Place, Regime,
        RowsOf, StoreStates, Upload,
        batch::{ACCEPTED, SLOT_TOKENS},
        columns, gather, norm, pool,
    },
    layout::{HostMatrix, row_stride},
    model::{Act, DraftProgram, ModelConfig, Op, Param, Product, program_with},
    step::{BlockCopy, BlockRead, Capacity, Executor, MAX_DRAFTS, StepPlan, StepResult},
    weights::{HostWeights, ensure_room},
};

/// Runs a model's steps with the CPU reference of every kernel.
pub struct CpuExecutor {
    capacity: Capacity,
    target: HostModel,
    draft: Option<HostDraft>,
    slots: Slots,
    host: HostBlocks,
    done: VecDeque<StepResult>,
}

/// A model in host memory, with its activations and KV cache.
struct HostModel {
    config: ModelConfig,
    widths: Widths,
    program: Vec<Op>,
    weights: HostWeights,
    ropes: RopeTables,
    acts: HashMap<Act, Vec<f32>>, // [rows][row_stride(width)]
    routes: Vec<u32>,             // see kernels::route
    homes: Vec<Home>,             // [layers]
    kv: Vec<(KvKind, Vec<u32>)>,  // [places], see kernels::kv
}

/// A drafter beside its target.
struct HostDraft {
    /// None: it is inside its target.
    model: Option<HostModel>,
    program: DraftProgram,
    ids: Option<Vec<u32>>, // [vocab]: the target's
    states: Vec<f32>,      // [seqs][row_stride(hidden)]
}

/// Per-slot state.
struct Slots {
    tables: BlockTables,
    pooled: Vec<f32>,       // [seqs][row_stride(hidden)]: sums of hidden states
    last_samples: Vec<u32>, // [seqs][SLOT_TOKENS], see kernels::batch
    adjustments: HostTables,
    results: Vec<u32>, // of the step, see kernels::Logprobs
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
        let done = VecDeque::new();
        Ok((CpuExecutor { capacity, target, draft, slots, host, done }, refused))
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
        mut observer: impl FnMut(&Product, &[f32], &mut Vec<HostMatrix>) -> Result<(), E>,
    ) -> Result<(), E> {
        let CpuExecutor { capacity, target, slots, .. } = self;
        slots.tables.update(plan, |_, _| {})?;
        let batch = Batch::encode(plan, capacity, &slots.tables, 1)?;
        let layers =
            program_with(&target.config, None).into_iter().take_while(|op| *op != Op::Gather);
        for op in layers {
            if let Op::Matmul(product) = &op {
                let (rows, weight) = (batch.rows as usize, product.weight);
                let HostModel { config, weights, acts, .. } = target;
                let x = &acts[&product.x];
                let normed =
                    product.norm.map(|norm| normed(config, weights, norm, product.parts, rows, x));
                let x = normed.transpose()?.unwrap_or_else(|| x.clone());
                let matrix = target.weights.matrices.get_mut(&weight);
                let matrix = matrix.ok_or_else(|| weight.missing())?;
                let k = matrix.first().map_or(0, |part| part.k);
                let x = x.chunks_exact(row_stride(k)).take(rows).flat_map(|x| &x[..k]);
                observer(product, &x.copied().collect::<Vec<_>>(), matrix)?;
            }
            target.run(&op, &batch, slots)?;
        }
        Ok(())
    }

    /// Returns the weights, with the changes of an observer.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn into_weights(self) -> HostWeights {
        self.target.weights
    }
}

impl HostDraft {
    fn new(
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
    fn draft(
        &mut self,
        plan: &StepPlan,
        capacity: &Capacity,
        target: &mut HostModel,
        slots: &mut Slots,
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
                    op => model.run(op, batch, slots)?,
                }
            }
        }
        Ok(())
    }

    /// Lets the drafter read the target's hidden states of a step.
    fn follow(
        &mut self,
        plan: &StepPlan,
        capacity: &Capacity,
        features: &[f32],
        slots: &mut Slots,
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
                op => model.run(op, &batch, slots)?,
            }
        }
        Ok(())
    }
}

impl HostModel {
    fn new(
        config: ModelConfig,
        widths: Widths,
        program: Vec<Op>,
        weights: HostWeights,
        capacity: &Capacity,
        kinds: Vec<KvKind>,
    ) -> Result<HostModel> {
        let homes = homes(&config, capacity.groups);
        let block_bytes = shapes::block_bytes(&config, &kinds, capacity.groups);
        let kv_bytes = capacity.blocks as u64 * block_bytes;
        ensure_room("the KV cache in main memory", kv_bytes)?;
        let act = |act| {
            let (rows, width) = shapes::act(&config, widths, capacity, act);
            (act, vec![0.0; rows * row_stride(width)])
        };
        let acts = HashMap::from(Act::ALL.map(act));
        let cache = |kind: KvKind| {
            let words = capacity.blocks * shapes::kv_layout(&config, kind).block_words();
            (kind, vec![0; words])
        };
        let rope_factors = vector(&weights, config.rope_factors(capacity.context))?;
        Ok(HostModel {
            program,
            ropes: shapes::rope_tables(&config, rope_factors, capacity.context),
            kv: places(&homes, &kinds).into_iter().map(cache).collect(),
            homes,
            config,
            widths,
            weights,
            acts,
            routes: Vec::new(),
        })
    }

    /// The words of a block, place by place.
    fn block(&mut self, block: u32) -> impl Iterator<Item = &mut [u32]> {
        let HostModel { config, kv, .. } = self;
        kv.iter_mut().map(move |(kind, kv)| {
            let words = shapes::kv_layout(config, *kind).block_words();
            &mut kv[block as usize * words..][..words]
        })
    }

    fn copy_block(&mut self, copy: BlockCopy) {
        for (kind, kv) in &mut self.kv {
            let words = shapes::kv_layout(&self.config, *kind).block_words();
            let [from, to] = [copy.from, copy.to].map(|block| block as usize * words);
            kv.copy_within(from..from + words, to);
        }
    }

    fn run_all(&mut self, batch: &Batch, slots: &mut Slots) -> Result<()> {
        let program = std::mem::take(&mut self.program);
        let ran = program.iter().try_for_each(|op| self.run(op, batch, slots));
        self.program = program;
        ran
    }

    fn run(&mut self, op: &Op, batch: &Batch, slots: &mut Slots) -> Result<()> {
        let HostModel { config, widths, weights, acts, routes, homes, kv, ropes, .. } = self;
        let Slots { tables, pooled, last_samples, adjustments, results } = slots;
        let window = |layer| layer_window(config, layer, tables.groups().widest());
        match *op {
            Op::Embed { weight, scale, positions, out: into } => {
                for (first, part) in parts(weights, weight)? {
                    let (layout, rows, width) = (part.layout, part.n, part.k);
                    let kernel = Embed { layout, positions, first, rows, width, scale };
                    kernel.reference(batch, last_samples, part, out(acts, into));
                }
            }
            Op::Matmul(product) => {
                let Product { x: from, norm, parts: of_x, weight, bias, scale, cap, .. } = product;
                let Product { out: into, output: whole, .. } = product;
                let rows = if from == Act::Last { RowsOf::LogitRows } else { RowsOf::Rows };
                let experts = config.experts.as_ref().filter(|_| product.experts);
                let count = experts.map_or(1, |experts| experts.count);
                let width =
                    parts(weights, weight)?.map(|(_, part)| whole.width(part.n / count)).sum();
                let mut y = std::mem::take(out(acts, into));
                let mut x = Cow::Borrowed(&out(acts, from)[..]);
                let rows_of_x = rows.count(batch) as usize;
                if let Some(norm) = norm {
                    x = normed(config, weights, norm, of_x, rows_of_x, &x)?.into();
                }
                let number = parts(weights, weight)?.count();
                for (index, (row, part)) in parts(weights, weight)?.enumerate() {
                    let (first, output) = shapes::place_of_part(&product, number, index, row);
                    let order = weights.orders.get(&(weight, row));
                    let x = match order {
                        Some(order) => Cow::Owned(in_order(&x, order)),
                        None => Cow::Borrowed(&x[..]),
                    };
                    let kernel = Matmul {
                        layout: part.layout,
                        n: part.n / count,
                        k: part.k,
                        first,
                        width,
                        norm: None,
                        bias: bias.is_some(),
                        scale,
                        cap,
                        output,
                        rows,
                        regime: Regime::of(rows.count(batch)),
                        experts: experts
                            .map(|experts| shapes::expert_rows(experts, from, 0, count)),
                    };
                    let bias = vector(weights, bias)?;
                    match kernel.experts {
                        None => kernel.reference(rows_of_x, &x, part, &[], bias, &mut y),
                        Some(experts) => {
                            kernel.expert_reference(experts, routes, &x, part, &[], bias, &mut y);
                        }
                    }
                }
                *out(acts, into) = y;
            }
            Op::RopeKv { layer, q_norm, k_norm } => {
                let norms = match (q_norm, k_norm) {
                    (None, None) => None,
                    _ => Some([vector(weights, q_norm)?, vector(weights, k_norm)?]),
                };
                let mut query = std::mem::take(out(acts, Act::Query));
                let qkv = out(acts, Act::Qkv);
                let Home { group, place } = homes[layer];
                let (kind, kv) = &mut kv[place];
                shapes::rope_kv(config, layer, window(layer), *kind, group).reference(
                    batch,
                    tables,
                    qkv,
                    &ropes.tables[ropes.of_layer[layer]],
                    norms,
                    (&mut query, kv),
                );
                *out(acts, Act::Query) = query;
            }
            Op::Attention { layer } => {
                let mut attention = std::mem::take(out(acts, Act::Attention));
                let query = out(acts, Act::Query);
                let Home { group, place } = homes[layer];
                let (kind, kv) = &kv[place];
                shapes::attention(config, window(layer), *kind, group).reference(
                    batch,
                    tables,
                    query,
                    kv,
                    vector(weights, config.sinks.then_some(Param::Sinks(layer)))?,
                    &mut attention,
                );
                *out(acts, Act::Attention) = attention;
            }
            Op::Route => {
                if let Some(experts) = &config.experts {
                    *routes = shapes::route(experts).reference(batch, out(acts, Act::Router));
                }
            }
            Op::Combine { scale } => {
                if let Some(experts) = &config.experts {
                    let chosen = std::mem::take(out(acts, Act::Chosen));
                    let residual = out(acts, Act::Residual);
                    shapes::combine(config, experts, scale)
                        .reference(batch, routes, &chosen, residual);
                    *out(acts, Act::Chosen) = chosen;
                }
            }
            Op::Norm { x, norm, out: into, column } => {
                let rows = batch.rows as usize;
                let normed = normed(config, weights, norm, 1, rows, out(acts, x))?;
                let place = Place { width: shapes::width(config, *widths, into), column };
                let kernel = Copy { width: config.hidden, place };
                kernel.reference(rows, &normed, out(acts, into));
            }
            Op::Copy { x: from, out: into, column } => {
                let x = std::mem::take(out(acts, from));
                let place = Place { width: shapes::width(config, *widths, into), column };
                let kernel = Copy { width: config.hidden, place };
                kernel.reference(batch.rows as usize, &x, out(acts, into));
                *out(acts, from) = x;
            }
            Op::AddNormed { norm } => {
                let x = out(acts, Act::Block);
                let normed = normed(config, weights, norm, 1, batch.rows as usize, x)?;
                let residual = out(acts, Act::Residual);
                residual.iter_mut().zip(&normed).for_each(|(out, x)| *out += x);
            }
            Op::Pool { norm } if batch.pools > 0 => {
                let x = out(acts, Act::Residual);
                let normed = normed(config, weights, norm, 1, batch.rows as usize, x)?;
                pool::reference(batch, config.hidden, &normed, pooled);
            }
            Op::Pool { .. } => {}
            Op::Gather => {
                let mut last = std::mem::take(out(acts, Act::Last));
                gather::reference(batch, config.hidden, out(acts, Act::Residual), &mut last);
                *out(acts, Act::Last) = last;
            }
            Op::Sample => {
                let logits = out(acts, Act::Logits);
                *results =
                    shapes::sample(config).reference(batch, logits, adjustments, last_samples);
                shapes::accept(config).reference(batch, adjustments, last_samples, results);
                shapes::logprobs(config).reference(batch, logits, results);
            }
            // These need the drafter's states, see `HostDraft`.
            Op::StoreStates | Op::LoadStates | Op::DraftSample => {}
        }
        Ok(())
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
        let CpuExecutor { capacity, target, draft, slots, host, done } = self;
        slots.tables.update(plan, |_, _| {})?;
        // An invalid plan must be refused before it is resolved.
        Batch::encode(plan, capacity, &slots.tables, 1)?;
        let last_samples = &slots.last_samples;
        let plan = &*plan.resolved(|slot| last_samples[(slot * SLOT_TOKENS + ACCEPTED) as usize]);
        let batch = Batch::encode(plan, capacity, &slots.tables, 1)?;
        let own = draft.as_mut().and_then(|draft| draft.model.as_mut());
        let lost = exchange(plan, host, [Some(&mut *target), own])?;
        for copy in &plan.copies {
            target.copy_block(*copy);
            let beside = draft.iter_mut().filter_map(|draft| draft.model.as_mut());
            beside.for_each(|model| model.copy_block(*copy));
        }
        let (vocab, hidden) = (target.config.vocab, target.config.hidden);
        for upload in Upload::of(plan, vocab) {
            slots.adjustments.write(&upload);
        }
        if let Some(draft) = draft {
            draft.draft(plan, capacity, target, slots)?;
        }
        target.run_all(&batch, slots)?;
        if let Some(draft) = draft {
            draft.follow(plan, capacity, &target.acts[&Act::Features], slots)?;
        }
        let outcome = Outcome::of(plan, vocab);
        let (samples, scores) = outcome.read(&slots.results);
        let sum = |slot: &u32| &slots.pooled[*slot as usize * row_stride(hidden)..][..hidden];
        let embeddings = outcome.embedded.iter().map(|slot| pool::unit(sum(slot))).collect();
        let mut result = StepResult { samples, scores, embeddings, lost, ..Default::default() };
        if plan.read_logits {
            let rows = target.acts[&Act::Logits].chunks_exact(row_stride(vocab));
            result.logits = rows.take(plan.rows()).flat_map(|row| &row[..vocab]).copied().collect();
        }
        done.push_back(result);
        Ok(())
    }

    async fn result(&mut self) -> Result<StepResult> {
        self.done.pop_front().ok_or_else(|| Error::InvalidRequest {
            param: "step".into(),
            message: "no step is in flight".into(),
        })
    }

    fn read_blocks(&mut self, blocks: &[u32]) -> Option<BlockRead> {
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

fn out(acts: &mut HashMap<Act, Vec<f32>>, act: Act) -> &mut Vec<f32> {
    acts.entry(act).or_default()
}

/// The first rows of x, normalised.
fn normed(
    config: &ModelConfig,
    weights: &HostWeights,
    weight: Param,
    parts: usize,
    rows: usize,
    x: &[f32],
) -> Result<Vec<f32>> {
    let bias = vector(weights, weight.norm_bias().filter(|_| config.layer_norm))?;
    let weight = vector(weights, Some(weight))?;
    let (width, eps) = (weight.len() / parts, config.norm_eps);
    let stride = row_stride(width);
    let mut normed = vec![0.0; rows * parts * stride];
    let of_parts = weight.chunks_exact(width).cycle();
    let rows = x.chunks_exact(stride).zip(normed.chunks_exact_mut(stride));
    for ((x, out), weight) in rows.zip(of_parts) {
        let (x, out) = (&x[..width], &mut out[..width]);
        match config.layer_norm {
            true => norm::layer(x, weight, bias, eps, out),
            false => norm::rms(x, weight, eps, out),
        }
    }
    Ok(normed)
}

/// Rows of x with reordered columns.
fn in_order(x: &[f32], order: &[u32]) -> Vec<f32> {
    let stride = row_stride(order.len());
    let mut ordered = vec![0.0; x.len()];
    for (x, out) in x.chunks_exact(stride).zip(ordered.chunks_exact_mut(stride)) {
        columns::reference(x, order, out);
    }
    ordered
}

/// The parts of a matrix, each with its first row.
fn parts(
    weights: &HostWeights,
    param: Param,
) -> Result<impl Iterator<Item = (usize, &HostMatrix)>> {
    let parts = weights.matrices.get(&param).ok_or_else(|| param.missing())?;
    let mut first = 0;
    Ok(parts.iter().map(move |part| {
        first += part.n;
        (first - part.n, part)
    }))
}

/// An optional vector; absent ones are empty.
fn vector(weights: &HostWeights, param: Option<Param>) -> Result<&[f32]> {
    match param {
        None => Ok(&[]),
        Some(param) => Ok(weights.vectors.get(&param).ok_or_else(|| param.missing())?),
    }
}
