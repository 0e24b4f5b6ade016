//! Translates the operations of a forward pass to kernels.

use super::{buffers::StepBuffers, kv_places::layer_window, shapes};
use crate::{
    Result,
    kernels::{
        Attention, Columns, Copy, Embed, ExpertRows, Gather, Group, Kernel, LoadStates, Matmul,
        Norm, Place, Pool, Regime, Route, RowsOf, StoreStates, Tuning,
    },
    model::{Act, ModelConfig, Op, Param, Product},
    step::{Capacity, Window},
    weights::{GpuMatrix, GpuPart, GpuWeights},
};

/// A kernel and the buffers it is bound to, in the order of its bindings.
pub struct Call<'a> {
    pub kernel: Box<dyn Kernel>,
    pub buffers: Vec<&'a wgpu::Buffer>,
    pub when: When,
}

/// Calls by regime.
pub type Lowered<'a> = Vec<(Regime, Vec<Call<'a>>)>;

/// The steps in which a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// Steps whose attention is split over contexts.
    Split,
    /// Steps whose attention is not split.
    Whole,
    /// Steps with an embedding.
    Pools,
    /// Steps that a drafter reads.
    Follows,
}

impl When {
    /// When to compute an activation that is written to `out`.
    fn writing(out: Act) -> When {
        if out == Act::Features { When::Follows } else { When::Always }
    }
}

/// What lowering a model needs.
pub struct Lowering<'a> {
    pub config: &'a ModelConfig,
    pub weights: &'a GpuWeights,
    pub buffers: &'a StepBuffers,
    pub tuning: Tuning,
    pub capacity: &'a Capacity,
    /// The target's ids of the drafter's tokens, `[vocab]`, if they differ.
    pub ids: Option<&'a wgpu::Buffer>,
}

