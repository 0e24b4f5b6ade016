//! Rotation, KV write and paged attention on the GPU against plain Rust and a naive f64 softmax.
#![cfg(not(target_arch = "wasm32"))]

mod support;

use half::f16;
use support::{Bench, bits, floats, nmse, uniform};
use tabloom::{
    kernels::{
        Attention, AttentionMerge, Batch, BlockTables, Kernel, KvLayout, RopeKv, Tuning,
        batch::Row, rope_table,
    },
    layout::row_stride,
    step::{BLOCK_SIZE, Capacity, RowTokens, SeqPlan, StepPlan},
};

/// Two halves that are NaN: what the cache holds wherever no kernel may look.
const NAN: u32 = 0x7E00_7E00;

/// The variants that differ for these kernels.
fn tunings() -> [Tuning; 2] {
    [true, false].map(|barriers| Tuning { subgroups: false, barriers })
}

/// The heads of a layer.
#[derive(Clone, Copy, Debug)]
struct Heads {
    heads: usize,
    kv_heads: usize,
    dim: usize,
    window: Option<usize>,
}

impl Heads {
    const fn new(heads: usize, kv_heads: usize, dim: usize) -> Heads {
        Heads { heads, kv_heads, dim, window: None }
    }

    fn layout(self) -> KvLayout {
        KvLayout { kv_heads: self.kv_heads, head_dim: self.dim }
    }

    fn stride(self) -> usize {
        row_stride(self.heads * self.dim)
    }

    fn attention(self, split: bool) -> Attention {
        let Heads { heads, kv_heads, dim: head_dim, window } = self;
        Attention { heads, kv_heads, head_dim, window, split }
    }

    /// Encodes sequences of (first position, rows) with shuffled blocks of one pool.
    fn step(self, rng: &mut fastrand::Rng, seqs: &[(usize, usize)]) -> Step {
        let capacity = capacity(seqs);
        let mut pool: Vec<u32> = (0..capacity.blocks as u32).collect();
        rng.shuffle(&mut pool);
        let plan = |(slot, (start, rows)): (usize, &(usize, usize))| SeqPlan {
            slot: slot as u32,
            tokens: RowTokens::Known(vec![0; *rows]),
            start: *start as u32,
            blocks: pool.split_off(pool.len() - (start + rows).div_ceil(BLOCK_SIZE)),
            sample: None,
            ..Default::default()
        };
        let seqs = seqs.iter().enumerate().map(plan).collect();
        self.encode(&StepPlan { seqs, ..Default::default() }, capacity)
    }

    fn encode(self, plan: &StepPlan, capacity: Capacity) -> Step {
        let tile_rows = Attention::tile_rows(self.heads, self.kv_heads);
        let tables = BlockTables::of(plan, &capacity).expect("valid tables");
        let batch = Batch::encode(plan, &capacity, &tables, tile_rows).expect("a valid plan");
        Step { batch, tables, capacity }
    }
}

/// A step as the kernels are given it.
struct Step {
    batch: Batch,
    tables: BlockTables,
    capacity: Capacity,
}

impl Step {
    fn rows(&self) -> impl Iterator<Item = Row> {
        (0..self.batch.rows as usize).map(|i| self.batch.row(i))
    }

    fn kv_slot(&self, row: Row, position: usize) -> usize {
        self.tables.kv_slot(row.table, position)
    }
}

fn capacity(seqs: &[(usize, usize)]) -> Capacity {
    let blocks: usize = seqs.iter().map(|(start, rows)| (start + rows).div_ceil(BLOCK_SIZE)).sum();
    Capacity {
        rows: seqs.iter().map(|(_, rows)| rows).sum(),
        seqs: seqs.len(),
        logit_rows: seqs.len(),
        blocks: blocks + 3,
        context: seqs.iter().map(|(start, rows)| start + rows).max().unwrap_or(0),
        vocab: 1,
        window: None,
    }
}

/// Random queries and a cache with keys and values where the batch's rows may look.
struct Data {
    query: Vec<f32>,
    cache: Vec<u32>,
}

