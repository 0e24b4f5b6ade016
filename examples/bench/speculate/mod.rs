//! The speed-up of speculative decoding with the built-in model.

mod prompts;
mod report;
mod rows;
mod runner;

use std::{collections::BTreeMap, fmt};

use anyhow::Result;
use tabloom::{executor::AnyExecutor, load::Device};

use report::{ALL, Figures, Report};
use rows::quartiles;
use runner::{DraftBy, Drafting, Ran, Ready};

/// The drafters on the device, by name.
const DRAFTERS: [(&str, DraftBy); 3] =
    [("head", DraftBy::Head), ("model", DraftBy::Model), ("early exit", DraftBy::EarlyExit)];

/// Measure the speed-up of speculative decoding with the built-in model.
#[derive(clap::Args)]
pub struct Options {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Run on the CPU instead of the GPU.
    #[arg(long)]
    cpu: bool,
    /// Draft tokens per step, if their number is fixed.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=7))]
    drafts: u8,
    /// Number of runs of each kind; the kinds alternate.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..))]
    rounds: u8,
    /// Batch sizes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    batches: Vec<usize>,
    /// Measure only speeds, not tokens per step.
    #[arg(long)]
    speed: bool,
}

pub async fn run(options: &Options) -> Result<()> {
    let device = if options.cpu { Device::Cpu } else { Device::Gpu };
    let (drafts, rounds) = (usize::from(options.drafts), usize::from(options.rounds));
    let mut costs = BTreeMap::new();
    let mut model = runner::load(device, DraftBy::Nothing).await?;
    let prompts = prompts::prompts(&model.chat)?;
    let adapter = match &model.loaded.executor {
        AnyExecutor::Gpu(executor) => executor.gpu().adapter.name.clone(),
        AnyExecutor::Cpu(_) => "the CPU".into(),
    };
    for (name, kind) in DRAFTERS {
        eprintln!("{adapter}: steps, {name}");
        model = runner::load(device, kind).await?;
        let found = rows::measure(&mut model.loaded.executor, drafts, 20 * rounds).await?;
        eprintln!("{found:.2?}");
        costs.insert(name, found);
    }
    drop(model);
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
        draft_costs: costs.iter().map(|(name, of)| (*name, of.draft)).collect(),
        follow_costs: costs.iter().map(|(name, of)| (*name, of.follow)).collect(),
        row_costs: costs["head"].rows.clone(),
        step_seconds: costs["head"].step,
    };
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => print!("{}", report.text()),
    }
    Ok(())
}

/// Tokens per step of the target model, by drafter and task.
async fn tokens_per_step(
    device: Device,
    drafts: usize,
    prompts: &BTreeMap<String, Vec<Vec<u32>>>,
) -> Result<Figures<String>> {
    let mut found = Figures::new();
    let mut drafters = vec![
        ("none", false, DraftBy::Nothing),
        ("lookup", true, DraftBy::Nothing),
        ("both", true, DraftBy::Head),
    ];
    drafters.extend(DRAFTERS.map(|(name, kind)| (name, false, kind)));
    for (name, lookup, kind) in drafters {
        eprintln!("tokens per step, {name}");
        let most = if name == "none" { 0 } else { drafts };
        let ready = Ready::load(device, kind).await?;
        let mut runner = ready.runner(Drafting { lookup, most, adaptive: false });
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

/// Tokens per second by batch size, and the speed-up over decoding without drafts.
async fn speeds(
    device: Device,
    drafts: usize,
    options: &Options,
    prompts: &[Vec<u32>],
) -> Result<(Figures<usize>, Figures<usize, [f64; 3]>)> {
    // All share one executor, so that only the drafting differs.
    let ready = Ready::load(device, DraftBy::Head).await?;
    let off = Drafting { lookup: false, most: 0, adaptive: false };
    let fixed = Drafting { lookup: true, most: drafts, adaptive: false };
    let adaptive = Drafting { most: tabloom::step::MAX_DRAFTS, adaptive: true, ..fixed };
    let mut runners = [("off", off), ("adaptive", adaptive), ("fixed", fixed)]
        .map(|(name, drafting)| (name, ready.runner(drafting)));
    let (mut speeds, mut ratios) = (Figures::new(), Figures::new());
    let rounds = usize::from(options.rounds);
    for &batch in &options.batches {
        eprintln!("tokens a second, {batch} at a time");
        // With batch 1, alternate after each answer: the machine's speed can change within a round.
        let turn = if batch == 1 { 1 } else { prompts.len() };
        let (mut all, mut of_rounds) = (Speeds::default(), BTreeMap::<_, Vec<f64>>::new());
        // The first round is a warm-up.
        for round in 0..=rounds {
            let mut found = Speeds::default();
            for prompts in prompts.chunks(turn) {
                // Rotate the order, so that none is always first.
                runners.rotate_left(1);
                for (name, runner) in &mut runners {
                    found.add(name, runner.run(prompts, batch).await?);
                }
            }
            for (name, ran) in found.0.iter().filter(|_| round > 0) {
                all.add(name, *ran);
                of_rounds.entry(*name).or_default().push(found.over_off(name));
            }
            eprintln!("  {found}");
        }
        for (name, of_rounds) in of_rounds {
            let [low, _, high] = quartiles(of_rounds);
            speeds.entry(name).or_default().insert(batch, all.of(name));
            ratios.entry(name).or_default().insert(batch, [low, all.over_off(name), high]);
        }
    }
    Ok((speeds, ratios))
}

/// Measurements by name of the drafting.
#[derive(Default)]
struct Speeds(BTreeMap<&'static str, Ran>);

impl Speeds {
    fn add(&mut self, name: &'static str, ran: Ran) {
        self.0.entry(name).or_default().add(ran);
    }

    fn of(&self, name: &str) -> f64 {
        self.0.get(name).map_or(f64::NAN, Ran::tokens_per_second)
    }

    fn over_off(&self, name: &str) -> f64 {
        self.of(name) / self.of("off")
    }
}

impl fmt::Display for Speeds {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let speed = |(name, ran): (&&str, &Ran)| format!("{name}: {:.0}", ran.tokens_per_second());
        f.write_str(&self.0.iter().map(speed).collect::<Vec<_>>().join(", "))
    }
}
