//! Rotary position embedding of queries and keys, and the write of keys and values to the KV cache.

use minijinja::context;

use super::{
    Batch, BlockTables, Kernel, KvGroup, Tuning,
    kv::{KvKind, KvLayout},
    literal,
};
use crate::{
    gpu::{
        Access::{Read, ReadWrite},
        Shader,
    },
    layout::row_stride,
    model::QkNorm,
    step::Window,
};

/// Positions in the fine part of a rope table.
const FINE: usize = 256;
/// Threads of a workgroup where barriers are expensive: one per head.
const LANES: usize = 16;

/// Normalises heads if asked, rotates queries and keys, writes keys and values to the cache.
///
/// Keys are rotated by their positions, and so are queries, for the keys of the window. With sinks,
/// queries are stored a second time, rotated for the sinks: as if the positions between sinks and
/// window, which the row does not attend to, did not exist (StreamingLLM counts positions within the
/// cache). Their number follows from the row's position alone.
///
/// Bindings: step, tables ([`BlockTables`]), qkv `[rows][row_stride((heads + 2 kv_heads)·head_dim)]`, rope table
/// ([`rope_table`]), with `qk_norm` q_norm and k_norm `[head_dim]`, or as wide as all query and all key
/// heads, query (out) `[rows][row_stride(query heads·head_dim)]`, kv (out, [`KvLayout`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeKv {
    pub heads: usize,
    pub kv_heads: usize,
    /// A multiple of 8, at most 256.
    pub head_dim: usize,
    /// Rotated dims of a head: the first ones, d with d + rotary/2, as in Hugging Face; a multiple of
    /// 4. If it is less than head_dim, queries and keys are stored in another order: the two dims of a
    /// rotated pair are half a head apart, and so are pairs of the other dims.
    pub rotary: usize,
    /// RMS norms of queries and keys before the rotation, and their epsilon.
    pub qk_norm: Option<(QkNorm, f32)>,
    pub kind: KvKind,
    pub group: KvGroup,
    /// The attention window, for its sinks.
    pub window: Option<Window>,
}

/// Queries of a row, for `heads` heads: twice as many with sinks.
pub const fn query_heads(heads: usize, window: Option<Window>) -> usize {
    match window {
        Some(Window { sinks: 1.., .. }) => 2 * heads,
        _ => heads,
    }
}

/// Tabulates (cos, sin) of the angles position · `inv_freq`, `[256 + ceil(context /
/// 256)][head_dim/2][2]`. Both are multiplied by `magnitude`; pairs of dims beyond the frequencies are
/// not rotated.
///
/// Positions 0 to 255 come first, then 0, 256, 512, … below `context`. The angle of any position is the
/// sum of one of each, exact to a few roundings at every length.
pub fn rope_table(inv_freq: &[f64], magnitude: f64, head_dim: usize, context: usize) -> Vec<f32> {
    let fine = (0..FINE).map(|position| (position, 1.0));
    let coarse = (0..context).step_by(FINE).map(|position| (position, magnitude));
    fine.chain(coarse)
        .flat_map(|(position, magnitude)| {
            (0..head_dim / 2).flat_map(move |pair| match inv_freq.get(pair) {
                Some(f) => {
                    let (sin, cos) = (position as f64 * f).sin_cos();
                    [(magnitude * cos) as f32, (magnitude * sin) as f32]
                }
                None => [1.0, 0.0],
            })
        })
        .collect()
}

impl RopeKv {
    fn layout(&self) -> KvLayout {
        KvLayout { kind: self.kind, kv_heads: self.kv_heads, head_dim: self.head_dim }
    }

    /// Heads of the projection's output.
    fn qkv_heads(&self) -> usize {
        self.heads + 2 * self.kv_heads
    }

    /// Heads to store.
    fn all_heads(&self) -> usize {
        query_heads(self.heads, self.window) + 2 * self.kv_heads
    }

    /// Heads per workgroup of 64 threads, one thread per 4 dims.
    fn heads_per_group(&self) -> usize {
        64 / (self.head_dim / 4)
    }