impl Data {
    fn new(rng: &mut fastrand::Rng, shape: Heads, step: &Step) -> Data {
        let layout = shape.layout();
        let mut cache = vec![NAN; step.capacity.blocks * layout.block_words()];
        for row in step.rows() {
            for position in first_seen(shape, row.position as usize)..=row.position as usize {
                let slot = step.kv_slot(row, position);
                for head in 0..shape.kv_heads {
                    for at in [layout.key(slot, head), layout.value(slot, head)] {
                        for word in &mut cache[at..at + layout.token_words()] {
                            if *word == NAN {
                                *word = random_halves(rng);
                            }
                        }
                    }
                }
            }
        }
        // Queries of this size give scores that differ by several units: a softmax worth the name.
        let mut query = vec![f32::NAN; step.batch.rows as usize * shape.stride()];
        for row in query.chunks_exact_mut(shape.stride()) {
            row[..shape.heads * shape.dim].fill_with(|| rng.f32() * 6.0 - 3.0);
        }
        Data { query, cache }
    }
}

fn random_halves(rng: &mut fastrand::Rng) -> u32 {
    let mut half = || u32::from(f16::from_f32(rng.f32() * 2.0 - 1.0).to_bits());
    half() | half() << 16
}

fn first_seen(shape: Heads, position: usize) -> usize {
    (position + 1).saturating_sub(shape.window.unwrap_or(usize::MAX))
}

fn half_at(cache: &[u32], word: usize, d: usize) -> f64 {
    f16::from_bits((cache[word + d / 2] >> (16 * (d % 2))) as u16).to_f64()
}

/// The definition, in f64, head by head. Padding stays as [`run`] fills it.
fn naive(shape: Heads, step: &Step, data: &Data) -> Vec<f32> {
    let Heads { heads, kv_heads, dim, .. } = shape;
    let layout = shape.layout();
    let mut output = vec![0.0; step.batch.rows as usize * shape.stride()];
    for (i, row) in step.rows().enumerate() {
        for head in 0..heads {
            let at = i * shape.stride() + head * dim;
            let kv_head = head * kv_heads / heads;
            let seen: Vec<usize> = (first_seen(shape, row.position as usize)
                ..=row.position as usize)
                .map(|position| step.kv_slot(row, position))
                .collect();
            let scores: Vec<f64> = seen
                .iter()
                .map(|slot| {
                    let key = layout.key(*slot, kv_head);
                    let product = |d| f64::from(data.query[at + d]) * half_at(&data.cache, key, d);
                    (0..dim).map(product).sum::<f64>() / (dim as f64).sqrt()
                })
                .collect();
            let top = scores.iter().copied().fold(f64::MIN, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - top).exp()).sum();
            for d in 0..dim {
                let weighted = |(score, slot): (&f64, &usize)| {
                    (score - top).exp() * half_at(&data.cache, layout.value(*slot, kv_head), d)
                };
                let value: f64 = scores.iter().zip(&seen).map(weighted).sum();
                output[at + d] = (value / sum) as f32;
            }
        }
    }
    output
}

/// Attention on the GPU: directly, or in segments that are merged.
async fn run(
    bench: &mut Bench,
    tuning: Tuning,
    shape: Heads,
    step: &Step,
    data: &Data,
    split: bool,
) -> Vec<f32> {
    let Step { batch, tables, .. } = step;
    let kernel = shape.attention(split);
    let query = bits(&data.query);
    let inputs = [&batch.words[..], &tables.words, &query, &data.cache];
    let zeros = vec![0; query.len()];
    if !split {
        let outputs = bench.run(&kernel, tuning, batch, &[&inputs[..], &[&zeros]].concat()).await;
        return floats(&outputs[0]);
    }
    let capacity =
        Capacity { rows: batch.rows as usize, context: batch.longest as usize, ..capacity(&[]) };
    // What the kernel leaves alone must not be read by the merge.
    let partials = vec![f32::NAN.to_bits(); kernel.partial_words(&capacity)];
    let partials =
        bench.run(&kernel, tuning, batch, &[&inputs[..], &[&partials]].concat()).await.remove(0);
    let Heads { heads, dim: head_dim, window, .. } = shape;
    let merge = AttentionMerge { heads, head_dim, window };
    let outputs = bench.run(&merge, tuning, batch, &[&batch.words, &partials, &zeros]).await;
    floats(&outputs[0])
}

