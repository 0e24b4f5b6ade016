//! Prints a model's logits for given tokens, and their greedy continuation, as JSON.
//!
//! ```sh
//! cargo run --release --example logits -- --model PATH --tokens 1,2,3 --greedy 20
//! ```

use std::{ops::ControlFlow, path::PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde::Serialize;
use tabloom::{
    executor::AnyExecutor,
    load::{self, Device, LoadOptions},
    step::{Executor, RowTokens, Sampling, SeqPlan, StepPlan, StepResult},
    weights::FolderSource,
};

#[derive(Parser)]
struct Arguments {
    /// A folder in Hugging Face's layout, or a GGUF file; the tokenizer is not needed.
    #[arg(long)]
    model: PathBuf,
    /// Token ids.
    #[arg(long, value_delimiter = ',', required = true)]
    tokens: Vec<u32>,
    /// Number of tokens to generate.
    #[arg(long, default_value_t = 0)]
    greedy: usize,
    #[arg(long, value_parser = ["cpu", "gpu"], default_value = "gpu")]
    device: String,
}

#[derive(Serialize)]
struct Output {
    /// The adapter that computed it.
    adapter: String,
    /// `[tokens][vocab]`
    logits: Vec<Vec<f32>>,
    /// The continuation.
    greedy: Vec<u32>,
}

fn main() -> Result<()> {
    let output = pollster::block_on(compute(&Arguments::parse()))?;
    println!("{}", serde_json::to_string(&output)?);
    Ok(())
}

async fn compute(arguments: &Arguments) -> Result<Output> {
    let Arguments { model, tokens, greedy: count, device } = arguments;
    let options = LoadOptions {
        device: if device == "cpu" { Device::Cpu } else { Device::Gpu },
        // The last generated token is not fed back.
        context: Some(tokens.len() + count.saturating_sub(1)),
        ..LoadOptions::default()
    };
    let source = FolderSource::new(model);
    let loaded = load::executor(&source, &options, |_| ControlFlow::Continue(())).await?;
    let mut executor = loaded.executor;
    let adapter = match &executor {
        AnyExecutor::Gpu(gpu) => gpu.gpu().adapter.name.clone(),
        AnyExecutor::Cpu(_) => "CPU".into(),
    };

    let (mut logits, mut next) = (Vec::new(), 0);
    let rows = executor.capacity().logit_rows;
    for (chunk, start) in tokens.chunks(rows).zip((0..).step_by(rows)) {
        let step = step(&mut executor, chunk, start, true).await?;
        logits.extend(step.logits.chunks_exact(loaded.config.vocab).map(<[f32]>::to_vec));
        next = greedy_token(&step)?;
    }
    let mut greedy = Vec::new();
    for position in tokens.len()..tokens.len() + count {
        greedy.push(next);
        if greedy.len() < *count {
            next = greedy_token(&step(&mut executor, &[next], position, false).await?)?;
        }
    }
    Ok(Output { adapter, logits, greedy })
}

/// Runs the tokens of the single sequence from position `start` on.
async fn step(
    executor: &mut impl Executor,
    tokens: &[u32],
    start: usize,
    read_logits: bool,
) -> tabloom::Result<StepResult> {
    let blocks = executor.capacity().groups.blocks(start + tokens.len());
    let sequence = SeqPlan {
        slot: 0,
        tokens: RowTokens::Known(tokens.to_vec()),
        start: start as u32,
        blocks: (0..blocks as u32).collect(),
        sample: Some(Sampling::GREEDY),
        ..Default::default()
    };
    executor.submit(&StepPlan { seqs: vec![sequence], read_logits, ..Default::default() })?;
    executor.result(async || {}).await
}

/// The most likely token after the step's last one.
fn greedy_token(step: &StepResult) -> Result<u32> {
    let sample = step.samples.first().context("the step sampled no token")?;
    ensure!(sample.not_finite == 0, "{} logits are not finite", sample.not_finite);
    Ok(sample.token)
}
