//! Attention over the paged KV cache, for ragged batches of prefill chunks and decode rows alike.
//!
//! The softmax is computed over segments of keys at fixed multiples of the segment length, and the
//! segments are folded in order. Either one workgroup folds all segments of its rows, or each segment
//! has its own workgroup and [`AttentionMerge`] folds them. The arithmetic is the same, so the bits of
//! a row depend only on its own query, keys and values, never on the batch around it.

use minijinja::context;

use super::{
    Batch, BlockTables, Kernel, KvGroup, Tuning, capped,
    kv::{KvKind, KvLayout},
    literal,
    matmul::dot,
    rope_kv::query_heads,
};
use crate::{
    gpu::{
        Access::{Read, ReadWrite},
        Shader,
    },
    layout::row_stride,
    step::{Capacity, Window},
};

/// Keys of a segment.
const SEGMENT: usize = 128;
/// The same where barriers are expensive and a thread computes a whole segment. Some software adapters
/// end a thread after 65,535 loop iterations, and a key takes two.
const LANE_SEGMENT: usize = 16_384;
/// Query vectors (row, head) that share one pass over the keys.
const VECTORS: usize = 16;
/// Steps with more rows fill the device without splitting contexts.
const SPLIT_ROWS: usize = 16;
/// Shorter contexts are not worth a second dispatch.
const SPLIT_FROM: usize = 256;
/// Limit of partial results in words, 16 MiB; steps that would need more are not split.
const PARTIAL_WORDS: usize = 4 << 20;
/// Threads of a workgroup where barriers are expensive: one per head.
const LANES: usize = 8;

/// Attention = softmax(cap(scale · Query · Kᵀ)) · V, each row over its sequence up to itself.
///
/// Bindings: step, tables ([`BlockTables`]), query (see [`super::RopeKv`]), kv ([`KvLayout`]), with
/// `sink_logits` and without `split` the sink logits `[heads]`, and the output: attention
/// `[rows][row_stride(heads·head_dim)]`, or with `split` partials `[segments][rows][heads][head_dim +
/// 2]` (o, m, l) for [`AttentionMerge`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    pub heads: usize,
    pub kv_heads: usize,
    /// A multiple of 8, at most 256.
    pub head_dim: usize,
    pub scale: f32,
    /// Replaces scores by cap · tanh(score / cap).
    pub cap: Option<f32>,
    pub kind: KvKind,
    pub group: KvGroup,
    /// The positions that a row attends to; all before it if none.
    pub window: Option<Window>,
    /// Each head has a sink logit that takes part in its softmax and has no value.
    pub sink_logits: bool,
    /// Each segment of the context has its own workgroups: for steps with [`Attention::splits`].
    pub split: bool,
}

/// Merges the partial results of [`Attention`] with `split`.
///
/// Bindings: step, partials, with `sink_logits` the sink logits, attention (out).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionMerge {
    pub heads: usize,
    pub head_dim: usize,
    pub window: Option<Window>,
    pub sink_logits: bool,
}

impl Attention {
    /// Rows of a tile for [`Batch::encode`]: neighbours of a sequence that share a pass over its keys.
    pub const fn tile_rows(heads: usize, kv_heads: usize) -> usize {
        let rows = VECTORS * kv_heads / heads;
        if rows == 0 { 1 } else { rows }
    }

    /// Whether a step is split over its contexts. The result is the same, bit for bit.
    pub fn splits(&self, tuning: Tuning, batch: &Batch) -> bool {
        let (rows, longest) = (batch.rows as usize, batch.longest as usize);
        self.may_split(tuning, rows, longest)
            && (!tuning.barriers || self.words(tuning, rows, longest) <= PARTIAL_WORDS)
    }

    /// Whether steps of `rows` rows, with contexts of up to `longest` tokens, may be split.
    pub fn may_split(&self, tuning: Tuning, rows: usize, longest: usize) -> bool {
        match tuning.barriers {
            true => rows <= SPLIT_ROWS && longest > SPLIT_FROM,
            false => longest > LANE_SEGMENT,
        }
    }

    /// Words of the partial results of the largest step that is split.
    pub fn partial_words(&self, tuning: Tuning, capacity: &Capacity) -> usize {
        let Capacity { rows, context, .. } = *capacity;
        match (self.may_split(tuning, 1, context), tuning.barriers) {
            (false, _) => 0,
            (true, true) => self.words(tuning, rows.min(SPLIT_ROWS), context).min(PARTIAL_WORDS),
            (true, false) => self.words(tuning, rows, context),
        }
    }

    fn words(&self, tuning: Tuning, rows: usize, context: usize) -> usize {
        self.segments(tuning, context) * rows * self.heads * (self.head_dim + 2)
    }

    /// The most segments that the rows of a tile attend to.
    fn segments(&self, tuning: Tuning, context: usize) -> usize {
        let segment = segment(tuning);
        let all = context.div_ceil(segment);
        // The window of the first row and the rows after it; it may begin anywhere in a segment.
        let visible = |window: Window| {
            window.sinks.div_ceil(segment) + (window.tokens + VECTORS).div_ceil(segment) + 1
        };
        self.window.map_or(all, |window| all.min(visible(window)))
    }

    /// Whether sink logits are bound: only where segments are folded.
    fn sinks(&self) -> bool {
        self.sink_logits && !self.split
    }

    /// Query heads of one KV head per workgroup.
    fn group(&self) -> usize {
        (self.heads / self.kv_heads).min(VECTORS)
    }

    /// Workgroups that share the query heads of a KV head.
    fn slices(&self) -> usize {
        (self.heads / self.kv_heads).div_ceil(VECTORS)
    }

