//! `cargo xtask bench`: speed and size in one table. Each source of numbers gives rows; adding
//! a source is adding a function to `SOURCES`. `cargo xtask bench serve`: many tabs on one engine.
//! `cargo xtask bench load`: how a model comes to the GPU. `cargo xtask bench speculate`: what
//! speculative decoding brings.

mod load;
mod native;
mod rows;

use crate::process::{Task, minutes};
use crate::server::Server;
use crate::sizes::Part;
use crate::tools::{self, Tool};
use crate::{package, site, workspace};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

use rows::{Row, table};

type Source = fn(&Options) -> Result<Vec<Row>>;

const SOURCES: [Source; 3] = [on_gpu, browser, package_sizes];

#[derive(Clone, clap::Args)]
pub struct Options {
    /// What to measure instead of speed and size.
    what: Option<What>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Compare with the rows that `--json` wrote to this file before.
    #[arg(long, conflicts_with = "what")]
    against: Option<PathBuf>,
    /// MiB of the model that `load` makes up.
    #[arg(long, default_value_t = 1024)]
    size: u64,
    /// Passed on to examples/bench.
    #[arg(last = true)]
    arguments: Vec<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// How long many tabs wait for one engine.
    Serve,
    /// How fast a model loads, stage by stage, and how much memory that takes.
    Load,
    /// Tokens per step with speculative decoding, and the speed-up.
    Speculate,
}

pub fn run(options: &Options) -> Result<()> {
    let mut needed = Vec::new();
    if !matches!(options.what, Some(What::Serve | What::Speculate)) {
        needed.extend(tools::SITE.into_iter().chain([Tool::Chromium]));
    }
    // Where there is no other, the bench runs on the software adapter.
    if !matches!(options.what, Some(What::Serve)) && !tools::has_driver() {
        needed.push(Tool::Lavapipe);
    }
    tools::provide(needed)?;
    match options.what {
        Some(What::Serve) => return native_alone(options, "serve"),
        Some(What::Speculate) => return native_alone(options, "speculate"),
        Some(What::Load) => return load::run(options.size, options.json, &options.arguments),
        None => {}
    }
    let mut rows = Vec::new();
    for source in SOURCES {
        rows.extend(source(options)?);
    }
    if let Some(file) = &options.against {
        let before = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let before: Vec<Row> = serde_json::from_slice(&before).context("no rows of a bench")?;
        print!("\n{}", table(&compared(&before, rows)));
    } else if options.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("\n{}", table(&rows));
    }
    Ok(())
}

/// The rows of now, each with what it was before: counts and bytes exactly, times and rates as a ratio.
fn compared(before: &[Row], now: Vec<Row>) -> Vec<Row> {
    let compare = |mut row: Row| {
        let old = before.iter().find(|old| (&old.on, &old.name) == (&row.on, &row.name));
        let exact = ["", "MB", "MiB", "KiB"].contains(&row.unit.as_str());
        row.unit += &match old.map(|old| old.value) {
            None => "  new".into(),
            Some(old) if exact && old == row.value => "  =".into(),
            Some(old) if exact => format!("  before {old}"),
            Some(old) => format!("  x {:.2}", row.value / old),
        };
        row
    };
    now.into_iter().map(compare).collect()
}

/// Prints what a command of examples/bench does.
fn native_alone(options: &Options, command: &str) -> Result<()> {
    let json = options.json.then_some("--json");
    let arguments: Vec<&str> = [command].into_iter().chain(json).collect();
    print!("{}", native::output(&arguments, &options.arguments)?);
    Ok(())
}

/// The rows that examples/bench prints as JSON.
fn on_gpu(options: &Options) -> Result<Vec<Row>> {
    let text = native::output(&["--json"], &options.arguments)?;
    serde_json::from_str(&text).context("examples/bench --json printed something else than rows")
}

/// What tests/e2e/bench.mjs measures of the package in headless Chromium.
fn browser(_: &Options) -> Result<Vec<Row>> {
    let chromium = tools::chromium()?;
    let server = Server::start(site::build()?, 0)?;
    let text = Task::new("bench in the browser", tools::node()?, minutes(30))
        .arg("tests/e2e/bench.mjs")
        .dir(workspace::root())
        .env("TABLOOM_URL", server.url())
        .env("TABLOOM_CHROMIUM", chromium)
        .output()?;
    serde_json::from_str(&text).context("tests/e2e/bench.mjs printed something else than rows")
}

fn package_sizes(_: &Options) -> Result<Vec<Row>> {
    let sizes = package::sizes(package::build()?)?;
    let row = |name: &str, bytes: u64| Row::new("package", name, bytes as f64 / 1024.0, "KiB");
    let total = sizes.total();
    let wasm = sizes.sum(|file| file.part == Part::Worker && file.path.ends_with(".wasm"));
    let client = sizes.part(Part::Client);
    let on_demand = sizes.part(Part::OnDemand);
    Ok(vec![
        row("wasm, raw", wasm.raw),
        row("wasm, brotli", wasm.brotli),
        row("JavaScript of the page, raw", client.raw),
        row("JavaScript of the page, brotli", client.brotli),
        row("wasm and JavaScript, raw", total.raw),
        row("wasm and JavaScript, brotli", total.brotli),
        row("on demand, raw", on_demand.raw),
        row("on demand, brotli", on_demand.brotli),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(on: &str, name: &str, value: f64) -> Row {
        Row::new(on, name, value, "tokens/s")
    }

    #[test]
    fn the_table_groups_by_place() {
        let rows =
            [row("A", "decode, batch 1", 3.25), row("A", "prefill", 1234.5), row("B", "x", 10.04)];
        let expected = "\
A
  decode, batch 1         3.25 tokens/s
  prefill                 1234 tokens/s
B
  x                       10.0 tokens/s
";
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn counts_are_compared_exactly_and_rates_by_their_ratio() {
        let count = |value| Row::new("A", "bind groups", value, "");
        let now = vec![row("A", "decode", 3.0), count(8.0), row("B", "decode", 3.0)];
        let units = |before: &[Row]| compared(before, now.clone()).into_iter().map(|row| row.unit);
        let found: Vec<_> = units(&[row("A", "decode", 2.0), count(8.0)]).collect();
        assert_eq!(found, ["tokens/s  x 1.50", "  =", "tokens/s  new"]);
        assert!(units(&[count(8.5)]).any(|unit| unit == "  before 8.5"));
    }

    #[test]
    fn rows_are_read_as_they_are_written() {
        let rows = vec![row("A", "decode", 1.5)];
        let text = serde_json::to_string(&rows).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Row>>(&text).unwrap(), rows);
    }
}
