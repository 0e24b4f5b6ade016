//! Paged attention on the GPU, against the CPU reference and a naive f64 softmax.

mod rope;

use crate::support::{Bench, WITHOUT_SUBGROUPS, bits, floats, nmse, uniform};
use half::f16;
use tabloom::{
    kernels::{
        Attention, AttentionMerge, Batch, BlockTables, Kernel, KvGroup, KvKind, KvLayout, Tuning,
        batch::Row, query_heads,
    },
    layout::row_stride,
    step::{BLOCK_SIZE, Capacity, HostMemory, KvGroups, RowTokens, SeqPlan, StepPlan, Window},
};

/// Content of the KV cache wherever no kernel may read: two f16 that are NaN, or a scale that is.
fn unset(kind: KvKind) -> u32 {
    match kind {
        KvKind::F16 => 0x7E00_7E00,
        KvKind::Int8 => f32::NAN.to_bits(),
    }
}

/// The heads of a layer.
#[derive(Clone, Copy, Debug)]
struct Heads {
    heads: usize,
    kv_heads: usize,
    dim: usize,
    kind: KvKind,
    window: Option<Window>,
    cap: Option<f32>,
    /// Each head has a sink logit.
    sink_logits: bool,
    group: KvGroup,
}

impl Heads {
    const fn new(heads: usize, kv_heads: usize, dim: usize) -> Heads {
        Heads {
            heads,
            kv_heads,
            dim,
            kind: KvKind::F16,
            window: None,
            cap: None,
            sink_logits: false,
            group: KvGroup::ALL,
        }
    }

    const fn int8(self) -> Heads {
        Heads { kind: KvKind::Int8, ..self }
    }

    const fn window(self, sinks: usize, tokens: usize) -> Heads {
        Heads { window: Some(Window { sinks, tokens }), ..self }
    }

    /// With another score scale, and capped.
    const fn capped(self, cap: f32) -> Heads {
        Heads { cap: Some(cap), ..self }
    }

    const fn with_sink_logits(self) -> Heads {
        Heads { sink_logits: true, ..self }
    }

    /// In one of several groups of layers.
    const fn in_group(self, index: usize, count: usize) -> Heads {
        Heads { group: KvGroup { index, count }, ..self }
    }

    fn scale(self) -> f32 {
        if self.cap.is_some() { 0.4 } else { (self.dim as f32).sqrt().recip() }
    }

    fn layout(self) -> KvLayout {
        KvLayout { kind: self.kind, kv_heads: self.kv_heads, head_dim: self.dim }
    }

    fn query_stride(self) -> usize {
        row_stride(query_heads(self.heads, self.window) * self.dim)
    }

    fn sinks(self) -> usize {
        self.window.map_or(0, |window| window.sinks)
    }

    /// The positions that a row attends to.
    fn seen(self, position: usize) -> impl Iterator<Item = usize> {
        let start = self.window.map_or(0, |w| (position + 1).saturating_sub(w.tokens));
        (0..=position).filter(move |other| *other >= start || *other < self.sinks())
    }

    fn stride(self) -> usize {
        row_stride(self.heads * self.dim)
    }

    fn attention(self, split: bool) -> Attention {
        let Heads { heads, kv_heads, dim: head_dim, kind, window, cap, sink_logits, group } = self;
        let scale = self.scale();
        Attention { heads, kv_heads, head_dim, scale, cap, kind, group, window, sink_logits, split }
    }

    /// Encodes sequences of (first position, rows) with shuffled blocks of one pool.
    fn step(self, rng: &mut fastrand::Rng, seqs: &[(usize, usize)]) -> Step {
        let capacity = capacity(seqs, self.group.count);
        let mut pool: Vec<u32> = (0..capacity.blocks as u32).collect();
        rng.shuffle(&mut pool);
        let plan = |(slot, (start, rows)): (usize, &(usize, usize))| SeqPlan {
            slot: slot as u32,
            tokens: RowTokens::Known(vec![0; *rows]),
            start: *start as u32,
            blocks: {
                let entries = (start + rows).div_ceil(BLOCK_SIZE);
                pool.split_off(pool.len() - entries * self.group.count)
            },
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
        Step { batch, tables, capacity, group: self.group }
    }
}

/// A step as the kernels get it.
struct Step {
    batch: Batch,
    tables: BlockTables,
    capacity: Capacity,
    group: KvGroup,
}

impl Step {
    fn rows(&self) -> impl Iterator<Item = Row> {
        (0..self.batch.rows as usize).map(|i| self.batch.row(i))
    }

