//! Matrix products on the GPU against the CPU reference.

use crate::layouts::{KEPT, LAYOUTS};
use crate::support::{
    Bench, activations, bits, floats, nmse, random_matrix, seeded, step, uniform,
};
use fastrand::Rng;
use tabloom::{
    kernels::{Batch, Matmul, Regime, RowsOf, Tuning},
    layout::{HostMatrix, Layout, row_stride},
    model::MatmulOutput::{self, Add, AddSilu, Gelu, GeluGate, Silu, SiluGate, Store, Times},
};

/// Both sides sum the same products in f32, in different orders.
const LIMIT: f64 = 1e-11;
const EPS: f32 = 1e-5;

/// A product with its operands and the initial out.
struct Case {
    op: Matmul,
    batch: Batch,
    matrix: HostMatrix,
    x: Vec<f32>,
    norm: Vec<f32>,
    bias: Vec<f32>,
    before: Vec<f32>,
}

impl Case {
    /// Random operands for `rows` rows, and one more row of x and out that must not matter.
    fn new(rng: &mut Rng, op: Matmul, rows: usize) -> Case {
        let matrix = random_matrix(rng, op.layout, op.n, op.k);
        Case {
            batch: match op.rows {
                RowsOf::Rows => step(rows, 1, 100),
                RowsOf::LogitRows => step(rows + 3, rows, 100),
            },
            matrix,
            x: activations(rng, rows + 1, op.k),
            norm: uniform(rng, if op.norm.is_some() { op.k } else { 0 }),
            bias: uniform(rng, if op.bias { op.width } else { 0 }),
            before: uniform(rng, (rows + 1) * row_stride(op.width)),
            op,
        }
    }

    fn rows(&self) -> usize {
        self.op.rows.count(&self.batch) as usize
    }

    fn reference(&self) -> Vec<f32> {
        let mut out = self.before.clone();
        let Case { op, matrix, x, norm, bias, .. } = self;
        op.reference(0..op.columns(), self.rows(), x, matrix, norm, bias, &mut out);
        out
    }

    async fn run(&self, bench: &mut Bench, tuning: Tuning) -> Vec<f32> {
        let [x, norm, bias, before] =
            [&self.x, &self.norm, &self.bias, &self.before].map(|v| bits(v));
        let all = [&self.batch.words, &x, &self.matrix.words, &self.matrix.scales, &norm, &bias];
        let mut buffers: Vec<&[u32]> =
            all.into_iter().map(Vec::as_slice).filter(|words| !words.is_empty()).collect();
        buffers.push(&before);
        floats(&bench.run(&self.op, tuning, &self.batch, &buffers).await[0])
    }

    /// Splits out into the part that the product fills and the part that it must not change.
    fn split(&self, out: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let Matmul { n, first, width, output, .. } = self.op;
        let end = first + output.width(n);
        let filled = |i: usize| {
            let (row, column) = (i / row_stride(width), i % row_stride(width));
            row < self.rows() && (first..end).contains(&column)
        };
        let (filled, rest): (Vec<_>, Vec<_>) = (0..out.len()).partition(|i| filled(*i));
        (filled.iter().map(|i| out[*i]).collect(), rest.iter().map(|i| out[*i]).collect())
    }

    async fn check(&self, bench: &mut Bench, tunings: &[Tuning]) {
        let (expected, _) = self.split(&self.reference());
        let (_, untouched) = self.split(&self.before);
        for &tuning in tunings {
            if self.op.norm.is_some() && !self.op.regime.fuses_norm(tuning) {
                continue;
            }
            let (found, rest) = self.split(&self.run(bench, tuning).await);
            let error = nmse(&expected, &found);
            assert!(error < LIMIT, "{:?} {tuning:?} {} rows: {error:e}", self.op, self.rows());
            assert_eq!(rest, untouched, "{:?} {tuning:?}: wrote where it must not", self.op);
        }
    }
}

fn product(layout: Layout, (n, k): (usize, usize), output: MatmulOutput, rows: usize) -> Matmul {
    Matmul {
        layout,
        n,
        k,
        first: 0,
        width: output.width(n),
        norm: None,
        bias: false,
        scale: 1.0,
        cap: None,
        output,
        rows: RowsOf::Rows,
        regime: Regime::of(rows as u32),
        experts: None,
    }
}

/// The variant without barriers, and the best of the others: reduction does not depend on layouts and
/// outputs.
fn first_and_last(bench: &Bench) -> [Tuning; 2] {
    let tunings = bench.tunings();
    [tunings[0], tunings[tunings.len() - 1]]
}

#[test]
fn every_layout_without_barriers() {
    every_layout(|[without, _]| without);
}