    /// CPU reference, which writes queries and the KV cache; `norms` are the weights of q_norm and k_norm, if
    /// there are any.
    pub fn reference(
        &self,
        batch: &Batch,
        tables: &BlockTables,
        qkv: &[f32],
        rope: &[f32],
        norms: Option<[&[f32]; 2]>,
        (query, cache): (&mut [f32], &mut [u32]),
    ) {
        let (dim, layout) = (self.head_dim, self.layout());
        let rows = qkv.chunks_exact(row_stride(self.qkv_heads() * dim));
        let outputs =
            query.chunks_exact_mut(row_stride(query_heads(self.heads, self.window) * dim));
        for (i, (input, output)) in rows.zip(outputs).take(batch.rows as usize).enumerate() {
            let row = batch.row(i);
            let position = row.position as usize;
            let hidden = self.window.map_or(0, |window| window.hidden(position));
            let sink_turns = turns(rope, position - hidden, dim);
            let turns = turns(rope, position, dim);
            let mut input = input[..self.qkv_heads() * dim].to_vec();
            if let (Some((over, eps)), Some([q_norm, k_norm])) = (self.qk_norm, norms) {
                let (queries, rest) = input.split_at_mut(self.heads * dim);
                let keys = &mut rest[..self.kv_heads * dim];
                for (x, weight) in [(queries, q_norm), (keys, k_norm)] {
                    let width = if over == QkNorm::Head { dim } else { x.len() };
                    x.chunks_exact_mut(width).for_each(|x| normalise(x, weight, eps));
                }
            }
            for (head, x) in input.chunks_exact_mut(dim).enumerate() {
                if head < self.heads + self.kv_heads {
                    pair_up(x, self.rotary);
                }
                if head < self.heads {
                    let views = query_heads(self.heads, self.window) / self.heads;
                    for (view, turns) in [&turns, &sink_turns].into_iter().take(views).enumerate() {
                        let out = &mut output[(view * self.heads + head) * dim..][..dim];
                        out.copy_from_slice(x);
                        rotate(out, turns);
                    }
                    continue;
                }
                if head < self.heads + self.kv_heads {
                    rotate(x, &turns);
                }
                let slot = tables.kv_slot(self.group, row.table, position);
                layout.store(cache, slot, head - self.heads, x);
            }
        }
    }
}

/// (cos, sin) of the angles of a position, for every pair of dims.
fn turns(table: &[f32], position: usize, dim: usize) -> Vec<[f32; 2]> {
    let entries = [position % FINE, FINE + position / FINE].map(|at| &table[at * dim..][..dim]);
    let [fine, coarse] = entries.map(|entry| entry.chunks_exact(2));
    fine.zip(coarse).map(|(f, c)| [c[0] * f[0] - c[1] * f[1], c[1] * f[0] + c[0] * f[1]]).collect()
}

/// Reorders a head so that the dims of a pair are half a head apart, see [`RopeKv::rotary`].
fn pair_up(x: &mut [f32], rotary: usize) {
    let half = x.len() / 2;
    x[rotary / 2..half + rotary / 2].rotate_left(rotary / 2);
}

fn rotate(x: &mut [f32], turns: &[[f32; 2]]) {
    let (low, high) = x.split_at_mut(turns.len());
    for ((a, b), [cos, sin]) in low.iter_mut().zip(high).zip(turns) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

fn normalise(x: &mut [f32], weight: &[f32], eps: f32) {
    let squares: f32 = x.iter().map(|v| v * v).sum();
    let factor = 1.0 / (squares / x.len() as f32 + eps).sqrt();
    for (v, w) in x.iter_mut().zip(weight) {
        *v *= factor * w;
    }
}

impl Kernel for RopeKv {
    fn shader(&self, tuning: Tuning) -> Shader {
        let values = context! {
            heads => self.heads,
            kv_heads => self.kv_heads,
            head_dim => self.head_dim,
            rotary => self.rotary,
            qkv_stride => row_stride(self.qkv_heads() * self.head_dim),
            query_stride => row_stride(query_heads(self.heads, self.window) * self.head_dim),
            int8 => self.kind == KvKind::Int8,
            groups => self.group.count,
            kv_group => self.group.index,
            sinks => self.window.map_or(0, |window| window.sinks),
            window => self.window.map_or(0, |window| window.tokens),
            norm => self.qk_norm.is_some(),
            norm_of_row => self.qk_norm.is_some_and(|(over, _)| over == QkNorm::Row),
            eps => self.qk_norm.map(|(_, eps)| literal(eps)),
            barriers => tuning.barriers,
            heads_per_group => self.heads_per_group(),
            lanes => LANES,
        };
        let norms = if self.qk_norm.is_some() { 2 } else { 0 };
        let bindings = [vec![Read; 4 + norms], vec![ReadWrite; 2]].concat();
        Shader::render("rope_kv", values, bindings)
    }

    fn grid(&self, tuning: Tuning, batch: &Batch) -> [u32; 3] {
        let heads = if tuning.barriers { self.heads_per_group() } else { LANES };
        [self.all_heads().div_ceil(heads) as u32, batch.rows, 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabulated_angles_add_up_to_the_exact_ones_at_every_position() {
        let (dim, context) = (64, 40_000);
        let inv_freq: Vec<f64> =
            (0..dim / 2).map(|d| 10_000f64.powf(-2.0 * d as f64 / dim as f64)).collect();
        let table = rope_table(&inv_freq, 1.0, dim, context);
        assert_eq!(table.len(), (FINE + context.div_ceil(FINE)) * dim);
        for position in [0, 1, 255, 256, 257, 4095, 39_999] {
            for (d, f) in inv_freq.iter().enumerate() {
                let at = |entry: usize| [0, 1].map(|i| f64::from(table[entry * dim + 2 * d + i]));
                let ([cf, sf], [cc, sc]) = (at(position % FINE), at(FINE + position / FINE));
                let (sin, cos) = (position as f64 * f).sin_cos();
                assert!((cc * cf - sc * sf - cos).abs() < 3e-7, "cos of {position}, dim {d}");
                assert!((sc * cf + cc * sf - sin).abs() < 3e-7, "sin of {position}, dim {d}");
            }
        }
    }
}
