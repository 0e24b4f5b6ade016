//! The forward pass of a model in host memory.

use std::{borrow::Cow, collections::HashMap, ops::Range, rc::Rc};

use super::{
    super::{
        kv_places::{KvPlace, kinds_of_places, kv_places, layer_window},
        shapes::{self, RopeTables, Widths},
    },
    pace::Pace,
};
use crate::{
    Result,
    kernels::{
        Batch, BlockTables, Copy, Embed, HostTables, KvKind, Matmul, Place, Regime, RowsOf,
        columns, gather, norm, pool,
    },
    layout::{HostMatrix, row_stride},
    model::{Act, ModelConfig, Op, Param, Product},
    step::{BlockCopy, Capacity},
    weights::{HostWeights, ensure_room},
};

/// As many multiplications take some hundredths of a second.
const PIECE: usize = 1 << 24;

/// A piece of an operation: one of `of` shares of the columns that a product fills.
#[derive(Clone, Copy)]
struct Piece {
    index: usize,
    of: usize,
}

impl Piece {
    fn part(self, columns: usize) -> Range<usize> {
        self.index * columns / self.of..(self.index + 1) * columns / self.of
    }
}

/// A model in host memory, with its activations and KV cache.
pub(super) struct HostModel {
    pub(super) config: ModelConfig,
    widths: Widths,
    program: Rc<[Op]>,
    pub(super) piece: usize, // multiplications of a piece of a product, about
    pub(super) weights: HostWeights,
    ropes: RopeTables,
    pub(super) acts: HashMap<Act, Vec<f32>>, // [rows][row_stride(width)]
    routes: Vec<u32>,                        // see kernels::route
    kv_places: Vec<KvPlace>,                 // [layers]
    kv: Vec<(KvKind, Vec<u32>)>,             // [places], see kernels::kv
}

/// Per-slot state.
pub(super) struct Slots {
    pub(super) tables: BlockTables,
    pub(super) pooled: Vec<f32>, // [seqs][row_stride(hidden)]: sums of hidden states
    pub(super) last_samples: Vec<u32>, // [seqs][SLOT_TOKENS], see kernels::batch
    pub(super) adjustments: HostTables,
    pub(super) results: Vec<u32>, // of the step, see kernels::Logprobs
}

impl HostModel {
    pub(super) fn new(
        config: ModelConfig,
        widths: Widths,
        program: Vec<Op>,
        weights: HostWeights,
        capacity: &Capacity,
        kinds: Vec<KvKind>,
    ) -> Result<HostModel> {
        let kv_places = kv_places(&config, capacity.groups);
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
            program: program.into(),
            piece: PIECE,
            ropes: shapes::rope_tables(&config, rope_factors, capacity.context),
            kv: kinds_of_places(&kv_places, &kinds).into_iter().map(cache).collect(),
            kv_places,
            config,
            widths,
            weights,
            acts,
            routes: Vec::new(),
        })
    }

    /// Runs the layers, and calls `observer` before each matrix product, see
    /// [`CpuExecutor::observe`](super::CpuExecutor::observe).
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn observe<E: From<crate::Error>>(
        &mut self,
        batch: &Batch,
        slots: &mut Slots,
        mut observer: impl FnMut(&Product, &[f32], &mut Vec<HostMatrix>) -> Result<(), E>,
    ) -> Result<(), E> {
        let layers = crate::model::program_with(&self.config, None);
        for op in layers.into_iter().take_while(|op| *op != Op::Gather) {
            if let Op::Matmul(product) = &op {
                let (rows, weight) = (batch.rows as usize, product.weight);
                let HostModel { config, weights, acts, .. } = self;
                let x = &acts[&product.x];
                let normed =
                    product.norm.map(|norm| normed(config, weights, norm, product.parts, rows, x));
                let x = normed.transpose()?.unwrap_or_else(|| x.clone());
                let matrix = weights.matrices.get_mut(&weight);
                let matrix = matrix.ok_or_else(|| weight.missing())?;
                let k = matrix.first().map_or(0, |part| part.k);
                let x = x.chunks_exact(row_stride(k)).take(rows).flat_map(|x| &x[..k]);
                observer(product, &x.copied().collect::<Vec<_>>(), matrix)?;
            }
            self.run(&op, Piece { index: 0, of: 1 }, batch, slots)?;
        }
        Ok(())
    }

    /// The words of a block, place by place.
    pub(super) fn block(&mut self, block: u32) -> impl Iterator<Item = &mut [u32]> {
        let HostModel { config, kv, .. } = self;
        kv.iter_mut().map(move |(kind, kv)| {
            let words = shapes::kv_layout(config, *kind).block_words();
            &mut kv[block as usize * words..][..words]
        })
    }

    pub(super) fn copy_block(&mut self, copy: BlockCopy) {
        for (kind, kv) in &mut self.kv {
            let words = shapes::kv_layout(&self.config, *kind).block_words();
            let [from, to] = [copy.from, copy.to].map(|block| block as usize * words);
            kv.copy_within(from..from + words, to);
        }
    }

    pub(super) async fn run_all(
        &mut self,
        batch: &Batch,
        slots: &mut Slots,
        pace: &mut Pace<impl AsyncFn()>,
    ) -> Result<()> {
        for op in Rc::clone(&self.program).iter() {
            self.run_in_pieces(op, batch, slots, pace).await?;
        }
        Ok(())
    }

    /// Runs an operation, a large product in pieces.
    pub(super) async fn run_in_pieces(
        &mut self,
        op: &Op,
        batch: &Batch,
        slots: &mut Slots,
        pace: &mut Pace<impl AsyncFn()>,
    ) -> Result<()> {
        let of = self.pieces(op, batch)?;
        for index in 0..of {
            self.run(op, Piece { index, of }, batch, slots)?;
            pace.keep().await;
        }
        Ok(())
    }

    /// Number of pieces of an operation.
    fn pieces(&self, op: &Op, batch: &Batch) -> Result<usize> {
        let Op::Matmul(product) = op else { return Ok(1) };
        if product.experts {
            return Ok(1);
        }
        let weights: usize =
            parts(&self.weights, product.weight)?.map(|(_, part)| part.n * part.k).sum();
        Ok((rows_of(product).count(batch) as usize * weights).div_ceil(self.piece).max(1))
    }

    fn run(&mut self, op: &Op, piece: Piece, batch: &Batch, slots: &mut Slots) -> Result<()> {
        let HostModel { config, widths, weights, acts, routes, kv_places, kv, ropes, .. } = self;
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
                let rows = rows_of(&product);
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
                        None => {
                            let columns = piece.part(kernel.columns());
                            kernel.reference(columns, rows_of_x, &x, part, &[], bias, &mut y);
                        }
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
                let KvPlace { group, place } = kv_places[layer];
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
                let KvPlace { group, place } = kv_places[layer];
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
            // These need the drafter's states, see `draft`.
            Op::StoreStates | Op::LoadStates | Op::DraftSample => {}
        }
        Ok(())
    }
}

pub(super) fn out(acts: &mut HashMap<Act, Vec<f32>>, act: Act) -> &mut Vec<f32> {
    acts.entry(act).or_default()
}

/// The rows of x that a product takes.
fn rows_of(product: &Product) -> RowsOf {
    if product.x == Act::Last { RowsOf::LogitRows } else { RowsOf::Rows }
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