/// Random shapes around the boundaries of blocks, steps and segments.
fn random_seqs(rng: &mut fastrand::Rng, rows: usize) -> Vec<(usize, usize)> {
    let starts = [0, 1, 15, 16, 17, 63, 64, 100, 127, 128, 129, 255, 300, 511, 699];
    let mut left = rows;
    let mut seqs = Vec::new();
    while left > 0 {
        let count = if rng.bool() { 1 } else { rng.usize(1..=left.min(40)) };
        seqs.push((starts[rng.usize(..starts.len())].min(699 - count.min(699)), count));
        left -= count;
    }
    seqs
}

const SHAPES: [Heads; 9] = [
    Heads::new(2, 2, 24),
    Heads { window: Some(16), ..Heads::new(4, 2, 48) },
    Heads::new(4, 1, 64),
    Heads { window: Some(300), ..Heads::new(8, 1, 80) },
    Heads::new(14, 2, 96),
    Heads { window: Some(100), ..Heads::new(8, 2, 128) },
    Heads::new(2, 1, 256),
    Heads::new(3, 3, 32),
    Heads::new(20, 1, 8),
];

#[test]
fn attention_equals_the_definition() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for shape in SHAPES {
            for rows in [3, 16, 50] {
                let seqs = random_seqs(&mut rng, rows);
                let step = shape.step(&mut rng, &seqs);
                let data = Data::new(&mut rng, shape, &step);
                let expected = naive(shape, &step, &data);

                let mut plain = vec![0.0; expected.len()];
                shape.attention(false).reference(
                    &step.batch,
                    &step.tables,
                    &data.query,
                    &data.cache,
                    &mut plain,
                );
                let error = nmse(&expected, &plain);
                assert!(error < 1e-11, "plain Rust: {error:e} {shape:?} {seqs:?}");

                for tuning in tunings() {
                    let found = run(&mut bench, tuning, shape, &step, &data, false).await;
                    let error = nmse(&expected, &found);
                    assert!(error < 1e-11, "{error:e} {shape:?} {seqs:?} {tuning:?}");
                    // Not for every shape: software adapters take seconds to compile a pipeline.
                    let merged = shape.window.is_some() || shape.dim == 64;
                    if !merged || !tuning.barriers || step.batch.rows > 16 {
                        continue;
                    }
                    let split = run(&mut bench, tuning, shape, &step, &data, true).await;
                    assert_eq!(bits(&found), bits(&split), "split {shape:?} {seqs:?} {tuning:?}");
                }
            }
        }
    });
}

/// The rows of a batch, one sequence alone.
fn alone(step: &Step, shape: Heads, data: &Data, rows: std::ops::Range<usize>) -> (Step, Data) {
    let first = step.batch.row(rows.start);
    let end = step.batch.row(rows.end - 1).position as usize + 1;
    let blocks =
        (0..end.div_ceil(BLOCK_SIZE)).map(|i| step.tables.block(first.table, i) as u32).collect();
    let seq = SeqPlan {
        slot: 0,
        tokens: RowTokens::Known(vec![0; rows.len()]),
        start: first.position,
        blocks,
        sample: None,
        ..Default::default()
    };
    let blocks = data.cache.len() / shape.layout().block_words();
    let capacity = Capacity {
        rows: rows.len(),
        seqs: 1,
        logit_rows: 1,
        blocks,
        context: end,
        vocab: 1,
        window: None,
    };
    let plan = StepPlan { seqs: vec![seq], ..Default::default() };
    let alone = shape.encode(&plan, capacity);
    let query = data.query[rows.start * shape.stride()..rows.end * shape.stride()].to_vec();
    (alone, Data { query, cache: data.cache.clone() })
}

