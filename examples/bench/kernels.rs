//! Times single kernels at a model's sizes, each over more buffers than any cache holds.

use anyhow::Result;
use tabloom::{
    gpu::{Gpu, Kernels},
    kernels::{
        Attention, AttentionMerge, Batch, BlockTables, Kernel, KvGroup, KvKind, KvLayout, Matmul,
        Regime, RowsOf, Sample, Table, Tuning,
    },
    layout::{Layout, row_stride},
    model::MatmulOutput,
    step::{BLOCK_SIZE, Capacity, HostMemory, KvGroups, RowTokens, Sampling, SeqPlan, StepPlan},
};

use super::{
    table::Row,
    timing::{self, Sequence},
};

const CAPACITY: Capacity = Capacity {
    rows: 256,
    seqs: 1,
    logit_rows: 1,
    blocks: 256,
    context: 4096,
    vocab: 128_256,
    groups: KvGroups::FULL,
    host: HostMemory::NONE,
};
const LAYOUT: Layout = Layout::W4 { group: 32 };
/// Bytes that are read before a buffer is read again.
const ROTATED_BYTES: u64 = 128 << 20;

struct Bench<'a> {
    gpu: &'a Gpu,
    kernels: Kernels,
    tuning: Tuning,
    copied: f64,
    runs: usize,
    adapter: &'a str,
    rng: fastrand::Rng,
    rows: Vec<Row>,
}

/// What limits a kernel; its speed is reported in this unit.
enum Work {
    /// Bytes to read.
    Bytes(u64),
    /// Multiplications and additions.
    Flops(f64),
}

/// Times the important kernels; `copied` is the rate of a plain copy in bytes per second.
pub async fn measure(gpu: &Gpu, adapter: &str, copied: f64, runs: usize) -> Result<Vec<Row>> {
    let mut bench = Bench {
        gpu,
        kernels: Kernels::default(),
        tuning: Tuning::of(&gpu.adapter),
        copied,
        runs,
        adapter,
        rng: fastrand::Rng::with_seed(1),
        rows: Vec::new(),
    };
    for (n, k) in [(2048, 2048), (4096, 4096), (CAPACITY.vocab, 2048)] {
        bench.product(n, k, 1).await?;
    }
    bench.product(4096, 4096, 16).await?;
    for (n, k) in [(2048, 2048), (4096, 4096)] {
        bench.product(n, k, 256).await?;
    }
    for context in [1024, 4096] {
        bench.attention(context).await?;
    }
    bench.sample("greedy", Sampling::GREEDY).await?;
    let filtered = Sampling {
        temperature: 0.7,
        top_k: 40,
        top_p: 0.9,
        min_p: 0.05,
        seed: 1,
        ..Sampling::GREEDY
    };
    bench.sample("top-k, top-p, min-p", filtered).await?;
    Ok(bench.rows)
}

