//! Matrix products: out = \[out +\] cap(scale · (W · (rms_norm(x) · g) + bias)).

use std::{f32::consts::PI, ops::Range};

use minijinja::context;

use super::{Batch, Bindings, Kernel, RowsOf, Tuning, capped, fold, literal, norm, weights};
use crate::{
    gpu::Shader,
    layout::{HostMatrix, Layout, row_stride},
    model::MatmulOutput,
};

/// A matrix product over the rows of a step.
///
/// Activations are f32 `[rows][row_stride(columns)]`, padded with zeros. Bindings in order: step, x,
/// words, scales (layouts that have them), norm weight `[k]` f32 (with `norm`), bias f32 (with `bias`),
/// out.
///
/// A matrix that is split by rows over several buffers takes one product per part. In a gated product,
/// a part holds gate rows and then the matching up rows; where these differ in layout or in the order
/// of columns, see [`MatmulOutput::apart`].
#[derive(Clone, Debug, PartialEq)]
pub struct Matmul {
    pub layout: Layout,
    /// Rows of the bound matrix.
    pub n: usize,
    pub k: usize,
    /// The first column of out, and the first element of the bias, for the bound matrix.
    pub first: usize,
    /// Columns of out, those of other parts included.
    pub width: usize,
    /// Epsilon of an RMS norm of x, fused into the product; only where [`Regime::fuses_norm`].
    pub norm: Option<f32>,
    pub bias: bool,
    pub scale: f32,
    /// Replaces results by cap · tanh(result / cap).
    pub cap: Option<f32>,
    pub output: MatmulOutput,
    pub rows: RowsOf,
    pub regime: Regime,
    /// The bound matrix has `n` rows for each of some experts; the bias, `n` for each of all.
    pub experts: Option<ExpertRows>,
}

/// A product of each row with each of its chosen experts.
///
/// Choices are numbered `row·active + place`; out has one row per choice. A further binding follows
/// bias: groups, where [`ExpertRows::grouped`]; else routes (of [`super::Route`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertRows {
    pub count: usize,
    /// Experts chosen per row.
    pub active: usize,
    /// The first bound expert.
    pub first: usize,
    /// The number of bound experts.
    pub held: usize,
    /// x has one row per choice; else one per row of the step.
    pub each: bool,
}

impl ExpertRows {
    /// Whether products use the tiles of [`super::Group`]; else each choice is computed alone.
    pub fn grouped(regime: Regime, tuning: Tuning) -> bool {
        tuning.barriers && regime == Regime::Many
    }

    /// The row of x of a choice.
    fn row(&self, choice: usize) -> usize {
        if self.each { choice } else { choice / self.active }
    }
}

/// The number of rows of x that a product is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Regime {
    /// At most this many rows: 1, 2, 4, 8 or 16. Each weight is read once for all of them.
    Few(u32),
    /// Any number of rows.
    Many,
}

impl Regime {
    /// All regimes, by number of rows.
    pub const ALL: [Regime; 6] = [
        Regime::Few(1),
        Regime::Few(2),
        Regime::Few(4),
        Regime::Few(8),
        Regime::Few(16),
        Regime::Many,
    ];

    /// The regime for a number of rows.
    pub fn of(rows: u32) -> Regime {
        match rows {
            0..=16 => Regime::Few(rows.max(1).next_power_of_two()),
            _ => Regime::Many,
        }
    }

    /// Whether the product can normalise x itself; else [`super::Norm`] has to run before it.
    pub fn fuses_norm(self, tuning: Tuning) -> bool {
        tuning.barriers && self != Regime::Many
    }
}

/// Rows of W, and of x, per workgroup of `matmul.wgsl`.
pub(super) const TILE: u32 = 64;
/// Threads per workgroup of `matvec_lane.wgsl`.
const LANES: u32 = 16;
/// Rows of x that a thread of `matvec_lane.wgsl` takes at most.
const LANE_ROWS: u32 = 4;

impl Matmul {
    fn gated(&self) -> bool {
        self.output.gates()
    }

