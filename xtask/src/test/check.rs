//! One thing to check: its name, what it needs, how it is done, and how it ended.

use super::tally::{Failed, Tally};
use crate::process::within;
use crate::tools::Tool;
use anyhow::Result;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The file below tests/ of a test that failed, if `--file` runs it as the check does.
type FileOf = fn(&str) -> Option<String>;
type Work = Box<dyn FnOnce() -> Result<Tally> + Send>;

/// A check that has not run yet.
pub struct Check {
    title: String,
    /// What `--only` calls the part it belongs to; its lines bear it.
    part: &'static str,
    /// The arguments of `cargo xtask test` that run it again.
    again: String,
    file_of: FileOf,
    pub tools: Vec<Tool>,
    work: Work,
}

impl Check {
    /// A check whose work counts tests, if it has any.
    pub fn new(
        part: &'static str,
        title: &str,
        tools: &[Tool],
        work: impl FnOnce() -> Result<Tally> + Send + 'static,
    ) -> Self {
        Self {
            title: title.into(),
            part,
            again: format!("--only {part}"),
            file_of: |_| None,
            tools: tools.to_vec(),
            work: Box::new(work),
        }
    }

    /// The same check, run again by other arguments.
    pub fn again_by(self, arguments: String) -> Self {
        Self { again: arguments, ..self }
    }

    /// The same check; if tests fail of which each has a file, only these files are run again.
    pub fn by_file(self, file_of: FileOf) -> Self {
        Self { file_of, ..self }
    }

    /// Does the work.
    pub fn run(self) -> Outcome {
        let start = Instant::now();
        let result = within(self.part, || {
            println!("{:>8} | == {}", self.part, self.title);
            (self.work)()
        });
        let took = start.elapsed();
        let Self { title, again, file_of, .. } = self;
        let outcome = Outcome { title, again, file_of, took, result };
        println!("{:>8} | == {outcome}", self.part);
        outcome
    }
}

/// How a check ended.
pub struct Outcome {
    title: String,
    again: String,
    file_of: FileOf,
    took: Duration,
    result: Result<Tally>,
}

impl Outcome {
    pub fn passed(&self) -> bool {
        self.result.is_ok()
    }

    /// What failed, and the command that runs it alone.
    pub fn report(&self) -> String {
        let error =
            self.result.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
        let failures: String = error.lines().skip(1).map(|line| format!("  {line}\n")).collect();
        format!("{}\n{failures}again: cargo xtask test {}", self.title, self.again())
    }

    fn again(&self) -> String {
        let error = self.result.as_ref().err().and_then(|error| error.downcast_ref::<Failed>());
        let files =
            error.and_then(|error| error.tests.iter().map(|it| (self.file_of)(it)).collect());
        match files.map(|files: BTreeSet<String>| Vec::from_iter(files).join(" ")) {
            Some(files) if !files.is_empty() => format!("--file {files}"),
            _ => self.again.clone(),
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        let (word, tests) = match &self.result {
            Ok(tally) if tally.passed > 0 => ("ok", format!("{} tests", tally.passed)),
            Ok(_) => ("ok", String::new()),
            Err(_) => ("FAILED", String::new()),
        };
        let seconds = self.took.as_secs_f64();
        write!(out, "{word:6}  {:44} {tests:>10} {seconds:6.0} s", self.title)?;
        if let Err(error) = &self.result {
            write!(out, "  {}", format!("{error:#}").lines().next().unwrap_or_default())?;
        }
        Ok(())
    }
}