#[test]
fn a_row_has_the_same_bits_alone_in_a_batch_and_at_any_cut_of_its_chunk() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let windowed = Heads { window: Some(150), ..Heads::new(6, 2, 40) };
        for shape in [Heads::new(8, 2, 64), windowed] {
            // Fifteen decode rows and a chunk that crosses blocks, steps and segments.
            let mut seqs: Vec<_> = (0..15).map(|_| (rng.usize(0..600), 1)).collect();
            seqs.insert(rng.usize(..15), (100, 45));
            let step = shape.step(&mut rng, &seqs);
            let data = Data::new(&mut rng, shape, &step);
            for tuning in tunings() {
                let all = run(&mut bench, tuning, shape, &step, &data, false).await;
                let mut first = 0;
                for (_, count) in &seqs {
                    let cut = if *count > 1 { rng.usize(1..*count) } else { 0 };
                    for rows in [first..first + cut, first + cut..first + count] {
                        if rows.is_empty() {
                            continue;
                        }
                        let (step, data) = alone(&step, shape, &data, rows.clone());
                        let split = shape.attention(false).splits(tuning, &step.batch);
                        let found = run(&mut bench, tuning, shape, &step, &data, split).await;
                        let expected = &all[rows.start * shape.stride()..][..found.len()];
                        assert_eq!(bits(expected), bits(&found), "rows {rows:?} {tuning:?}");
                    }
                    first += count;
                }
            }
        }
    });
}

#[test]
fn only_small_steps_with_long_contexts_are_split_and_their_partials_fit() {
    let mut rng = fastrand::Rng::with_seed(0);
    let barriers = Tuning { subgroups: false, barriers: true };
    let lanes = Tuning { subgroups: false, barriers: false };
    let shape = Heads::new(32, 8, 128);
    let attention = shape.attention(false);
    let mut splits = |tuning, seqs: &[(usize, usize)]| {
        attention.splits(tuning, &shape.step(&mut rng, seqs).batch)
    };
    assert!(splits(barriers, &[(256, 1)]));
    assert!(splits(barriers, &[(3, 1), (1000, 15)]));
    assert!(!splits(barriers, &[(255, 1)]));
    assert!(!splits(barriers, &[(1000, 17)]));
    assert!(!splits(lanes, &[(1000, 1)]));
    let room = |context| attention.partial_words(&Capacity { context, rows: 512, ..capacity(&[]) });
    assert_eq!(room(256), 2 * 16 * 32 * 130);
    assert_eq!(room(1 << 17), 4 << 20);
    let direct = Kernel::grid(&attention, barriers, &shape.step(&mut rng, &[(1000, 1)]).batch);
    let split =
        Kernel::grid(&shape.attention(true), barriers, &shape.step(&mut rng, &[(1000, 1)]).batch);
    assert_eq!((direct, split), ([1, 8, 1], [1, 8, 8]));
}

/// One row of queries, keys and values as f64 maths has them: normalised, then rotated.
fn rotated(x: &[f32], weight: Option<&[f32]>, position: usize, inv_freq: &[f64]) -> Vec<f32> {
    let mut x: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
    if let Some(weight) = weight {
        let mean = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
        for (v, w) in x.iter_mut().zip(weight) {
            *v *= f64::from(*w) / (mean + 1e-6).sqrt();
        }
    }
    let half = x.len() / 2;
    for (d, f) in inv_freq.iter().enumerate() {
        let (sin, cos) = (position as f64 * f).sin_cos();
        (x[d], x[d + half]) = (x[d] * cos - x[d + half] * sin, x[d + half] * cos + x[d] * sin);
    }
    x.iter().map(|v| *v as f32).collect()
}