    /// Columns of out that the bound matrix fills.
    pub fn columns(&self) -> usize {
        if self.gated() { self.n / 2 } else { self.n }
    }

    /// Groups of four rows of W whose results are written together.
    fn quads(&self) -> u32 {
        self.columns().div_ceil(if self.gated() { 2 } else { 4 }) as u32
    }

    fn lane_rows(&self) -> u32 {
        match self.regime {
            _ if self.experts.is_some() => 1,
            Regime::Few(rows) => rows.min(LANE_ROWS),
            Regime::Many => LANE_ROWS,
        }
    }

    /// Rows of out.
    fn count(&self, batch: &Batch) -> u32 {
        let active = self.experts.map_or(1, |experts| experts.active as u32);
        self.rows.count(batch) * active
    }
}

impl Kernel for Matmul {
    fn shader(&self, tuning: Tuning) -> Shader {
        assert!(self.norm.is_none() || self.regime.fuses_norm(tuning), "{self:?} with a norm");
        let biased = self.bias && self.experts.is_none();
        let plain = !biased && self.scale == 1.0 && self.cap.is_none();
        assert!(!self.gated() || plain, "{self:?}: a gated product takes no bias, scale or cap");
        let bindings = Bindings::read(&["step", "x", "words"])
            .and("scales", self.layout.record().is_some())
            .and("norm", self.norm.is_some())
            .and("bias", self.bias)
            .and("routes", self.experts.is_some())
            .write("out");
        let (name, rows) = match (tuning.barriers, self.regime) {
            (false, _) => ("matvec_lane", self.lane_rows()),
            (true, Regime::Few(_)) if self.experts.is_some() => ("matvec", 1),
            (true, Regime::Few(rows)) => ("matvec", rows),
            (true, Regime::Many) => ("matmul", TILE),
        };
        let experts = self.experts.map(|ExpertRows { active, first, held, each, .. }| {
            context! { active, first, held, each, rows => self.n }
        });
        let values = context! {
            at => bindings.numbers(),
            weights => weights(self.layout, self.k),
            output => context! {
                gated => self.gated(),
                gelu => matches!(self.output, MatmulOutput::GeluGate | MatmulOutput::Gelu),
                clamped => self.output == MatmulOutput::ClampedGate,
                silu => matches!(self.output, MatmulOutput::Silu | MatmulOutput::AddSilu),
                scale => (self.scale != 1.0).then(|| literal(self.scale)),
                add => matches!(self.output, MatmulOutput::Add | MatmulOutput::AddSilu),
                times => self.output == MatmulOutput::Times,
                bias => self.bias,
                columns => self.columns(),
                first => self.first,
                stride => row_stride(self.width),
            },
            cap => self.cap.map(literal),
            number => "vec4<f32>",
            reduce => context! {
                values => rows + if self.norm.is_some() { rows.div_ceil(4) } else { 0 },
            },
            k => self.k,
            norm => self.norm.is_some(),
            eps => self.norm,
            rows,
            count => self.rows.function(),
            subgroups => tuning.subgroups(),
            experts,
        };
        Shader::render(name, values, bindings.access())
    }

    fn grid(&self, tuning: Tuning, batch: &Batch) -> [u32; 3] {
        let rows = self.count(batch);
        match (tuning.barriers, self.regime) {
            (true, Regime::Few(_)) if self.experts.is_some() => fold(self.quads(), rows),
            (false, _) => fold(self.quads().div_ceil(LANES), rows.div_ceil(self.lane_rows())),
            (true, Regime::Few(most)) => {
                assert!(rows <= most, "{rows} rows for {self:?}");
                fold(self.quads(), rows.min(1))
            }
            (true, Regime::Many) => {
                let tiles = match self.experts {
                    Some(experts) => rows / TILE + experts.count as u32,
                    None => rows.div_ceil(TILE),
                };
                [self.quads().div_ceil(TILE / 4), tiles, 1]
            }
        }
    }
}

