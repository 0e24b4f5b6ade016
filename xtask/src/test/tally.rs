//! Counts of tests and what failed, read from what test runners print.

use crate::process::{Task, say};
use anyhow::{Result, ensure};
use std::fmt;
use std::ops::AddAssign;

/// Runs tests, shows what they print and counts them. The error of tests that fail has a first line, and
/// below it what the runner says of them.
pub fn watch(task: Task, tally: &mut Tally) -> Result<()> {
    let mut failures = Failures::default();
    let ended = task.lines(|line| {
        say(line);
        tally.read(line);
        failures.read(line);
    });
    ended.map_err(|error| {
        let text = [vec![format!("{error:#}")], failures.lines].concat().join("\n");
        Failed { text, tests: failures.tests }.into()
    })
}

/// Tests failed: what is said of them, and the names that libtest or the files that Node gives of all.
#[derive(Debug)]
pub struct Failed {
    text: String,
    pub tests: Vec<String>,
}

impl std::error::Error for Failed {}

impl fmt::Display for Failed {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// The beginning of what a test runner says of tests that failed.
#[derive(Default)]
struct Failures {
    begun: bool,
    lines: Vec<String>,
    tests: Vec<String>,
}

impl Failures {
    const LINES: usize = 12;

    /// Takes in a line of what libtest prints after `failures:` or Node's spec reporter after
    /// `✖ failing tests:`; others say nothing of failures.
    fn read(&mut self, line: &str) {
        if line == "failures:" || line == "✖ failing tests:" {
            self.begun = true;
        } else if line.starts_with("test result: ") {
            self.begun = false;
        } else if self.begun {
            self.tests.extend(name_in(line));
            if self.lines.len() < Self::LINES && !is_frame_or_empty(line) {
                self.lines.push(line.to_owned());
            }
        }
    }
}

/// The name in `---- NAME stdout ----` of libtest, or in `test at NAME:3:1` of Node.
fn name_in(line: &str) -> Option<String> {
    let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
    let file = || line.strip_prefix("test at ")?.rsplitn(3, ':').nth(2);
    name.or_else(file).map(str::to_owned)
}

fn is_frame_or_empty(line: &str) -> bool {
    let text = line.trim();
    text.is_empty() || text.starts_with("at ")
}

/// How many tests passed, failed and were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Tally {
    /// Counts a summary line of libtest or wasm-bindgen-test
    /// (`test result: ok. 3 passed; 0 failed; 1 ignored; …`) or of Node's spec reporter
    /// (`ℹ pass 3`); other lines count nothing.
    pub fn read(&mut self, line: &str) {
        if let Some(summary) = line.strip_prefix("test result: ") {
            for count in summary.split([';', '.']) {
                let mut words = count.split_whitespace();
                let number = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
                self.add(words.next().unwrap_or_default(), number);
            }
        } else if let Some(summary) = line.strip_prefix("ℹ ") {
            let mut words = summary.split_whitespace();
            let word = words.next().unwrap_or_default();
            self.add(word, words.next().and_then(|number| number.parse().ok()).unwrap_or(0));
        }
    }

    fn add(&mut self, word: &str, number: u64) {
        match word {
            "passed" | "pass" => self.passed += number,
            "failed" | "fail" | "cancelled" => self.failed += number,
            "ignored" | "skipped" | "todo" => self.skipped += number,
            _ => {}
        }
    }

    /// Fails unless tests ran and none failed or was left out.
    pub fn check(self) -> Result<Self> {
        ensure!(self.failed == 0, "{} of {} tests failed", self.failed, self.passed + self.failed);
        ensure!(self.skipped == 0, "{} tests were skipped: none may be", self.skipped);
        ensure!(self.passed > 0, "no test ran");
        Ok(self)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn libtest_summaries_add_up() {
        let tally = read(&[
            "running 4 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.1s",
            "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
        ]);
        assert_eq!(tally, Tally { passed: 8, failed: 2, skipped: 1 });
    }

    #[test]
    fn node_summaries_are_read() {
        let tally = read(&[
            "✔ answers (10ms)",
            "ℹ tests 6",
            "ℹ pass 2",
            "ℹ fail 1",
            "ℹ cancelled 1",
            "ℹ skipped 1",
            "ℹ todo 1",
            "ℹ duration_ms 1234.5",
        ]);
        assert_eq!(tally, Tally { passed: 2, failed: 2, skipped: 2 });
    }

    #[test]
    fn what_failed_is_kept() {
        let read = |lines: &[&str]| {
            let mut failures = Failures::default();
            lines.iter().for_each(|line| failures.read(line));
            failures.lines
        };
        let libtest =
            ["test a ... FAILED", "", "failures:", "", "---- a stdout ----", "left: 1", ""];
        let names = ["failures:", "    a", "test result: FAILED. 0 passed; 1 failed", "more"];
        assert_eq!(
            read(&[&libtest[..], &names].concat()),
            ["---- a stdout ----", "left: 1", "    a"]
        );
        let node = [
            "✖ a (2ms)",
            "ℹ fail 1",
            "✖ failing tests:",
            "",
            "✖ a (2ms)",
            "  Error: no",
            "    at b:1:2",
        ];
        assert_eq!(read(&node), ["✖ a (2ms)", "  Error: no"]);
        assert!(read(&["✔ a (2ms)", "test b ... ok"]).is_empty());
        let many = [&["failures:"][..], &["a line"; 2 * Failures::LINES]].concat();
        assert_eq!(read(&many).len(), Failures::LINES);
    }

    #[test]
    fn tests_that_failed_are_named() {
        let name = |line| name_in(line).unwrap_or_default();
        assert_eq!(name("---- cache::a_model stdout ----"), "cache::a_model");
        assert_eq!(name("test at tests/e2e/chat.test.mjs:28:1"), "tests/e2e/chat.test.mjs");
        assert_eq!(name("✖ a (2ms)"), "");
    }

    #[test]
    fn only_complete_runs_pass() {
        assert!(Tally { passed: 1, failed: 0, skipped: 0 }.check().is_ok());
        assert!(Tally { passed: 0, failed: 0, skipped: 0 }.check().is_err());
        assert!(Tally { passed: 1, failed: 1, skipped: 0 }.check().is_err());
        assert!(Tally { passed: 1, failed: 0, skipped: 1 }.check().is_err());
    }
}