#[test]
fn rope_kv_normalises_rotates_and_writes_only_the_rows_slots() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for (shape, qk_norm) in [
            (Heads::new(3, 1, 24), None),
            (Heads::new(4, 2, 64), Some(1e-6)),
            (Heads::new(2, 1, 80), Some(1e-6)),
            (Heads::new(5, 5, 128), None),
            (Heads::new(2, 2, 256), Some(1e-6)),
        ] {
            let Heads { heads, kv_heads, dim, .. } = shape;
            let seqs = [(0, 5), (250, 20), (4095, 1), (9000, 3)];
            let Step { batch, capacity, .. } = shape.step(&mut rng, &seqs);
            let inv_freq: Vec<f64> =
                (0..dim / 2).map(|d| 1e6f64.powf(-2.0 * d as f64 / dim as f64)).collect();
            let table = rope_table(&inv_freq, capacity.context);
            let stride = row_stride((heads + 2 * kv_heads) * dim);
            let rows = batch.rows as usize;
            let mut qkv = uniform(&mut rng, rows * stride);
            qkv[0] = 1e6; // a query may exceed the range of halves, a value is clamped
            qkv[(heads + kv_heads) * dim] = -1e6;
            let norms = [uniform(&mut rng, dim), uniform(&mut rng, dim)];
            let weights = qk_norm.map(|_| [&norms[0][..], &norms[1][..]]);
            let layout = shape.layout();

            // The definition.
            let mut query = vec![0.0; rows * shape.stride()];
            let mut cache = vec![NAN; capacity.blocks * layout.block_words()];
            for i in 0..rows {
                let row = batch.row(i);
                let position = row.position as usize;
                for head in 0..heads + 2 * kv_heads {
                    let x = &qkv[i * stride + head * dim..][..dim];
                    let weight = weights.map(|w| w[usize::from(head >= heads)]);
                    if head < heads {
                        let at = i * shape.stride() + head * dim;
                        query[at..at + dim]
                            .copy_from_slice(&rotated(x, weight, position, &inv_freq));
                        continue;
                    }
                    let (y, at) = match head - heads {
                        k if k < kv_heads => (
                            rotated(x, weight, position, &inv_freq),
                            layout.key(row.slot as usize, k),
                        ),
                        v => (x.to_vec(), layout.value(row.slot as usize, v - kv_heads)),
                    };
                    for (word, pair) in cache[at..].iter_mut().zip(y.chunks(2)) {
                        let half =
                            |v: f32| u32::from(f16::from_f32(v.clamp(-65504.0, 65504.0)).to_bits());
                        *word = half(pair[0]) | half(pair[1]) << 16;
                    }
                }
            }

            let kernel = RopeKv { heads, kv_heads, head_dim: dim, qk_norm };
            let check = |name: &str, found_query: &[f32], found_cache: &[u32]| {
                let error = nmse(&query, found_query);
                assert!(error < 1e-11, "{name}: query {error:e} {kernel:?}");
                // Equal where nothing may be written; elsewhere the halves agree to their rounding.
                let written = |words: &[u32]| -> Vec<f32> {
                    let halves = words.iter().flat_map(|w| [*w as u16, (*w >> 16) as u16]);
                    let value = |h| f16::from_bits(h).to_f32();
                    halves.map(value).map(|v| if v.is_nan() { 0.0 } else { v }).collect()
                };
                let nans = |words: &[u32]| words.iter().filter(|w| **w == NAN).count();
                assert_eq!(nans(&cache), nans(found_cache), "{name}: stray write, {kernel:?}");
                for (a, b) in written(&cache).iter().zip(written(found_cache)) {
                    let step = a.abs() / 1024.0 + 1e-7;
                    assert!((a - b).abs() <= step, "{name}: {a} in the cache is {b}, {kernel:?}");
                }
            };

            let mut plain_query = vec![0.0; query.len()];
            let mut plain_cache = vec![NAN; cache.len()];
            kernel.reference(&batch, &qkv, &table, weights, &mut plain_query, &mut plain_cache);
            check("plain Rust", &plain_query, &plain_cache);

            for tuning in tunings() {
                let (qkv, table) = (bits(&qkv), bits(&table));
                let norms = norms.each_ref().map(|w| bits(w));
                let mut buffers = vec![&batch.words[..], &qkv, &table];
                if qk_norm.is_some() {
                    buffers.extend(norms.iter().map(|w| &w[..]));
                }
                let (zeros, nans) = (vec![0; query.len()], vec![NAN; cache.len()]);
                buffers.extend([&zeros[..], &nans]);
                let outputs = bench.run(&kernel, tuning, &batch, &buffers).await;
                check(&format!("{tuning:?}"), &floats(&outputs[0]), &outputs[1]);
            }
        }
    });
}
