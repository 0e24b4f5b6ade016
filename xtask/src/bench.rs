//! `cargo xtask bench`: speed and size in one table. Each source of numbers gives rows; adding
//! a source is adding a function to `SOURCES`.

use crate::process::minutes;
use crate::{cargo, package};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

type Source = fn(&Options) -> Result<Vec<Row>>;

const SOURCES: [Source; 2] = [native, package_sizes];

#[derive(clap::Args)]
pub struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Passed on to examples/bench.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// One measured number.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Row {
    /// Where it was measured: an adapter's name, or what was weighed.
    on: String,
    /// What was measured, e.g. `decode, batch 4`.
    name: String,
    value: f64,
    unit: String,
}

pub fn run(options: &Options) -> Result<()> {
    let mut rows = Vec::new();
    for source in SOURCES {
        rows.extend(source(options)?);
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("\n{}", table(&rows));
    }
    Ok(())
}

/// The rows that examples/bench prints as JSON.
fn native(options: &Options) -> Result<Vec<Row>> {
    let text = cargo::task("bench")
        .args(["run", "--release", "--package", "tabloom", "--example", "bench", "--", "--json"])
        .args(&options.arguments)
        .limit(minutes(60))
        .output()?;
    serde_json::from_str(&text).context("examples/bench --json printed something else than rows")
}

fn package_sizes(_: &Options) -> Result<Vec<Row>> {
    let sizes = package::sizes(&package::build()?)?;
    let row = |name: &str, bytes: u64| Row {
        on: "package".into(),
        name: name.into(),
        value: bytes as f64 / 1024.0,
        unit: "KiB".into(),
    };
    let total = sizes.total();
    Ok(vec![
        row("wasm, raw", sizes.wasm.raw),
        row("wasm, brotli", sizes.wasm.brotli),
        row("JavaScript, raw", sizes.script.raw),
        row("JavaScript, brotli", sizes.script.brotli),
        row("wasm and JavaScript, raw", total.raw),
        row("wasm and JavaScript, brotli", total.brotli),
    ])
}

/// The rows as text, grouped by where they were measured.
fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    let mut on = None;
    for row in rows {
        if on != Some(&row.on) {
            text += &format!("{}\n", row.on);
            on = Some(&row.on);
        }
        text += &format!("  {:width$} {:>12} {}\n", row.name, number(row.value), row.unit);
    }
    text
}

/// Three digits or so: more would pretend to a precision that measurements lack.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(on: &str, name: &str, value: f64) -> Row {
        Row { on: on.into(), name: name.into(), value, unit: "tokens/s".into() }
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
    fn rows_are_read_as_they_are_written() {
        let rows = vec![row("A", "decode", 1.5)];
        let text = serde_json::to_string(&rows).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Row>>(&text).unwrap(), rows);
    }
}
