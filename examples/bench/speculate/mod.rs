//! What guessing ahead is worth: the built-in model with drafts and without.

mod prompts;
mod report;
mod rows;
mod runner;

use std::collections::BTreeMap;

use anyhow::Result;
use tabloom::{executor::AnyExecutor, load::Device};

use report::{ALL, Figures, Report};
use rows::{median, quartiles};
use runner::{Drafting, Ran, Runner};

/// Measure what drafts are worth to the built-in model.
#[derive(clap::Args)]
pub struct Options {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Run on the processor instead of the GPU.
    #[arg(long)]
    cpu: bool,
    /// Drafts of a step where their number is fixed.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=7))]
    drafts: u8,
    /// Runs of each kind, in turn.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..))]
    rounds: u8,
    /// Sequences at a time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    batches: Vec<usize>,
    /// Only speeds: no tokens for each step.
    #[arg(long)]
    speed: bool,
}

pub async fn run(options: &Options) -> Result<()> {
    let device = if options.cpu { Device::Cpu } else { Device::Gpu };
    let (drafts, rounds) = (usize::from(options.drafts), usize::from(options.rounds));
    let model = runner::load(device, true).await?;
    let prompts = prompts::prompts(&model.chat)?;
    let mut executor = model.loaded.executor;
    let adapter = match &executor {
        AnyExecutor::Gpu(executor) => executor.gpu().adapter.name.clone(),
        AnyExecutor::Cpu(_) => "the processor".into(),
    };
    eprintln!("{adapter}: steps");
    let costs = rows::measure(&mut executor, drafts, 20 * rounds).await?;
    drop(executor);
    eprintln!(
        "{} {:.2?} draft {:.2} follow {:.2}",
        costs.step, costs.rows, costs.draft, costs.follow
    );
    let tokens_per_step = match options.speed {
        true => Figures::new(),
        false => tokens_per_step(device, drafts, &prompts).await?,
    };
    // One question of each task.
    let asked: Vec<Vec<u32>> = prompts.values().flat_map(|of| of.first().cloned()).collect();
    let (tokens_per_second, mut over_off) = speeds(device, drafts, options, &asked).await?;
    over_off.remove("off");
    let report = Report {
        adapter,
        drafts,
        tokens_per_step,
        tokens_per_second,
        over_off,
        row_costs: costs.rows,
        draft_cost: costs.draft,
        follow_cost: costs.follow,
        step_seconds: costs.step,
    };
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => print!("{}", report.text()),
    }
    Ok(())
}

/// Tokens for each step of the target, by drafter and task.
async fn tokens_per_step(
    device: Device,
    drafts: usize,
    prompts: &BTreeMap<String, Vec<Vec<u32>>>,
) -> Result<Figures<String>> {
    let mut found = Figures::new();
    let drafters = [
        ("none", false, false),
        ("lookup", true, false),
        ("head", false, true),
        ("both", true, true),
    ];
    for (name, lookup, head) in drafters {
        eprintln!("tokens for each step, {name}");
        let most = if lookup || head { drafts } else { 0 };
        let mut runner =
            Runner::load(device, Drafting { lookup, head, most, adaptive: false }).await?;
        let (mut of_tasks, mut all) = (BTreeMap::new(), Ran::default());
        for (task, prompts) in prompts {
            let ran = runner.run(prompts, 1).await?;
            all.add(ran);
            of_tasks.extend(ran.tokens_per_step().map(|number| (task.clone(), number)));
        }
        of_tasks.extend(all.tokens_per_step().map(|number| (ALL.to_owned(), number)));
        eprintln!("{all:?}");
        found.insert(name, of_tasks);
    }
    Ok(found)
}

/// Tokens a second by batch, and by how much they are more than without drafts.
async fn speeds(
    device: Device,
    drafts: usize,
    options: &Options,
    prompts: &[Vec<u32>],
) -> Result<(Figures<usize>, Figures<usize, [f64; 3]>)> {
    let off = Drafting { lookup: false, head: false, most: 0, adaptive: false };
    let fixed = Drafting { lookup: true, head: true, most: drafts, adaptive: false };
    let adaptive = Drafting { most: tabloom::step::MAX_DRAFTS, adaptive: true, ..fixed };
    let mut runners = Vec::new();
    for (name, drafting) in [("off", off), ("adaptive", adaptive), ("fixed", fixed)] {
        runners.push((name, Runner::load(device, drafting).await?));
    }
    let (mut speeds, mut ratios) = (Figures::new(), Figures::new());
    let rounds = usize::from(options.rounds);
    for &batch in &options.batches {
        eprintln!("tokens a second, {batch} at a time");
        let mut seen: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
        // The first round warms up.
        for round in 0..=rounds {
            let mut found = Vec::new();
            // None is always the first.
            runners.rotate_left(1);
            for (name, runner) in &mut runners {
                let speed = runner.run(prompts, batch).await?.tokens_per_second();
                eprintln!("  {name}: {speed:.0}");
                found.push((*name, speed));
            }
            let off = found.iter().find(|(name, _)| *name == "off").map_or(f64::NAN, |off| off.1);
            for (name, speed) in found.into_iter().filter(|_| round > 0) {
                let [speeds, ratios] = seen.entry(name).or_default();
                speeds.push(speed);
                ratios.push(speed / off);
            }
        }
        for (name, _) in &runners {
            let [of_speeds, of_ratios] = seen.remove(name).unwrap_or_default();
            speeds.entry(*name).or_default().insert(batch, median(of_speeds));
            ratios.entry(*name).or_default().insert(batch, quartiles(of_ratios));
        }
    }
    Ok((speeds, ratios))
}
