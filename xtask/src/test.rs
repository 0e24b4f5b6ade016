//! `cargo xtask test`: every check and test, and a summary. What cannot run fails; nothing is skipped
//! in silence.

mod check;
mod files;
mod pages;
mod parts;
mod rust;
mod tally;

use crate::{cargo, tools};
use anyhow::Result;
use check::{Check, Outcome};
use clap::ValueEnum;
use parts::Part;
use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// How many checks run at once. Each keeps about one core busy; browsers with software GPUs starve
/// each other where there are more.
const AT_ONCE: usize = 2;

#[derive(clap::Args)]
pub struct Options {
    /// Run only this part; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Run only the tests of these files below tests/: paths, or names without their endings.
    #[arg(long, num_args = 1.., conflicts_with = "only")]
    file: Vec<String>,
    /// Run only the most telling tenth.
    #[arg(long, conflicts_with_all = ["only", "file"])]
    quick: bool,
}

impl Options {
    /// Whether all is run.
    fn is_whole(&self) -> bool {
        !self.quick && self.file.is_empty() && self.only.is_empty()
    }

    fn checks(&self) -> Result<Vec<Check>> {
        if self.quick {
            return parts::quick();
        }
        if !self.file.is_empty() {
            return self.file.iter().map(|name| parts::file(name)).collect();
        }
        let all = Part::value_variants().iter();
        if self.is_whole() {
            return Ok(all.flat_map(|part| part.checks_among_all()).collect());
        }
        let wanted = |part: &&Part| self.only.contains(part);
        Ok(all.filter(wanted).flat_map(|part| part.checks()).collect())
    }
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let start = Instant::now();
    let checks = options.checks()?;
    tools::provide(checks.iter().flat_map(|check| check.tools.clone()))?;
    if options.is_whole() {
        cargo::lint_builds();
    }
    let outcomes = run_all(checks);
    println!("\n== summary");
    for outcome in &outcomes {
        println!("{outcome}");
    }
    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.passed()).collect();
    for outcome in &failed {
        println!("\n{}", outcome.report());
    }
    let took = start.elapsed().as_secs();
    println!("{} min {} s in all", took / 60, took % 60);
    println!("{} passed, {} failed", outcomes.len() - failed.len(), failed.len());
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs checks, `AT_ONCE` side by side, and gives their outcomes in the same order. A failure does not
/// keep others from running.
fn run_all(checks: Vec<Check>) -> Vec<Outcome> {
    let queue: Mutex<VecDeque<_>> = Mutex::new(checks.into_iter().enumerate().collect());
    let outcomes = Mutex::new(Vec::new());
    let next = || queue.lock().expect("no check panics").pop_front();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((place, check)) = next() {
                    let outcome = check.run();
                    outcomes.lock().expect("no check panics").push((place, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no check panics");
    outcomes.sort_by_key(|(place, _)| *place);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
