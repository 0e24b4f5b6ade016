//! Routing, expert products and their sum, on the GPU against the CPU reference.

use crate::support::{
    Bench, activations, bits, floats, nmse, random_matrix, seeded, step, uniform,
};
use fastrand::Rng;
use tabloom::{
    gpu::Subgroups,
    kernels::{Combine, ExpertRows, Group, Matmul, Regime, Route, RowsOf, Tuning},
    layout::{Codebook, HostMatrix, Layout, row_stride},
    model::MatmulOutput::{self, ClampedGate, SiluGate, Store},
};

/// Both sides sum the same products in f32, in different orders.
const LIMIT: f64 = 1e-11;
const TILE: usize = 64;
/// For kernels with a single variant.
const TUNING: Tuning = Tuning { subgroups: Subgroups::No, barriers: false };

/// Random routes: for each row, `active` different experts with weights. Expert 0 is never chosen, the
/// last one always.
fn routes(rng: &mut Rng, rows: usize, experts: usize, active: usize) -> Vec<u32> {
    let mut routes = Vec::new();
    for _ in 0..rows {
        let mut others: Vec<u32> = (1..experts as u32 - 1).collect();
        rng.shuffle(&mut others);
        others.truncate(active - 1);
        others.push(experts as u32 - 1);
        rng.shuffle(&mut others);
        routes.extend(others.into_iter().flat_map(|expert| [expert, rng.f32().to_bits()]));
    }
    routes
}

/// A product of experts, with its operands and the initial out.
struct Case {
    op: Matmul,
    rows: usize,
    experts: ExpertRows,
    routes: Vec<u32>,
    matrix: HostMatrix,
    x: Vec<f32>,
    norm: Vec<f32>,
    bias: Vec<f32>,
    before: Vec<f32>,
}

impl Case {
    fn new(rng: &mut Rng, op: Matmul, rows: usize) -> Case {
        let experts = op.experts.expect("a product of experts");
        let choices = rows * experts.active;
        let rows_of_x = if experts.each { choices } else { rows };
        Case {
            routes: routes(rng, rows, experts.count, experts.active),
            matrix: random_matrix(rng, op.layout, experts.held * op.n, op.k),
            x: activations(rng, rows_of_x, op.k),
            norm: uniform(rng, if op.norm.is_some() { op.k } else { 0 }),
            bias: uniform(rng, if op.bias { experts.count * op.n } else { 0 }),
            before: uniform(rng, choices * row_stride(op.width)),
            experts,
            rows,
            op,
        }
    }

    fn reference(&self) -> Vec<f32> {
        let mut out = self.before.clone();
        let Case { op, experts, routes, x, matrix, norm, bias, .. } = self;
        op.expert_reference(*experts, routes, x, matrix, norm, bias, &mut out);
        out
    }

    async fn run(&self, bench: &mut Bench, tuning: Tuning) -> Vec<f32> {
        let batch = step(self.rows, 1, 100);
        let ExpertRows { count: experts, active, .. } = self.experts;
        let mut routes = self.routes.clone();
        if ExpertRows::grouped(self.op.regime, tuning) {
            let group = Group { experts, active };
            let groups = vec![u32::MAX; Group::words(experts, active, self.rows)];
            let buffers = [&batch.words[..], &routes, &groups];
            let groups = bench.run(&group, tuning, &batch, &buffers).await.remove(0);
            self.check_groups(&groups);
            routes = groups;
        }
        let [x, norm, bias, before] =
            [&self.x, &self.norm, &self.bias, &self.before].map(|values| bits(values));
        let all = [&batch.words, &x, &self.matrix.words, &self.matrix.scales, &norm, &bias];
        let mut buffers: Vec<&[u32]> =
            all.into_iter().map(Vec::as_slice).filter(|words| !words.is_empty()).collect();
        buffers.extend([&routes[..], &before]);
        floats(&bench.run(&self.op, tuning, &batch, &buffers).await[0])
    }