    fn kv_slot(&self, row: Row, position: usize) -> usize {
        self.tables.kv_slot(self.group, row.table, position)
    }
}

fn capacity(seqs: &[(usize, usize)], groups: usize) -> Capacity {
    let blocks: usize = seqs.iter().map(|(start, rows)| (start + rows).div_ceil(BLOCK_SIZE)).sum();
    Capacity {
        rows: seqs.iter().map(|(_, rows)| rows).sum(),
        seqs: seqs.len(),
        logit_rows: seqs.len(),
        blocks: blocks * groups + 3,
        context: seqs.iter().map(|(start, rows)| start + rows).max().unwrap_or(0),
        vocab: 1,
        groups: KvGroups::new(vec![None; groups]),
        host: HostMemory::NONE,
    }
}

/// Random queries, and a KV cache with keys and values for the batch's rows.
struct Data {
    query: Vec<f32>,
    cache: Vec<u32>,
    sink_logits: Vec<f32>,
}

impl Data {
    fn new(rng: &mut fastrand::Rng, shape: Heads, step: &Step) -> Data {
        let (layout, unset) = (shape.layout(), unset(shape.kind));
        let mut cache = vec![unset; step.capacity.blocks * layout.block_words()];
        for row in step.rows() {
            for position in shape.seen(row.position as usize) {
                let slot = step.kv_slot(row, position);
                for head in 0..2 * shape.kv_heads {
                    let at = layout.key(slot, head);
                    if cache[at] != unset {
                        continue;
                    }
                    cache[at..at + layout.token_words()].fill_with(|| match shape.kind {
                        KvKind::F16 => random_halves(rng),
                        KvKind::Int8 => rng.u32(..),
                    });
                    if shape.kind == KvKind::Int8 {
                        cache[layout.scale(slot, head)] = (rng.f32() / 127.0).to_bits();
                    }
                }
            }
        }
        // Queries of this size give scores that differ by several units, so that the softmax is not
        // flat.
        let mut query = vec![f32::NAN; step.batch.rows as usize * shape.query_stride()];
        for row in query.chunks_exact_mut(shape.query_stride()) {
            row[..query_heads(shape.heads, shape.window) * shape.dim]
                .fill_with(|| rng.f32() * 6.0 - 3.0);
        }
        let heads = if shape.sink_logits { shape.heads } else { 0 };
        let sink_logits = (0..heads).map(|_| rng.f32() * 8.0 - 2.0).collect();
        Data { query, cache, sink_logits }
    }
}

fn random_halves(rng: &mut fastrand::Rng) -> u32 {
    let mut half = || u32::from(f16::from_f32(rng.f32() * 2.0 - 1.0).to_bits());
    half() | half() << 16
}

/// Dim `d` of a token's key in the cache; of its value with `head` + `kv_heads`.
fn cached(layout: KvLayout, cache: &[u32], slot: usize, head: usize, d: usize) -> f64 {
    let at = layout.key(slot, head);
    match layout.kind {
        KvKind::F16 => f16::from_bits((cache[at + d / 2] >> (16 * (d % 2))) as u16).to_f64(),
        KvKind::Int8 => {
            let byte = (cache[at + d / 4] >> (8 * (d % 4))) as u8 as i8;
            f64::from(f32::from_bits(cache[layout.scale(slot, head)])) * f64::from(byte)
        }
    }
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
            let cached = |slot, head, d| cached(layout, &data.cache, slot, head, d);
            let seen: Vec<usize> = shape.seen(row.position as usize).collect();
            let scores: Vec<f64> = seen
                .iter()
                .map(|position| {
                    let view = if *position < shape.sinks() { heads * dim } else { 0 };
                    let query = i * shape.query_stride() + view + head * dim;
                    let slot = step.kv_slot(row, *position);
                    let product = |d| f64::from(data.query[query + d]) * cached(slot, kv_head, d);
                    let score = (0..dim).map(product).sum::<f64>() * f64::from(shape.scale());
                    let cap = shape.cap.map(f64::from);
                    cap.map_or(score, |cap| cap * (score / cap).tanh())
                })
                .collect();
            let top = scores.iter().copied().fold(f64::MIN, f64::max);
            let sink = data.sink_logits.get(head).map(|logit| f64::from(*logit));
            let sum: f64 = scores.iter().chain(&sink).map(|score| (score - top).exp()).sum();
            for d in 0..dim {
                let weighted = |(score, position): (&f64, &usize)| {
                    let slot = step.kv_slot(row, *position);
                    (score - top).exp() * cached(slot, kv_head + kv_heads, d)
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
    let zeros = vec![0; batch.rows as usize * shape.stride()];
    let sinks = bits(&data.sink_logits);
    let mut outputs: Vec<&[u32]> = vec![&sinks, &zeros];
    if !shape.sink_logits {
        outputs.remove(0);
    }
    if !split {
        let outputs = bench.run(&kernel, tuning, batch, &[&inputs[..], &outputs].concat()).await;
        return floats(&outputs[0]);
    }
    let capacity =
        Capacity { rows: batch.rows as usize, context: batch.longest as usize, ..capacity(&[], 1) };
    // The merge must not read what the kernel leaves unwritten.
    let partials = vec![f32::NAN.to_bits(); kernel.partial_words(tuning, &capacity)];
    let partials =
        bench.run(&kernel, tuning, batch, &[&inputs[..], &[&partials]].concat()).await.remove(0);
    let Heads { heads, dim: head_dim, window, sink_logits, .. } = shape;
    let merge = AttentionMerge { heads, head_dim, window, sink_logits };
    let inputs = [&batch.words[..], &partials];
    let outputs = bench.run(&merge, tuning, batch, &[&inputs[..], &outputs].concat()).await;
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

const SHAPES: [Heads; 14] = [
    Heads::new(2, 2, 24),
    Heads::new(4, 2, 48).window(0, 16).capped(3.0),
    Heads::new(4, 1, 64).in_group(2, 3),
    Heads::new(8, 1, 80).window(0, 300),
    Heads::new(14, 2, 96),
    Heads::new(8, 2, 128).window(0, 100),
    Heads::new(2, 1, 256),
    Heads::new(3, 3, 32).int8().window(144, 70),
    Heads::new(20, 1, 8),
    Heads::new(4, 2, 24).int8(),
    Heads::new(6, 2, 64).window(16, 200),
    Heads::new(4, 1, 128).int8().window(0, 90).capped(5.0).in_group(1, 2),
    Heads::new(8, 1, 64).with_sink_logits(),
    Heads::new(6, 2, 24).window(0, 128).with_sink_logits(),
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
                    &data.sink_logits,
                    &mut plain,
                );
                let error = nmse(&expected, &plain);
                assert!(error < 1e-11, "plain Rust: {error:e} {shape:?} {seqs:?}");

                for tuning in WITHOUT_SUBGROUPS {
                    let found = run(&mut bench, tuning, shape, &step, &data, false).await;
                    let error = nmse(&expected, &found);
                    assert!(error < 1e-11, "{error:e} {shape:?} {seqs:?} {tuning:?}");
                    // Not for every shape: software adapters take seconds to compile a pipeline.
                    let merged = shape.window.is_some() || shape.dim == 64;
                    if !merged || !shape.attention(false).splits(tuning, &step.batch) {
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
    let block = |entry: usize| (step.kv_slot(first, entry * BLOCK_SIZE) / BLOCK_SIZE) as u32;
    let blocks = (0..end.div_ceil(BLOCK_SIZE)).map(block).collect();
    let shape = Heads { group: KvGroup::ALL, ..shape };
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
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };
    let plan = StepPlan { seqs: vec![seq], ..Default::default() };
    let alone = shape.encode(&plan, capacity);
    let query = rows.start * shape.query_stride()..rows.end * shape.query_stride();
    let query = data.query[query].to_vec();
    (alone, Data { query, cache: data.cache.clone(), sink_logits: data.sink_logits.clone() })
}

#[test]
fn a_row_has_the_same_bits_alone_in_a_batch_and_at_any_cut_of_its_chunk() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let windowed = Heads::new(6, 2, 40).window(0, 150);
        let streaming = Heads::new(6, 2, 40).int8().window(48, 150);
        let sinking = windowed.with_sink_logits();
        for shape in [Heads::new(8, 2, 64).in_group(3, 4), windowed, streaming, sinking] {
            // Fifteen decode rows and a chunk that crosses blocks, steps and segments.
            let mut seqs: Vec<_> = (0..15).map(|_| (rng.usize(0..600), 1)).collect();
            seqs.insert(rng.usize(..15), (100, 45));
            let step = shape.step(&mut rng, &seqs);
            let data = Data::new(&mut rng, shape, &step);
            for tuning in WITHOUT_SUBGROUPS {
                let all = run(&mut bench, tuning, shape, &step, &data, false).await;
                let mut first = 0;
                for (_, count) in &seqs {
                    let cut = if *count > 1 { rng.usize(1..*count) } else { 0 };
                    for rows in [first..first + cut, first + cut..first + count] {
                        if rows.is_empty() {
                            continue;
                        }
                        let (step, data) = alone(&step, shape, &data, rows.clone());
                        let shape = Heads { group: KvGroup::ALL, ..shape };
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
    let [lanes, barriers] = WITHOUT_SUBGROUPS;
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
    assert!(splits(lanes, &[(16_384, 1), (0, 300)]));
    assert!(!splits(lanes, &[(16_383, 1)]));
    let room = |tuning, context| {
        attention.partial_words(tuning, &Capacity { context, rows: 512, ..capacity(&[], 1) })
    };
    assert_eq!(room(barriers, 256), 0);
    assert_eq!(room(barriers, 512), 4 * 16 * 32 * 130);
    assert_eq!(room(barriers, 1 << 17), 4 << 20);
    assert_eq!(room(lanes, 1 << 14), 0);
    assert_eq!(room(lanes, 1 << 17), 8 * 512 * 32 * 130);
    let direct = Kernel::grid(&attention, barriers, &shape.step(&mut rng, &[(1000, 1)]).batch);
    let split =
        Kernel::grid(&shape.attention(true), barriers, &shape.step(&mut rng, &[(1000, 1)]).batch);
    assert_eq!((direct, split), ([1, 8, 1], [1, 8, 8]));
}

#[test]
fn a_row_attends_to_all_of_a_context_of_70_000_tokens() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let streaming = Heads::new(2, 2, 16).int8().window(16, 40_000);
        for shape in [Heads::new(2, 1, 16), streaming] {
            let step = shape.step(&mut rng, &[(69_999, 1), (50, 3)]);
            let data = Data::new(&mut rng, shape, &step);
            let expected = naive(shape, &step, &data);
            for tuning in WITHOUT_SUBGROUPS {
                assert!(shape.attention(false).splits(tuning, &step.batch));
                let found = run(&mut bench, tuning, shape, &step, &data, true).await;
                let error = nmse(&expected, &found);
                println!("{shape:?} {tuning:?}: NMSE {error:.1e}");
                assert!(error < 1e-7, "{error:e} {shape:?} {tuning:?}");
                // Rows in the same step have the same bits as in a step that is not split.
                let (step, data) = alone(&step, shape, &data, 1..4);
                let short = run(&mut bench, tuning, shape, &step, &data, false).await;
                assert_eq!(bits(&found[shape.stride()..]), bits(&short), "{shape:?} {tuning:?}");
            }
        }
    });
}