impl Matmul {
    /// CPU reference, for the first `rows` rows of x and some of the [`Matmul::columns`]; absent operands are
    /// empty.
    #[allow(clippy::too_many_arguments)] // the operands of a product
    pub fn reference(
        &self,
        columns: Range<usize>,
        rows: usize,
        x: &[f32],
        matrix: &HostMatrix,
        norm_weight: &[f32],
        bias: &[f32],
        out: &mut [f32],
    ) {
        let rows: Vec<_> = (0..rows).map(|row| (row, row)).collect();
        let bias = &bias[self.first.min(bias.len())..];
        self.multiply(columns, &rows, 0, x, matrix, norm_weight, bias, out);
    }

    /// CPU reference for the expert choices of `routes`, all columns.
    #[allow(clippy::too_many_arguments)] // the operands of a product
    pub fn expert_reference(
        &self,
        experts: ExpertRows,
        routes: &[u32],
        x: &[f32],
        matrix: &HostMatrix,
        norm_weight: &[f32],
        bias: &[f32],
        out: &mut [f32],
    ) {
        for held in 0..experts.held {
            let expert = experts.first + held;
            let routes = routes.chunks_exact(2).enumerate();
            let chosen = routes.filter(|(_, route)| route[0] as usize == expert);
            let rows: Vec<_> = chosen.map(|(choice, _)| (experts.row(choice), choice)).collect();
            if !rows.is_empty() {
                let bias = if self.bias { &bias[expert * self.n..] } else { bias };
                let first = held * self.n;
                self.multiply(0..self.columns(), &rows, first, x, matrix, norm_weight, bias, out);
            }
        }
    }

    /// Multiplies rows of x, one per row of out, by `n` rows of a matrix.
    #[allow(clippy::too_many_arguments)] // the operands of a product
    fn multiply(
        &self,
        columns: Range<usize>,
        rows: &[(usize, usize)],
        first: usize,
        x: &[f32],
        matrix: &HostMatrix,
        norm_weight: &[f32],
        bias: &[f32],
        out: &mut [f32],
    ) {
        let mut rows_of_x = vec![0.0; rows.len() * self.k];
        for (row, (from, _)) in rows_of_x.chunks_exact_mut(self.k).zip(rows) {
            let x = &x[from * row_stride(self.k)..];
            match self.norm {
                Some(eps) => norm::rms(&x[..self.k], norm_weight, eps, row),
                None => row.copy_from_slice(&x[..self.k]),
            }
        }
        let mut weights = vec![0.0; self.k];
        let mut products = vec![[0.0; 2]; rows.len()];
        for column in columns {
            // A gate row is computed with its up row, any other row alone.
            for (side, n) in (column..self.n).step_by(self.columns()).enumerate() {
                matrix.dequantise_row(first + n, &mut weights);
                let bias = if self.bias { bias[n] } else { 0.0 };
                for (products, x) in products.iter_mut().zip(rows_of_x.chunks_exact(self.k)) {
                    products[side] = dot(&weights, x) + bias;
                }
            }
            for ((_, row), &[y, up]) in rows.iter().zip(&products) {
                let out = &mut out[row * row_stride(self.width) + self.first + column];
                let y = capped(self.scale * y, self.cap);
                *out = match self.output {
                    MatmulOutput::Store => y,
                    MatmulOutput::Add => *out + y,
                    MatmulOutput::AddSilu => *out + silu(y),
                    MatmulOutput::Silu => silu(y),
                    MatmulOutput::Times => *out * y,
                    MatmulOutput::SiluGate => silu(y) * up,
                    MatmulOutput::GeluGate => gelu(y) * up,
                    MatmulOutput::Gelu => gelu(y),
                    MatmulOutput::ClampedGate => {
                        let gate = y.min(7.0);
                        gate / (1.0 + (-1.702 * gate).exp()) * (up.clamp(-7.0, 7.0) + 1.0)
                    }
                };
            }
        }
    }
}

fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// GELU, tanh approximation.
fn gelu(x: f32) -> f32 {
    let z = (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x);
    0.5 * x * (1.0 + z.tanh())
}

/// Σ a·b in lanes that the compiler can vectorise.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        sums = std::array::from_fn(|i| sums[i] + a[i] * b[i]);
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}
