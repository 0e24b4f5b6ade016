//! Many tabs on one engine, with modelled time or on this machine's GPU.

use std::{ops::ControlFlow, path::PathBuf};

use anyhow::{Context, Result};
use tabloom::{
    engine::Engine,
    executor::AnyExecutor,
    load::{self as loading, LoadOptions},
    step::Executor,
    weights::FolderSource,
};

use crate::load::{
    clock::{SimulatedClock, WallClock},
    modelled::{Cost, Modelled},
    report::Report,
    scenarios::{Served, Setup, served},
};

/// Serve many tabs at once, and tell how long they wait.
#[derive(clap::Args)]
pub struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Run the built-in model on the GPU; without this, time is modelled and nothing is computed.
    #[arg(long)]
    gpu: bool,
    /// Run the model in this folder on the GPU, in Hugging Face's layout.
    #[arg(long)]
    model: Option<PathBuf>,
    /// Requests of each mixed load, over all tabs; 400 by default, 48 on a GPU.
    #[arg(long)]
    requests: Option<usize>,
    /// Requests a second of each tab.
    #[arg(long, default_value_t = 0.1)]
    rate: f64,
}

pub async fn run(options: &Options) -> Result<()> {
    let built_in = concat!(env!("CARGO_MANIFEST_DIR"), "/www/model");
    let model = options.model.clone().or(options.gpu.then(|| built_in.into()));
    let requests = options.requests.unwrap_or(if model.is_some() { 48 } else { 400 });
    let effort = Served { requests: requests.max(1), rate: options.rate };
    let report = match model {
        Some(model) => real(model, effort).await?,
        None => modelled(effort).await?,
    };
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => print!("{}", report.text()),
    }
    Ok(())
}

async fn modelled(effort: Served) -> Result<Report> {
    let setup = async || {
        let clock = SimulatedClock::default();
        let executor = Modelled::new(Cost::LAPTOP, clock.clone());
        Ok(Setup { capacity: executor.capacity(), engine: Engine::new(executor), clock })
    };
    served("modelled: Llama 3.2 1B in int4 on a laptop's GPU".into(), setup, effort).await
}

async fn real(model: PathBuf, effort: Served) -> Result<Report> {
    let source = FolderSource::new(&model);
    let load = async || {
        let options = LoadOptions::default();
        let loaded = loading::executor(&source, &options, |_| ControlFlow::Continue(())).await;
        loaded.with_context(|| format!("cannot load {}", model.display()))
    };
    let on = match load().await?.executor {
        AnyExecutor::Gpu(executor) => executor.gpu().adapter.name.clone(),
        AnyExecutor::Cpu(_) => "the processor".into(),
    };
    let setup = async || {
        let executor = load().await?.executor;
        let clock = WallClock::start();
        Ok(Setup { capacity: executor.capacity(), engine: Engine::new(executor), clock })
    };
    served(format!("{} on {on}", model.display()), setup, effort).await
}