    /// CPU reference; absent sink logits are empty.
    pub fn reference(
        &self,
        batch: &Batch,
        tables: &BlockTables,
        query: &[f32],
        cache: &[u32],
        sink_logits: &[f32],
        output: &mut [f32],
    ) {
        let (dim, group) = (self.head_dim, self.heads / self.kv_heads);
        let layout = KvLayout { kind: self.kind, kv_heads: self.kv_heads, head_dim: dim };
        let stride = row_stride(self.heads * dim);
        let query_stride = row_stride(query_heads(self.heads, self.window) * dim);
        let sinks = self.window.map_or(0, |window| window.sinks);
        let mut vector = vec![0.0; dim];
        let mut scores = Vec::new();
        for i in 0..batch.rows as usize {
            let row = batch.row(i);
            let end = row.position as usize + 1;
            let start = self.window.map_or(0, |window| window.start(end - 1));
            let visible = || (0..sinks.min(start)).chain(start..end);
            for kv_head in 0..self.kv_heads {
                let heads = kv_head * group * dim..(kv_head + 1) * group * dim;
                let outputs = &mut output[i * stride..][heads.clone()];
                scores.clear();
                for position in visible() {
                    // Sinks use the second queries.
                    let view = if position < sinks { self.heads * dim } else { 0 };
                    let queries = &query[i * query_stride + view..][heads.clone()];
                    let slot = tables.kv_slot(self.group, row.table, position);
                    layout.load(cache, slot, kv_head, &mut vector);
                    let score = |q| capped(self.scale * dot(q, &vector), self.cap);
                    scores.extend(queries.chunks_exact(dim).map(score));
                }
                let sinks = sink_logits.get(kv_head * group..).unwrap_or(&[]);
                softmax(&mut scores, group, sinks);
                outputs.fill(0.0);
                for (position, weights) in visible().zip(scores.chunks_exact(group)) {
                    let slot = tables.kv_slot(self.group, row.table, position);
                    layout.load(cache, slot, kv_head + self.kv_heads, &mut vector);
                    for (output, weight) in outputs.chunks_exact_mut(dim).zip(weights) {
                        for (o, v) in output.iter_mut().zip(&vector) {
                            *o += weight * v;
                        }
                    }
                }
            }
        }
    }
}

/// Keys of a segment.
fn segment(tuning: Tuning) -> usize {
    if tuning.barriers { SEGMENT } else { LANE_SEGMENT }
}

/// Softmax of each of the `n` columns of `scores`, with its sink logit if there are any.
fn softmax(scores: &mut [f32], n: usize, sinks: &[f32]) {
    for column in 0..n {
        let sink = sinks.get(column).copied().unwrap_or(f32::NEG_INFINITY);
        let top = scores[column..].iter().step_by(n).copied().fold(sink, f32::max);
        let mut sum = (sink - top).exp();
        for score in scores[column..].iter_mut().step_by(n) {
            *score = (*score - top).exp();
            sum += *score;
        }
        for score in scores[column..].iter_mut().step_by(n) {
            *score /= sum;
        }
    }
}

impl Kernel for Attention {
    fn shader(&self, tuning: Tuning) -> Shader {
        let vectors = Attention::tile_rows(self.heads, self.kv_heads) * self.group();
        // Query vectors per thread: two threads share a key, and head_dim / 4 threads a value.
        let value_vectors = vectors.div_ceil(128 / (self.head_dim / 4));
        let values = context! {
            heads => self.heads,
            kv_heads => self.kv_heads,
            head_dim => self.head_dim,
            stride => row_stride(self.heads * self.head_dim),
            query_stride => row_stride(query_heads(self.heads, self.window) * self.head_dim),
            scale => literal(self.scale),
            cap => self.cap.map(literal),
            number => "f32",
            int8 => self.kind == KvKind::Int8,
            groups => self.group.count,
            kv_group => self.group.index,
            four_words => if self.kind == KvKind::Int8 { 1 } else { 2 },
            window => self.window.map(|window| window.tokens),
            sinks => self.window.map_or(0, |window| window.sinks),
            segment => segment(tuning),
            split => self.split,
            sink_logits => self.sinks(),
            group => self.group(),
            slices => self.slices(),
            vectors => vectors,
            score_vectors => vectors.div_ceil(2),
            value_vectors => value_vectors,
            eighths => self.head_dim / 8,
            lanes => LANES,
        };
        let name = if tuning.barriers { "attention" } else { "attention_lane" };
        let mut bindings = vec![Read; if self.sinks() { 5 } else { 4 }];
        bindings.push(ReadWrite);
        Shader::render(name, values, bindings)
    }

    fn grid(&self, tuning: Tuning, batch: &Batch) -> [u32; 3] {
        let segments = match self.split {
            true => self.segments(tuning, batch.longest as usize) as u32,
            false => 1,
        };
        match tuning.barriers {
            true => [batch.tiles, (self.kv_heads * self.slices()) as u32, segments],
            false => [self.heads.div_ceil(LANES) as u32, batch.rows, segments],
        }
    }
}

impl Kernel for AttentionMerge {
    fn shader(&self, tuning: Tuning) -> Shader {
        let values = context! {
            heads => self.heads,
            head_dim => self.head_dim,
            stride => row_stride(self.heads * self.head_dim),
            window => self.window.map(|window| window.tokens),
            sinks => self.window.map_or(0, |window| window.sinks),
            segment => segment(tuning),
            sink_logits => self.sink_logits,
        };
        let mut bindings = vec![Read; if self.sink_logits { 3 } else { 2 }];
        bindings.push(ReadWrite);
        Shader::render("attention_merge", values, bindings)
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [self.heads as u32, batch.rows, 1]
    }
}