impl<'a> Lowering<'a> {
    /// Lowers operations for each regime of up to `rows` rows.
    pub fn regimes(&self, ops: &[Op], rows: usize) -> Result<Lowered<'a>> {
        let largest = Regime::of(rows as u32);
        let last = Regime::ALL.iter().position(|regime| *regime == largest);
        let needed = Regime::ALL.into_iter().take(last.map_or(0, |last| last + 1));
        needed.map(|regime| Ok((regime, self.lower(ops, regime)?))).collect()
    }

    /// Lowers operations that run over all rows of a step, or over its logit rows, for one regime.
    fn lower(&self, ops: &[Op], regime: Regime) -> Result<Vec<Call<'a>>> {
        let mut calls = Vec::new();
        for op in ops {
            self.op(op, regime, &mut calls)?;
        }
        Ok(calls)
    }

    fn op(&self, op: &Op, regime: Regime, calls: &mut Vec<Call<'a>>) -> Result<()> {
        let (config, buffers) = (self.config, self.buffers);
        let step = &buffers.step;
        match *op {
            Op::Embed { weight, scale, positions, out } => {
                for (part, bound) in parts(self.matrix(weight)?) {
                    let &GpuPart { layout, first, rows, .. } = part;
                    let width = config.hidden;
                    let mut list = vec![step];
                    list.extend((!positions).then_some(&buffers.last_samples));
                    list.extend(bound);
                    list.push(buffers.act(out));
                    calls.push(call(Embed { layout, positions, first, rows, width, scale }, list));
                }
            }
            Op::Matmul(product) => self.matmul(product, regime, calls)?,
            Op::RopeKv { layer, q_norm, k_norm } => {
                let (kv, group) = buffers.kv(layer);
                let kernel = shapes::rope_kv(config, layer, self.window(layer), kv.kind, group);
                let mut list = vec![step, &buffers.tables, &buffers.qkv, buffers.rope(layer)];
                for norm in [q_norm, k_norm].into_iter().flatten() {
                    list.push(self.vector(norm)?);
                }
                list.extend([&buffers.query, &kv.buffer]);
                calls.push(call(kernel, list));
            }
            Op::Attention { layer } => {
                let (kv, group) = buffers.kv(layer);
                let (partials, out) = (&buffers.partials, &buffers.attention);
                let inputs = [step, &buffers.tables, &buffers.query, &kv.buffer];
                let sinks = config.sinks.then(|| self.vector(Param::Sinks(layer))).transpose()?;
                let whole = shapes::attention(config, self.window(layer), kv.kind, group);
                let list = inputs.into_iter().chain(sinks).chain([out]).collect();
                calls.push(call_when(When::Whole, whole, list));
                let rows = match regime {
                    Regime::Few(rows) => rows as usize,
                    Regime::Many => self.capacity.rows,
                };
                if whole.may_split(self.tuning, rows, self.capacity.context) {
                    let split = Attention { split: true, ..whole };
                    let list = inputs.into_iter().chain([partials]).collect();
                    calls.push(call_when(When::Split, split, list));
                    let merge = shapes::attention_merge(config, self.window(layer));
                    let list = [step, partials].into_iter().chain(sinks).chain([out]).collect();
                    calls.push(call_when(When::Split, merge, list));
                }
            }
            Op::Route => {
                if let Some(experts) = &config.experts {
                    let kernel = shapes::route(experts);
                    calls.push(call(kernel, vec![step, &buffers.router, &buffers.routes]));
                    if ExpertRows::grouped(regime, self.tuning) {
                        let Route { experts, active } = kernel;
                        let list = vec![step, &buffers.routes, &buffers.groups];
                        calls.push(call(Group { experts, active }, list));
                    }
                }
            }
            Op::Combine { scale } => {
                if let Some(experts) = &config.experts {
                    let kernel = shapes::combine(config, experts, scale);
                    let list = vec![step, &buffers.routes, &buffers.chosen, &buffers.residual];
                    calls.push(call(kernel, list));
                }
            }
            Op::Norm { x, norm, out, column } => {
                let kernel = Norm { place: self.place(out, column), ..self.norm(x, RowsOf::Rows) };
                let list = self.normed(buffers.act(x), norm, buffers.act(out))?;
                calls.push(call_when(When::writing(out), kernel, list));
            }
            Op::Copy { x, out, column } => {
                let kernel = Copy { width: config.hidden, place: self.place(out, column) };
                let list = vec![step, buffers.act(x), buffers.act(out)];
                calls.push(call_when(When::writing(out), kernel, list));
            }
            Op::AddNormed { norm } => {
                let kernel = Norm { add: true, ..self.norm(Act::Block, RowsOf::Rows) };
                let list = self.normed(&buffers.block, norm, &buffers.residual)?;
                calls.push(call(kernel, list));
            }
            Op::Pool { norm } => {
                let (residual, normed) = (&buffers.residual, &buffers.normed);
                let normalise = self.norm(Act::Residual, RowsOf::Rows);
                let list = self.normed(residual, norm, normed)?;
                calls.push(call_when(When::Pools, normalise, list));
                let pool = Pool { width: config.hidden };
                calls.push(call_when(When::Pools, pool, vec![step, normed, &buffers.pooled]));
            }
            Op::Gather => {
                let kernel = Gather { width: config.hidden };
                calls.push(call(kernel, vec![step, &buffers.residual, &buffers.last]));
            }
            Op::Sample => {
                let StepBuffers { logits, last_samples, tallies, bias, masks, results, .. } =
                    buffers;
                let list = vec![step, logits, last_samples, tallies, bias, masks, results];
                calls.push(call(shapes::sample(config), list));
                let list = vec![step, last_samples, results, tallies];
                calls.push(call(shapes::accept(config), list));
                let list = vec![step, &buffers.logits, &buffers.results];
                calls.push(call(shapes::logprobs(config), list));
            }
            Op::StoreStates => {
                let kernel = StoreStates { width: config.hidden };
                let StepBuffers { residual, results, states, .. } = buffers;
                calls.push(call(kernel, vec![step, residual, results, states]));
            }
            Op::LoadStates => {
                let kernel = LoadStates { width: config.hidden };
                calls.push(call(kernel, vec![step, &buffers.states, &buffers.residual]));
            }
            Op::DraftSample => {
                let mut list = vec![step, &buffers.logits];
                list.extend(self.ids);
                list.push(&buffers.last_samples);
                calls.push(call(shapes::draft_sample(config, self.ids.is_some()), list));
            }
        }
        Ok(())
    }

    fn matmul(&self, product: Product, regime: Regime, calls: &mut Vec<Call<'a>>) -> Result<()> {
        let Product { x, norm, parts: of_x, weight, bias, scale, cap, out, .. } = product;
        let step = &self.buffers.step;
        let rows = if x == Act::Last { RowsOf::LogitRows } else { RowsOf::Rows };
        let mut input = self.buffers.act(x);
        let mut fused = norm;
        let matrix = self.matrix(weight)?;
        let order_of = |part: &GpuPart| self.weights.orders.get(&(weight, part.first));
        let in_order = matrix.parts.iter().all(|part| order_of(part).is_none());
        // Only the matrix-vector kernel can fuse the norm: an RMS norm, over one part, with columns in
        // stored order.
        let is_plain = !self.config.layer_norm && in_order && of_x == 1;
        let fuses = regime.fuses_norm(self.tuning) && is_plain;
        if let Some(norm) = norm.filter(|_| !fuses) {
            let normed = &self.buffers.normed;
            let kernel = self.norm(x, rows).in_parts(of_x);
            calls.push(call(kernel, self.normed(input, norm, normed)?));
            (input, fused) = (normed, None);
        }
        let experts = self.config.experts.as_ref().filter(|_| product.experts);
        let routes = match ExpertRows::grouped(regime, self.tuning) {
            true => &self.buffers.groups,
            false => &self.buffers.routes,
        };
        let unit = experts.map_or(matrix.n, |experts| matrix.n / experts.count);
        let mut last_order = None;
        for (index, (part, bound)) in parts(matrix).enumerate() {
            let (column, output) =
                shapes::place_of_part(&product, matrix.parts.len(), index, part.first);
            let order = order_of(part);
            let mut input = input;
            if let Some(order) = order {
                let ordered = &self.buffers.ordered;
                // Parts of one matrix mostly share an order.
                if last_order != Some(order) {
                    let columns = Columns { width: matrix.k, rows };
                    calls.push(call(columns, vec![step, input, order, ordered]));
                }
                last_order = Some(order);
                input = ordered;
            }
            let (first, held) = (part.first / unit, part.rows / unit);
            let kernel = Matmul {
                layout: part.layout,
                n: if experts.is_some() { unit } else { part.rows },
                k: matrix.k,
                first: if experts.is_some() { 0 } else { column },
                width: product.output.width(unit),
                norm: fused.map(|_| self.config.norm_eps),
                bias: bias.is_some(),
                scale,
                cap,
                output,
                rows,
                regime,
                experts: experts.map(|experts| shapes::expert_rows(experts, x, first, held)),
            };
            let mut list = vec![step, input];
            list.extend(bound);
            for vector in [fused, bias].into_iter().flatten() {
                list.push(self.vector(vector)?);
            }
            list.extend(experts.map(|_| routes));
            list.push(self.buffers.act(out));
            calls.push(call(kernel, list));
        }
        Ok(())
    }
}

