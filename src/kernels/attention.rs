//! Attention over the paged cache, for ragged batches of chunks and decode rows alike.
//!
//! The softmax is taken over segments of [`SEGMENT`] keys at fixed multiples of it, and the segments
//! are folded in order. One workgroup folds all segments of its rows, or each segment has its own
//! workgroup and [`AttentionMerge`] folds them: the arithmetic is the same, so a row's bits depend
//! on its own query, keys and values alone, never on the batch around it.

use minijinja::context;

use super::{
    Batch, BlockTables, Kernel, Tuning,
    kv::{self, KvLayout},
};
use crate::{
    gpu::{
        Access::{Read, ReadWrite},
        Shader,
    },
    layout::row_stride,
    step::Capacity,
};

/// Keys of a segment.
const SEGMENT: usize = 128;
/// Query vectors (row, head) that share a pass over the keys.
const VECTORS: usize = 16;
/// Steps of more rows fill the device without splitting their contexts.
const SPLIT_ROWS: usize = 16;
/// Contexts up to this length are not worth a second dispatch.
const SPLIT_FROM: u32 = 256;
/// Most words of partial results, 16 MiB; steps that would need more are not split.
const PARTIAL_WORDS: usize = 4 << 20;
/// Threads of a workgroup where barriers are dear: one per head.
const LANES: usize = 8;

/// Attention = softmax(scale · Query · Kᵀ) · V, each row over its sequence up to itself.
///
/// Bindings: step, tables ([`BlockTables`]), query `[rows][row_stride(heads·head_dim)]`, kv ([`KvLayout`]), and the output:
/// attention, shaped like query; or, with `split`, partials `[segments][rows][heads][head_dim + 2]`
/// (o, m, l), which [`AttentionMerge`] turns into attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    pub heads: usize,
    pub kv_heads: usize,
    /// A multiple of 8, at most 256.
    pub head_dim: usize,
    /// A row sees only the last `window` positions, itself included.
    pub window: Option<usize>,
    /// Each segment of the context has its own workgroups: for the steps of [`Attention::splits`].
    pub split: bool,
}

/// Attention from the partial results of [`Attention`] with `split`.
///
/// Bindings: step, partials, attention (out).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionMerge {
    pub heads: usize,
    pub head_dim: usize,
    pub window: Option<usize>,
}

impl Attention {
    /// Rows of a tile for [`Batch::encode`]: neighbours of a sequence that share a pass over its keys.
    pub const fn tile_rows(heads: usize, kv_heads: usize) -> usize {
        let rows = VECTORS * kv_heads / heads;
        if rows == 0 { 1 } else { rows }
    }

    /// Whether a step is worth splitting over its contexts. The choice changes no bit of the result.
    pub fn splits(&self, tuning: Tuning, batch: &Batch) -> bool {
        tuning.barriers
            && batch.rows as usize <= SPLIT_ROWS
            && batch.longest > SPLIT_FROM
            && self.words(batch.rows as usize, batch.longest as usize) <= PARTIAL_WORDS
    }

    /// Words of the partial results of the largest step that is split.
    pub fn partial_words(&self, capacity: &Capacity) -> usize {
        self.words(capacity.rows.min(SPLIT_ROWS), capacity.context).min(PARTIAL_WORDS)
    }

    fn words(&self, rows: usize, context: usize) -> usize {
        self.segments(context) * rows * self.heads * (self.head_dim + 2)
    }

    /// The most segments that a tile's rows see of a context.
    fn segments(&self, context: usize) -> usize {
        let all = context.div_ceil(SEGMENT);
        // The window of the first row and the rows after it, beginning anywhere in a segment.
        let seen = |window: usize| (window + VECTORS).div_ceil(SEGMENT) + 1;
        self.window.map_or(all, |window| all.min(seen(window)))
    }

    /// Query heads of one KV head that a workgroup takes.
    fn group(&self) -> usize {
        (self.heads / self.kv_heads).min(VECTORS)
    }

    /// Workgroups that share the query heads of a KV head.
    fn slices(&self) -> usize {
        (self.heads / self.kv_heads).div_ceil(VECTORS)
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }

    /// The same in plain Rust.
    pub fn reference(
        &self,
        batch: &Batch,
        tables: &BlockTables,
        query: &[f32],
        cache: &[u32],
        output: &mut [f32],
    ) {
        let (dim, group) = (self.head_dim, self.heads / self.kv_heads);
        let layout = KvLayout { kv_heads: self.kv_heads, head_dim: dim };
        let stride = row_stride(self.heads * dim);
        let mut vector = vec![0.0; dim];
        let mut scores = Vec::new();
        for i in 0..batch.rows as usize {
            let row = batch.row(i);
            let end = row.position as usize + 1;
            let start = end.saturating_sub(self.window.unwrap_or(end));
            for kv_head in 0..self.kv_heads {
                let heads = kv_head * group * dim..(kv_head + 1) * group * dim;
                let queries = &query[i * stride..][heads.clone()];
                let outputs = &mut output[i * stride..][heads];
                scores.clear();
                for position in start..end {
                    let at = layout.key(tables.kv_slot(row.table, position), kv_head);
                    kv::unpack(&cache[at..at + dim / 2], &mut vector);
                    scores
                        .extend(queries.chunks_exact(dim).map(|q| self.scale() * dot(q, &vector)));
                }
                softmax(&mut scores, group);
                outputs.fill(0.0);
                for (position, weights) in (start..end).zip(scores.chunks_exact(group)) {
                    let at = layout.value(tables.kv_slot(row.table, position), kv_head);
                    kv::unpack(&cache[at..at + dim / 2], &mut vector);
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

/// Softmax of each of the `n` columns of `scores`.
fn softmax(scores: &mut [f32], n: usize) {
    for column in 0..n {
        let top = scores[column..].iter().step_by(n).copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for score in scores[column..].iter_mut().step_by(n) {
            *score = (*score - top).exp();
            sum += *score;
        }
        for score in scores[column..].iter_mut().step_by(n) {
            *score /= sum;
        }
    }
}

/// Eight running sums let the compiler use vector instructions.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
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
            scale => format!("{:e}", self.scale()),
            window => self.window,
            segment => SEGMENT,
            split => self.split,
            group => self.group(),
            slices => self.slices(),
            vectors => vectors,
            score_vectors => vectors.div_ceil(2),
            value_vectors => value_vectors,
            eighths => self.head_dim / 8,
            lanes => LANES,
        };
        let name = if tuning.barriers { "attention" } else { "attention_lane" };
        Shader::render(name, values, vec![Read, Read, Read, Read, ReadWrite])
    }

    fn grid(&self, tuning: Tuning, batch: &Batch) -> [u32; 3] {
        if !tuning.barriers {
            return [self.heads.div_ceil(LANES) as u32, batch.rows, 1];
        }
        let segments = if self.split { self.segments(batch.longest as usize) } else { 1 };
        [batch.tiles, (self.kv_heads * self.slices()) as u32, segments as u32]
    }
}

impl Kernel for AttentionMerge {
    fn shader(&self, _: Tuning) -> Shader {
        let values = context! {
            heads => self.heads,
            head_dim => self.head_dim,
            stride => row_stride(self.heads * self.head_dim),
            window => self.window,
            segment => SEGMENT,
        };
        Shader::render("attention_merge", values, vec![Read, Read, ReadWrite])
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [self.heads as u32, batch.rows, 1]
    }
}
