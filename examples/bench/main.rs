//! Measures this machine's GPU: a plain copy, then models of real shapes with random weights.
//!
//! ```sh
//! cargo run --release --example bench
//! ```
//!
//! The binary needs no files and no network, so it can be copied to a machine that has only a driver.
//! Every speed is the median of several runs after a warm-up.

mod checkpoint;
mod kernels;
mod load;
mod model;
mod serve;
mod speculate;
mod stages;
mod steps;
mod table;
mod timing;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tabloom::gpu::{Gpu, Kernels, Power};

use model::SHAPES;
use steps::Effort;
use table::Row;

#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Time single kernels instead of models.
    #[arg(long)]
    kernels: bool,
    /// Only this model.
    #[arg(long, value_parser = SHAPES.map(|shape| shape.name))]
    model: Option<String>,
    /// Columns that share a scale: 32, 64 or 128.
    #[arg(long, default_value_t = 32)]
    group: usize,
    /// Divides layers and vocabulary; 16 by default on a software adapter.
    #[arg(long)]
    scale: Option<usize>,
    /// Tokens per prompt.
    #[arg(long)]
    prompt: Option<usize>,
}

#[derive(Subcommand)]
enum Command {
    /// Write checkpoints of any size.
    Checkpoint(checkpoint::Options),
    Serve(serve::Options),
    Speculate(speculate::Options),
    Stages(stages::Options),
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.command {
        Some(Command::Checkpoint(options)) => return checkpoint::run(options),
        Some(Command::Serve(options)) => return pollster::block_on(serve::run(options)),
        Some(Command::Speculate(options)) => return pollster::block_on(speculate::run(options)),
        Some(Command::Stages(options)) => return pollster::block_on(stages::run(options)),
        None => {}
    }
    let rows = pollster::block_on(measure(&arguments))?;
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&rows)?),
        false => print!("{}", table::text(&rows)),
    }
    Ok(())
}

async fn measure(arguments: &Arguments) -> Result<Vec<Row>> {
    let gpu = Gpu::open(Power::HighPerformance).await?;
    let effort = match gpu.adapter.software {
        true => Effort { scale: 16, prompt: 32, tokens: 8, runs: 3 },
        false => Effort { scale: 1, prompt: 256, tokens: 64, runs: 7 },
    };
    let effort = Effort {
        scale: arguments.scale.unwrap_or(effort.scale).max(1),
        prompt: arguments.prompt.unwrap_or(effort.prompt).max(1),
        ..effort
    };
    let adapter = match gpu.adapter.software {
        true => format!("{} (software, not a GPU)", gpu.adapter.name),
        false => gpu.adapter.name.clone(),
    };
    let copied = timing::copy(&gpu, &mut Kernels::default(), effort.runs).await?;
    let mut rows = vec![Row::new(&adapter, "plain copy, read and written", copied / 1e9, "GB/s")];
    if arguments.kernels {
        rows.extend(kernels::measure(&gpu, &adapter, copied, effort.runs).await?);
        return Ok(rows);
    }
    // Each model opens its own device, as users of the crate do.
    drop(gpu);
    for shape in SHAPES {
        if arguments.model.as_deref().is_none_or(|name| name == shape.name) {
            let group = arguments.group;
            rows.extend(steps::measure(&shape, group, effort, copied).await?);
        }
    }
    Ok(rows)
}