#[test]
fn every_layout_by_the_kernels_of_graphics_hardware() {
    every_layout(|[_, best]| best);
}

fn every_layout(choose: fn([Tuning; 2]) -> Tuning) {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let tunings = [choose(first_and_last(&bench))];
        for layout in LAYOUTS {
            for rows in [1, 5, 70] {
                let op = product(layout, (131, 172), Store, rows);
                Case::new(&mut rng, op, rows).check(&mut bench, &tunings).await;
            }
        }
        for layout in KEPT {
            // Some layouts have blocks of 256 columns; others end within a record.
            let k = if matches!(layout.record(), Some((256, _))) { 512 } else { 172 };
            for rows in [5, 70] {
                let op = product(layout, (131, k), Store, rows);
                Case::new(&mut rng, op, rows).check(&mut bench, &tunings).await;
            }
        }
    });
}

#[test]
fn every_regime() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let tunings = bench.tunings();
        for rows in [1, 2, 3, 5, 16, 17, 70, 130] {
            let op = product(Layout::W4 { group: 32 }, (131, 172), Store, rows);
            Case::new(&mut rng, op, rows).check(&mut bench, &tunings).await;
        }
    });
}

#[test]
fn every_output_without_barriers() {
    every_output(|[without, _]| without);
}

#[test]
fn every_output_by_the_kernels_of_graphics_hardware() {
    every_output(|[_, best]| best);
}

fn every_output(choose: fn([Tuning; 2]) -> Tuning) {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let tunings = [choose(first_and_last(&bench))];
        let layout = Layout::W4 { group: 64 };
        for rows in [2, 70] {
            let norm = (rows <= 16).then_some(EPS);
            let op = |output| product(layout, (134, 172), output, rows);
            for op in [
                Matmul { bias: true, ..op(Store) },
                Matmul {
                    norm,
                    bias: true,
                    scale: 1.5,
                    cap: Some(4.0),
                    rows: RowsOf::LogitRows,
                    ..op(Store)
                },
                Matmul { scale: 0.3, ..op(Add) },
                Matmul { norm, ..op(Add) },
                Matmul { bias: true, ..op(AddSilu) },
                op(Silu),
                Matmul { norm, ..op(Times) },
                op(SiluGate),
                Matmul { norm, ..op(SiluGate) },
                op(GeluGate),
                Matmul { bias: true, ..op(Gelu) },
            ] {
                Case::new(&mut rng, op, rows).check(&mut bench, &tunings).await;
            }
        }
    });
}

#[test]
fn parts_of_a_split_matrix_fill_their_own_columns() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let tunings = first_and_last(&bench);
        for rows in [3, 20] {
            let layout = Layout::W8 { group: 64 };
            let part = |n, first, output| Matmul {
                first,
                width: 300,
                bias: output != SiluGate,
                ..product(layout, (n, 96), output, rows)
            };
            for op in [part(97, 0, Store), part(203, 97, Add), part(90, 255, SiluGate)] {
                Case::new(&mut rng, op, rows).check(&mut bench, &tunings).await;
            }
        }
    });
}

#[test]
fn more_workgroups_than_one_side_of_a_grid_takes() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let op = product(Layout::W4 { group: 32 }, (4 * 65_535 + 9, 32), Store, 1);
        let case = Case::new(&mut rng, op, 1);
        let tuning = *bench.tunings().last().expect("there is a variant");
        let (expected, _) = case.split(&case.reference());
        let (found, _) = case.split(&case.run(&mut bench, tuning).await);
        assert!(nmse(&expected, &found) < LIMIT);
    });
}

/// Batching must not change an answer.
#[test]
fn a_row_does_not_depend_on_how_many_there_are() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let shape = (100, 1056);
        let op = Matmul { norm: Some(EPS), ..product(Layout::W4 { group: 32 }, shape, Store, 16) };
        let mut case = Case::new(&mut rng, op, 16);
        let norm = case.norm.clone();
        for tuning in bench.tunings() {
            case.op.norm = tuning.barriers.then_some(EPS);
            case.norm = if tuning.barriers { norm.clone() } else { Vec::new() };
            (case.op.regime, case.batch) = (Regime::of(16), step(16, 1, 100));
            let all = case.run(&mut bench, tuning).await;
            for rows in [1, 2, 3, 8] {
                (case.op.regime, case.batch) = (Regime::of(rows as u32), step(rows, 1, 100));
                let some = case.run(&mut bench, tuning).await;
                let end = rows * row_stride(shape.0);
                assert_eq!(bits(&some[..end]), bits(&all[..end]), "{tuning:?} {rows} rows");
            }
        }
    });
}
