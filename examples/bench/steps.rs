//! Whole models: loading, prefill and decode, with the executor driven as by the engine.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tabloom::{
    executor::{AnyExecutor, GpuExecutor},
    layout::Layout,
    load::{self, LoadOptions, Progress},
    model::{ModelConfig, Param, Shape},
    step::{Capacity, Executor, RowTokens, Sampling, SeqPlan, StepPlan},
    weights::Quantise,
};

use super::{
    model::{LlamaShape, Synthetic},
    table::Row,
};

/// Sequences per step.
const BATCHES: [usize; 3] = [1, 4, 16];

/// The amount of work to measure.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Divisor of layers and vocabulary.
    pub scale: usize,
    /// Tokens per prompt.
    pub prompt: usize,
    /// Tokens to decode after it.
    pub tokens: usize,
    /// Runs to take the median of.
    pub runs: usize,
}

/// A model and its measurements so far.
struct Bench {
    executor: Box<GpuExecutor>,
    config: ModelConfig,
    effort: Effort,
    /// Rate of a plain copy in bytes per second.
    copied: f64,
    place: String,
    rows: Vec<Row>,
}

/// The duration of some steps.
#[derive(Clone, Copy)]
struct Timing {
    wall: Duration,
    /// Time on the device, if it can measure that.
    device: Option<Duration>,
}

/// Loads a model of this shape and measures it.
pub async fn measure(
    shape: &LlamaShape,
    group: usize,
    effort: Effort,
    copied: f64,
) -> Result<Vec<Row>> {
    let scaled = shape.scaled(effort.scale);
    let source = Synthetic::new(&scaled, group)?;
    let embeddings = Layout::W8 { group: 32 };
    let options = LoadOptions {
        quantise: Quantise { matrices: None, embeddings: Some(embeddings) },
        context: Some(effort.prompt + effort.tokens),
        ..LoadOptions::default()
    };
    eprintln!("{}, loading", shape.name);
    let start = Instant::now();
    let mut read = None;
    let loaded = load::executor(&source, &options, |progress| {
        if let Progress::Compile { .. } = progress {
            read.get_or_insert_with(|| start.elapsed());
        }
        ControlFlow::Continue(())
    })
    .await?;
    let ready = start.elapsed();
    let read = read.context("no kernel was compiled")?;
    let AnyExecutor::Gpu(executor) = loaded.executor else {
        anyhow::bail!("the model was loaded on the CPU");
    };

    let mut place = format!("Llama {}, int4 in groups of {group}, int8 embeddings", shape.name);
    if effort.scale > 1 {
        let LlamaShape { layers, vocab, .. } = scaled;
        place += &format!(
            ", scaled down to {layers} of {} layers and {vocab} of {} tokens",
            shape.layers, shape.vocab
        );
    }
    let work = executor.work();
    let mut bench =
        Bench { executor, config: loaded.config, effort, copied, place, rows: Vec::new() };
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    bench.add("weights in memory", megabytes(loaded.weight_bytes), "MB");
    bench.add("load weights", read.as_secs_f64(), "s");
    bench.add("load weights", megabytes(source.bytes()) / read.as_secs_f64(), "MB/s");
    bench.add("compile kernels, allocate, bind", (ready - read).as_secs_f64(), "s");
    bench.add("pipelines", work.pipelines as f64, "");
    bench.add("bind groups", work.bind_groups as f64, "");
    for batch in BATCHES {
        eprintln!("{}, batch {batch}", shape.name);
        bench.prefill(batch).await?;
        bench.decode(batch).await?;
    }
    Ok(bench.rows)
}

impl Bench {
    fn add(&mut self, name: &str, value: f64, unit: &str) {
        self.rows.push(Row::new(&self.place, name, value, unit));
    }

    async fn prefill(&mut self, batch: usize) -> Result<()> {
        let plans = self.prefill_plans(batch);
        let timing = self.median(&plans).await?;
        let tokens = batch * self.effort.prompt;
        let name = |what: &str| format!("prefill, batch {batch}{what}");
        let seconds = timing.wall.as_secs_f64();
        self.add(&name(""), tokens as f64 / seconds, "tokens/s");
        let flops = 2.0 * (self.layer_weights() * tokens + self.head_weights() * batch) as f64;
        self.add(&name(", matrix products"), flops / seconds / 1e9, "GFLOP/s");
        if let Some(device) = timing.device {
            self.add(&name(", device busy"), percent(device, timing.wall), "%");
        }
        Ok(())
    }