impl<'a> Lowering<'a> {
    fn window(&self, layer: usize) -> Option<Window> {
        layer_window(self.config, layer, self.capacity.groups.widest())
    }

    fn norm(&self, x: Act, rows: RowsOf) -> Norm {
        let ModelConfig { norm_eps: eps, layer_norm: centred, .. } = *self.config;
        let width = shapes::width(self.config, self.buffers.widths, x);
        Norm { width, parts: 1, eps, centred, add: false, place: Place::whole(width), rows }
    }

    /// The columns `column ..` of an activation.
    fn place(&self, out: Act, column: usize) -> Place {
        Place { width: shapes::width(self.config, self.buffers.widths, out), column }
    }

    /// The bindings of [`Norm`].
    fn normed(
        &self,
        x: &'a wgpu::Buffer,
        weight: Param,
        out: &'a wgpu::Buffer,
    ) -> Result<Vec<&'a wgpu::Buffer>> {
        let mut list = vec![&self.buffers.step, x, self.vector(weight)?];
        if let Some(bias) = weight.norm_bias().filter(|_| self.config.layer_norm) {
            list.push(self.vector(bias)?);
        }
        list.push(out);
        Ok(list)
    }

    fn matrix(&self, param: Param) -> Result<&'a GpuMatrix> {
        self.weights.matrices.get(&param).ok_or_else(|| param.missing())
    }

    fn vector(&self, param: Param) -> Result<&'a wgpu::Buffer> {
        self.weights.vectors.get(&param).ok_or_else(|| param.missing())
    }
}

fn call(kernel: impl Kernel + 'static, buffers: Vec<&wgpu::Buffer>) -> Call<'_> {
    call_when(When::Always, kernel, buffers)
}

fn call_when(when: When, kernel: impl Kernel + 'static, buffers: Vec<&wgpu::Buffer>) -> Call<'_> {
    Call { kernel: Box::new(kernel), buffers, when }
}

/// The parts of a matrix, each with the buffers that a kernel binds for it.
fn parts(matrix: &GpuMatrix) -> impl Iterator<Item = (&GpuPart, Vec<&wgpu::Buffer>)> {
    matrix.parts.iter().map(|part| {
        let bound = [Some(&part.words), part.scales.as_ref()];
        (part, bound.into_iter().flatten().collect())
    })
}
