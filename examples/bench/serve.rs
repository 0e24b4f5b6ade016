//! Many tabs on one engine, in simulated time or on this machine's GPU.

use std::{ops::ControlFlow, path::PathBuf};

use anyhow::{Context, Result};
use tabloom::{
    executor::AnyExecutor,
    load::{self as loading, LoadOptions},
    weights::FolderSource,
};

use crate::load::{
    clock::WallClock,
    modelled::{Cost, Device, HOST_TOKENS, Modelled},
    report::Report,
    scenarios::{Setup, Traffic, measure, two_models},
};

/// Serve many tabs at once, and report their latencies.
#[derive(clap::Args)]
pub struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Run the built-in model on the GPU; without this, time is simulated and nothing is computed.
    #[arg(long)]
    gpu: bool,
    /// Run the model in this folder on the GPU, in Hugging Face's layout.
    #[arg(long)]
    model: Option<PathBuf>,
    /// Requests per mixed load, over all tabs; 400 by default, 48 on a GPU.
    #[arg(long)]
    requests: Option<usize>,
    /// Requests per second and tab; 0.05 by default, 1 on a GPU.
    #[arg(long)]
    rate: Option<f64>,
}

pub async fn run(options: &Options) -> Result<()> {
    let built_in = concat!(env!("CARGO_MANIFEST_DIR"), "/www/model");
    let model = options.model.clone().or(options.gpu.then(|| built_in.into()));
    let (requests, rate) = if model.is_some() { (48, 1.0) } else { (400, 0.05) };
    let traffic = Traffic {
        requests: options.requests.unwrap_or(requests).max(1),
        rate: options.rate.unwrap_or(rate),
    };
    let report = match model {
        Some(model) => real(model, traffic).await?,
        None => modelled(traffic).await?,
    };
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => print!("{}", report.text()),
    }
    Ok(())
}

async fn modelled(traffic: Traffic) -> Result<Report> {
    let setup = async |options, keeps| {
        let (device, host) = (Device::default(), if keeps { HOST_TOKENS } else { 0 });
        let clock = device.clock.clone();
        Ok(Setup::new(Modelled::new(Cost::LAPTOP, device, host), options, clock))
    };
    let on = "modelled: Llama 3.2 1B in int4 on a laptop's GPU".into();
    let mut report = measure(on, setup, traffic).await?;
    let names = ["1B beside 8B", "1B alone", "8B beside 1B", "8B alone"];
    let outcomes = two_models().await?;
    report.runs.extend(names.iter().zip(&outcomes).map(|(name, outcome)| outcome.summary(name)));
    Ok(report)
}

async fn real(model: PathBuf, traffic: Traffic) -> Result<Report> {
    let source = FolderSource::new(&model);
    let load = async |keeps: bool| {
        // As pages have it by default.
        let host_bytes = if keeps { 128 << 20 } else { 0 };
        let options = LoadOptions { host_bytes, ..LoadOptions::default() };
        let loaded = loading::executor(&source, &options, |_| ControlFlow::Continue(())).await;
        loaded.with_context(|| format!("cannot load {}", model.display()))
    };
    let on = match load(false).await?.executor {
        AnyExecutor::Gpu(executor) => executor.gpu().adapter.name.clone(),
        AnyExecutor::Cpu(_) => "the CPU".into(),
    };
    let setup = async |options, keeps| {
        Ok(Setup::new(load(keeps).await?.executor, options, WallClock::start()))
    };
    measure(format!("{} on {on}", model.display()), setup, traffic).await
}