impl Bench<'_> {
    async fn product(&mut self, n: usize, k: usize, rows: usize) -> Result<()> {
        let (batch, _) = batch(rows, rows, Sampling::GREEDY)?;
        let kernel = Matmul {
            layout: LAYOUT,
            n,
            k,
            first: 0,
            width: n,
            norm: None,
            bias: false,
            scale: 1.0,
            cap: None,
            output: MatmulOutput::Store,
            rows: RowsOf::Rows,
            regime: Regime::of(rows as u32),
            experts: None,
        };
        let step = self.gpu.upload("step", &batch.words).await?;
        let x = self.numbers(rows * row_stride(k)).await?;
        let out = self.gpu.storage("out", (rows * row_stride(n) * 4) as u64).await?;
        let nibbles: Vec<u32> = (0..n * LAYOUT.row_words(k)).map(|_| self.rng.u32(..)).collect();
        // Scale 1, min -8.
        let scales = vec![0xc800_3c00; n * LAYOUT.row_scales(k)];
        let bytes = LAYOUT.bytes(n, k);
        // Products with many rows are not limited by memory.
        let calls = copies(bytes * rows as u64);
        let mut sequence = Sequence::new();
        for _ in 0..calls {
            let words = self.gpu.upload("words", &nibbles).await?;
            let scales = self.gpu.upload("scales", &scales).await?;
            self.record(&mut sequence, &kernel, &batch, &[&step, &x, &words, &scales, &out])
                .await?;
        }
        let work = match kernel.regime {
            Regime::Few(_) => Work::Bytes(bytes),
            Regime::Many => Work::Flops(2.0 * (n * k * rows) as f64),
        };
        self.finish(&format!("int4 product {n} x {k}, rows {rows}"), &sequence, calls, work).await
    }

    async fn attention(&mut self, context: usize) -> Result<()> {
        let (heads, kv_heads, head_dim) = (32, 8, 64);
        let (batch, tables) = batch(1, context, Sampling::GREEDY)?;
        let whole = Attention {
            heads,
            kv_heads,
            head_dim,
            scale: 0.125,
            cap: None,
            kind: KvKind::F16,
            group: KvGroup::ALL,
            window: None,
            sink_logits: false,
            split: false,
        };
        let split = Attention { split: true, ..whole };
        let merge = AttentionMerge { heads, head_dim, window: None, sink_logits: false };
        let words =
            context / BLOCK_SIZE * KvLayout { kind: KvKind::F16, kv_heads, head_dim }.block_words();
        let step = self.gpu.upload("step", &batch.words).await?;
        let tables = self.gpu.upload("tables", &tables.words).await?;
        let query = self.numbers(heads * head_dim).await?;
        let out = self.gpu.storage("out", (heads * head_dim * 4) as u64).await?;
        let partials = self
            .gpu
            .storage("partials", whole.partial_words(self.tuning, &CAPACITY) as u64 * 4)
            .await?;
        let bytes = words as u64 * 4;
        let calls = copies(bytes);
        let mut sequence = Sequence::new();
        for _ in 0..calls {
            let kv = self.gpu.storage("kv", bytes).await?;
            if whole.splits(self.tuning, &batch) {
                let buffers = [&step, &tables, &query, &kv, &partials];
                self.record(&mut sequence, &split, &batch, &buffers).await?;
                self.record(&mut sequence, &merge, &batch, &[&step, &partials, &out]).await?;
            } else {
                self.record(&mut sequence, &whole, &batch, &[&step, &tables, &query, &kv, &out])
                    .await?;
            }
        }
        let name = format!("attention, rows 1, context {context}");
        self.finish(&name, &sequence, calls, Work::Bytes(bytes)).await
    }

    async fn sample(&mut self, name: &str, sampling: Sampling) -> Result<()> {
        let (batch, _) = batch(1, 1, sampling)?;
        let vocab = CAPACITY.vocab;
        let step = self.gpu.upload("step", &batch.words).await?;
        let logits = self.numbers(row_stride(vocab)).await?;
        let table = async |table: Table| {
            self.gpu.storage("table of slots", table.stride(vocab) as u64 * 4).await
        };
        let tallies = table(Table::Tallies).await?;
        let (bias, masks) = (table(Table::Bias).await?, table(Table::Masks).await?);
        let sampled = self.gpu.storage("sampled", 8).await?;
        let mut sequence = Sequence::new();
        let last_samples = self.gpu.storage("last samples", 64).await?;
        let buffers = [&step, &logits, &last_samples, &tallies, &bias, &masks, &sampled];
        self.record(&mut sequence, &Sample { vocab }, &batch, &buffers).await?;
        let name = format!("sample from {vocab}, {name}");
        self.finish(&name, &sequence, 1, Work::Bytes(vocab as u64 * 4)).await
    }

    async fn numbers(&mut self, count: usize) -> Result<wgpu::Buffer> {
        let numbers: Vec<u32> =
            (0..count).map(|_| (self.rng.f32() * 2.0 - 1.0).to_bits()).collect();
        Ok(self.gpu.upload("numbers", &numbers).await?)
    }

    async fn record(
        &mut self,
        sequence: &mut Sequence,
        kernel: &impl Kernel,
        batch: &Batch,
        buffers: &[&wgpu::Buffer],
    ) -> Result<()> {
        let pipeline = self.kernels.pipeline(self.gpu, &kernel.shader(self.tuning)).await?;
        let dispatch = self.kernels.bind(self.gpu, &pipeline, buffers);
        sequence.push((dispatch, kernel.grid(self.tuning, batch)));
        Ok(())
    }

    /// Times `calls` consecutive calls of one kernel.
    async fn finish(
        &mut self,
        name: &str,
        sequence: &Sequence,
        calls: u64,
        work: Work,
    ) -> Result<()> {
        eprintln!("{name}");
        let seconds = timing::time(self.gpu, sequence, self.runs).await? / calls as f64;
        let mut add = |what: &str, value: f64, unit: &str| {
            self.rows.push(Row::new(self.adapter, &format!("{name}{what}"), value, unit));
        };
        add("", seconds * 1e6, "us");
        match work {
            Work::Bytes(bytes) => {
                let rate = bytes as f64 / seconds;
                add(", read", rate / 1e9, "GB/s");
                add(", share of the copy's rate", 100.0 * rate / self.copied, "%");
            }
            Work::Flops(flops) => add("", flops / seconds / 1e9, "GFLOP/s"),
        }
        Ok(())
    }
}

/// Number of copies of a buffer that add up to [`ROTATED_BYTES`].
fn copies(bytes: u64) -> u64 {
    ROTATED_BYTES.div_ceil(bytes)
}

/// The last `rows` tokens of one sequence of `context` tokens.
fn batch(rows: usize, context: usize, sampling: Sampling) -> Result<(Batch, BlockTables)> {
    let seq = SeqPlan {
        slot: 0,
        tokens: RowTokens::Known(vec![1; rows]),
        start: (context - rows) as u32,
        blocks: (0..context.div_ceil(BLOCK_SIZE) as u32).collect(),
        sample: Some(sampling),
        ..Default::default()
    };
    let plan = StepPlan { seqs: vec![seq], ..Default::default() };
    let tables = BlockTables::of(&plan, &CAPACITY)?;
    let batch = Batch::encode(&plan, &CAPACITY, &tables, Attention::tile_rows(32, 8))?;
    Ok((batch, tables))
}