    /// Checks that every choice is in one tile, that of its expert.
    fn check_groups(&self, groups: &[u32]) {
        let (choices, tiles) = groups.split_at(self.rows * self.experts.active);
        let mut found = vec![0; choices.len()];
        for tile in tiles.chunks_exact(3) {
            let (first, count) = (tile[1] as usize, tile[2] as usize);
            assert!(count <= TILE && tile[0] < self.experts.count as u32, "{tile:?}");
            for choice in &choices[first.min(choices.len())..][..count] {
                assert_eq!(self.routes[2 * *choice as usize], tile[0]);
                found[*choice as usize] += 1;
            }
        }
        assert!(found.iter().all(|count| *count == 1), "a choice is in no tile or in several");
    }

    async fn check(&self, bench: &mut Bench) {
        let expected = self.reference();
        let ExpertRows { first, held, .. } = self.experts;
        for tuning in bench.tunings() {
            if self.op.norm.is_some() && !self.op.regime.fuses_norm(tuning) {
                continue;
            }
            let found = self.run(bench, tuning).await;
            let stride = row_stride(self.op.width);
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for (choice, route) in self.routes.chunks_exact(2).enumerate() {
                let row = choice * stride..(choice + 1) * stride;
                let filled = if (first..first + held).contains(&(route[0] as usize)) {
                    row.start + self.op.width
                } else {
                    row.start
                };
                ours.extend(&found[row.start..filled]);
                theirs.extend(&expected[row.start..filled]);
                let (rest, before) = (&found[filled..row.end], &self.before[filled..row.end]);
                assert_eq!(bits(rest), bits(before), "{:?} {tuning:?}: wrote too much", self.op);
            }
            if theirs.is_empty() {
                continue; // A few rows may choose none of the bound experts.
            }
            let error = nmse(&theirs, &ours);
            assert!(error < LIMIT, "{:?} {tuning:?} {} rows: {error:e}", self.op, self.rows);
        }
    }
}

fn product(
    layout: Layout,
    (n, k): (usize, usize),
    output: MatmulOutput,
    rows: usize,
    experts: ExpertRows,
) -> Matmul {
    Matmul {
        layout,
        n,
        k,
        first: 0,
        width: output.width(n),
        norm: None,
        bias: true,
        scale: 1.0,
        cap: None,
        output,
        rows: RowsOf::Rows,
        regime: Regime::of(rows as u32),
        experts: Some(experts),
    }
}

#[test]
fn products_of_experts_in_every_regime() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let codebook = Layout::Codebook { codebook: Codebook::E2m1, group: 32 };
        for rows in [1, 3, 16, 17, 130] {
            let all = ExpertRows { count: 5, active: 2, first: 0, held: 5, each: false };
            let norm = (rows <= 16).then_some(1e-5);
            let up = product(codebook, (70, 96), ClampedGate, rows, all);
            let down = product(Layout::W4 { group: 32 }, (61, 172), Store, rows, all);
            // Experts 2 .. 4 of seven: the others are in other buffers.
            let some = ExpertRows { count: 7, active: 3, first: 2, held: 3, each: false };
            let part = product(Layout::F32, (34, 40), SiluGate, rows, some);
            for op in [
                Matmul { norm, ..up },
                Matmul { experts: Some(ExpertRows { each: true, ..all }), ..down },
                Matmul { bias: false, ..part },
            ] {
                Case::new(&mut rng, op, rows).check(&mut bench).await;
            }
        }
    });
}

#[test]
fn a_row_does_not_depend_on_those_beside_it() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let experts = ExpertRows { count: 6, active: 3, first: 0, held: 6, each: false };
        for (rows, fewer) in [(16, 3), (100, 40)] {
            let op = product(Layout::W8 { group: 32 }, (40, 96), Store, rows, experts);
            let case = Case::new(&mut rng, op, rows);
            let stride = experts.active * row_stride(case.op.width);
            for tuning in bench.tunings() {
                let all = case.run(&mut bench, tuning).await;
                // The last rows alone: all their choices move to other places in other tiles.
                let from = rows - fewer;
                let alone = Case {
                    rows: fewer,
                    routes: case.routes[from * 2 * experts.active..].to_vec(),
                    x: case.x[from * row_stride(case.op.k)..].to_vec(),
                    before: case.before[from * stride..].to_vec(),
                    op: case.op.clone(),
                    matrix: case.matrix.clone(),
                    norm: Vec::new(),
                    bias: case.bias.clone(),
                    experts,
                };
                let found = alone.run(&mut bench, tuning).await;
                assert_eq!(bits(&found), bits(&all[from * stride..]), "{tuning:?} {rows} rows");
            }
        }
    });
}

