//! The native bench, `examples/bench`.

use crate::cargo;
use crate::process::minutes;
use anyhow::Result;

/// What its command prints, given further arguments.
pub fn output(command: &[&str], arguments: &[String]) -> Result<String> {
    cargo::task("bench")
        .args(["run", "--release", "--package", "tabloom", "--example", "bench", "--"])
        .args(command)
        .args(arguments)
        .limit(minutes(60))
        .output()
}