    /// Decodes after the prompts that [`Bench::prefill`] has left in the KV cache.
    async fn decode(&mut self, batch: usize) -> Result<()> {
        let plans = self.decode_plans(batch);
        let before = self.executor.work();
        let timing = self.median(&plans).await?;
        let after = self.executor.work();
        let name = |what: &str| format!("decode, batch {batch}{what}");
        let steps = plans.len() as f64;
        let step = timing.wall.as_secs_f64() / steps;
        self.add(&name(""), batch as f64 / step, "tokens/s");
        self.add(&name(", a step"), step * 1e3, "ms");
        if let Some(device) = timing.device {
            let device = device.as_secs_f64() / steps;
            self.add(&name(", a step on the device"), device * 1e3, "ms");
        }
        let read = self.executor.weight_bytes() as f64 / step;
        self.add(&name(", weights read"), read / 1e9, "GB/s");
        self.add(&name(", share of the copy's rate"), 100.0 * read / self.copied, "%");
        let tokens = ((after.steps - before.steps) * batch as u64) as f64;
        let work = [
            (", dispatches per token", after.dispatches - before.dispatches),
            (", bind groups made per token", after.bind_groups - before.bind_groups),
            (", buffer writes per token", after.buffer_writes - before.buffer_writes),
        ];
        for (what, count) in work {
            self.add(&name(what), count as f64 / tokens, "");
        }
        Ok(())
    }

    /// Prefill steps for the prompts of `batch` sequences, in chunks that fit.
    fn prefill_plans(&self, batch: usize) -> Vec<StepPlan> {
        let Effort { prompt, .. } = self.effort;
        let chunk = self.executor.capacity().rows / batch;
        let chunks = (0..prompt).step_by(chunk).map(|start| start..prompt.min(start + chunk));
        let plan = |range: std::ops::Range<usize>| {
            let seqs = (0..batch).map(|slot| {
                let token = |position| (position * 7919 + slot) % self.config.vocab;
                let tokens = range.clone().map(|position| token(position) as u32).collect();
                self.sequence(slot, RowTokens::Known(tokens), range.start, range.end == prompt)
            });
            StepPlan { seqs: seqs.collect(), ..Default::default() }
        };
        chunks.map(plan).collect()
    }

    /// Decode steps for `batch` sequences.
    fn decode_plans(&self, batch: usize) -> Vec<StepPlan> {
        let Effort { prompt, tokens, .. } = self.effort;
        let plan = |position| {
            let seqs =
                (0..batch).map(|slot| self.sequence(slot, RowTokens::LastSample, position, true));
            StepPlan { seqs: seqs.collect(), ..Default::default() }
        };
        (prompt..prompt + tokens).map(plan).collect()
    }

    fn sequence(&self, slot: usize, tokens: RowTokens, start: usize, sample: bool) -> SeqPlan {
        let Capacity { groups, context, .. } = self.executor.capacity();
        let [all, used] = [context, start + tokens.count()].map(|tokens| groups.blocks(tokens));
        let sampling = Sampling { temperature: 0.7, top_p: 0.9, seed: 1, ..Sampling::GREEDY };
        SeqPlan {
            slot: slot as u32,
            tokens,
            start: start as u32,
            blocks: (0..used).map(|block| (slot * all + block) as u32).collect(),
            sample: sample.then_some(sampling),
            ..Default::default()
        }
    }

    /// Runs the steps once as a warm-up, then several times; returns the median.
    async fn median(&mut self, plans: &[StepPlan]) -> Result<Timing> {
        self.run(plans).await?;
        let mut timings = Vec::new();
        for _ in 0..self.effort.runs {
            timings.push(self.run(plans).await?);
        }
        timings.sort_by_key(|timing| timing.wall);
        Ok(timings[timings.len() / 2])
    }

    /// Keeps as many steps in flight as the engine does.
    async fn run(&mut self, plans: &[StepPlan]) -> Result<Timing> {
        let start = Instant::now();
        let mut nanos = Some(0);
        for i in 0..plans.len() + GpuExecutor::DEPTH {
            if i >= GpuExecutor::DEPTH {
                let step = self.executor.result(async || {}).await?;
                let finite = step.samples.iter().all(|sample| sample.not_finite == 0);
                ensure!(finite, "the model computed logits that are not finite");
                nanos = nanos.zip(step.device_nanos).map(|(sum, nanos)| sum + nanos);
            }
            if let Some(plan) = plans.get(i) {
                self.executor.submit(plan)?;
            }
        }
        Ok(Timing { wall: start.elapsed(), device: nanos.map(Duration::from_nanos) })
    }

    /// Number of weights in the layers' matrices.
    fn layer_weights(&self) -> usize {
        self.matrices(|param| !matches!(param, Param::Embed | Param::Head))
    }

    /// Number of weights in the output matrix.
    fn head_weights(&self) -> usize {
        self.matrices(|param| param == self.config.head())
    }

    fn matrices(&self, wanted: impl Fn(Param) -> bool) -> usize {
        let params = self.config.params().into_iter().filter(|spec| wanted(spec.param));
        params
            .map(|spec| match spec.shape {
                Shape::Matrix { n, k } => n * k,
                Shape::Vector { .. } => 0,
            })
            .sum()
    }
}

fn percent(part: Duration, whole: Duration) -> f64 {
    100.0 * part.as_secs_f64() / whole.as_secs_f64()
}