#[test]
fn the_largest_router_logits_are_chosen_and_of_equal_ones_the_first() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        for (experts, active) in [(1, 1), (4, 4), (8, 2), (32, 4), (128, 8), (257, 10)] {
            let rows = 12;
            let batch = step(rows, 1, 100);
            let stride = row_stride(experts);
            let mut logits = activations(&mut rng, rows, experts);
            logits.iter_mut().for_each(|x| *x *= 8.0);
            // Ties, and a row of equals.
            for row in 0..rows / 2 {
                logits[row * stride + rng.usize(..experts)] = logits[row * stride];
            }
            logits[3 * stride..][..experts].fill(-2.0);
            // NaN must not prevent the choice of other experts.
            logits[7 * stride + rng.usize(..experts)] = f32::NAN;
            let route = Route { experts, active };
            let plain = route.reference(&batch, &logits);
            for row in (0..rows).filter(|row| *row != 7) {
                let logits = &logits[row * stride..][..experts];
                let exact = |x: f32| f64::from(x).exp();
                let sum: f64 = logits.iter().map(|x| exact(*x)).sum();
                let mut left: Vec<usize> = (0..experts).collect();
                for chosen in plain[2 * row * active..][..2 * active].chunks_exact(2) {
                    // The first of the greatest that are left.
                    let best = left.iter().rev().copied();
                    let best = best.reduce(|a, b| if logits[b] >= logits[a] { b } else { a });
                    assert_eq!(Some(chosen[0] as usize), best, "{route:?} row {row}");
                    left.retain(|expert| Some(*expert) != best);
                    let expected = exact(logits[chosen[0] as usize]) / sum;
                    let found = f64::from(f32::from_bits(chosen[1]));
                    assert!((found / expected - 1.0).abs() < 1e-5, "{found} for {expected}");
                }
            }
            let out = vec![u32::MAX; plain.len()];
            let buffers = [&batch.words[..], &bits(&logits), &out];
            let found = bench.run(&route, TUNING, &batch, &buffers).await.remove(0);
            for (row, pairs) in found.chunks_exact(2 * active).enumerate() {
                for (found, plain) in pairs.chunks(2).zip(plain[2 * row * active..].chunks(2)) {
                    assert_eq!(found[0], plain[0], "{route:?} row {row}");
                    let [found, plain] = [found[1], plain[1]].map(f32::from_bits);
                    let near = (found - plain).abs() <= 1e-5 * plain.abs();
                    assert!(near || row == 7, "{found} for {plain}");
                }
            }
        }
    });
}

#[test]
fn expert_outputs_are_added_with_their_weights() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        for (width, active, normalise, scale) in [(172, 2, true, 1.0), (300, 5, false, 0.4)] {
            let rows = 23;
            let batch = step(rows, 1, 100);
            let combine = Combine { active, width, normalise, scale };
            let routes = routes(&mut rng, rows, 9, active);
            let chosen = activations(&mut rng, rows * active, width);
            let before = activations(&mut rng, rows, width);
            let mut plain = before.clone();
            combine.reference(&batch, &routes, &chosen, &mut plain);
            let stride = row_stride(width);
            let exact: Vec<f32> = (0..rows * stride)
                .map(|at| {
                    let choices = at / stride * active..(at / stride + 1) * active;
                    let weight = |choice: usize| f64::from(f32::from_bits(routes[2 * choice + 1]));
                    let total: f64 = choices.clone().map(weight).sum();
                    let y = |choice| f64::from(chosen[choice * stride + at % stride]);
                    let sum: f64 = choices.map(|choice| weight(choice) * y(choice)).sum();
                    let share = if normalise { 1.0 / total } else { 1.0 };
                    (f64::from(before[at]) + sum * share * f64::from(scale)) as f32
                })
                .collect();
            assert!(nmse(&exact, &plain) < LIMIT);
            let buffers = [&batch.words[..], &routes, &bits(&chosen), &bits(&before)];
            let found = floats(&bench.run(&combine, TUNING, &batch, &buffers).await[0]);
            assert!(nmse(&exact, &found) < LIMIT, "{combine:?}");
        }
    });
}
