//! Cargo from inside: its targets, and the files a build made.

use crate::process::{Task, minutes};
use crate::workspace;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub const WASM: &str = "wasm32-unknown-unknown";

/// The integration tests that need published files.
pub const REAL: &str = "real";

/// A cold build on two slow cores stays well below this.
const LIMIT: Duration = minutes(40);

/// A cargo command in the workspace root.
pub fn task(what: &str) -> Task {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Task::new(what, cargo, LIMIT).dir(workspace::root())
}

static LINTS: AtomicBool = AtomicBool::new(false);

/// Has Clippy compile what [`build`] compiles from now on: `cargo clippy` would check all dependencies
/// beside, which takes longer than linting.
pub fn lint_builds() {
    LINTS.store(true, Ordering::Relaxed);
}

/// A cargo command that compiles the workspace's crates; a lint is an error after [`lint_builds`].
pub fn build(what: &str) -> Task {
    if !LINTS.load(Ordering::Relaxed) {
        return task(what);
    }
    // As `cargo clippy -- -D warnings` calls its driver, to which this is how arguments are told apart.
    task(what)
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")
}

/// The integration tests of the crate `tabloom`, by where they run.
#[derive(Debug, Default, PartialEq)]
pub struct TestTargets {
    pub pure: Vec<String>,    // everything else but `real`
    pub gpu: Vec<String>,     // tests/gpu: needs a native adapter
    pub browser: Vec<String>, // browser_*: run in a browser
}

impl TestTargets {
    /// Reads the workspace's test targets from `cargo metadata`.
    pub fn read() -> Result<Self> {
        let arguments = ["metadata", "--no-deps", "--format-version", "1"];
        let text = task("cargo metadata").args(arguments).output()?;
        let metadata: Value = serde_json::from_str(&text).context("cargo metadata")?;
        Ok(Self::sort(test_names(&metadata)))
    }

    fn sort<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut targets = Self::default();
        for name in names {
            let list = if name == REAL {
                continue;
            } else if name.starts_with("gpu") {
                &mut targets.gpu
            } else if name.starts_with("browser") {
                &mut targets.browser
            } else {
                &mut targets.pure
            };
            list.push(name.to_owned());
        }
        targets
    }
}

/// `--test NAME` for each name.
pub fn test_flags(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().flat_map(|name| ["--test", name])
}

fn test_names(metadata: &Value) -> impl Iterator<Item = &str> {
    list(&metadata["packages"])
        .flat_map(|package| list(&package["targets"]))
        .filter(|target| list(&target["kind"]).any(|kind| kind == "test"))
        .filter_map(|target| target["name"].as_str())
}

/// Where cargo keeps what it downloads.
pub fn home() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let default = || std::env::home_dir().map(|home| home.join(".cargo"));
    home.or_else(default).context("cannot tell where cargo keeps its files: set CARGO_HOME")
}

/// The version of the workspace package `name`.
pub fn version(name: &str) -> Result<String> {
    let text = task("cargo pkgid").args(["pkgid", "--package", name]).output()?;
    let version = text.trim().rsplit(['#', '@']).next();
    Ok(version.context("cargo pkgid gave no version")?.to_owned())
}

/// Runs a cargo command that builds and returns the wasm files it made, finished or fresh.
pub fn wasm_files(build: Task) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    build
        .args(["--target", WASM, "--message-format", "json-render-diagnostics"])
        .lines(|line| files.extend(wasm_in_message(line)))?;
    Ok(files)
}

/// Builds wasm-bindgen's programs, which are one, and returns it.
pub fn bindgen() -> Result<PathBuf> {
    program(task("building wasm-bindgen").args(["build", "--package", "bindgen"]))
}

/// Builds an example of the crate `tabloom` and returns its program.
pub fn example(name: &str) -> Result<PathBuf> {
    let build = build(&format!("building the example {name}"));
    program(build.args(["build", "--package", "tabloom", "--example", name]))
}

/// Runs a cargo command that builds a program, and returns that.
fn program(build: Task) -> Result<PathBuf> {
    let mut program = None;
    build.args(["--message-format", "json-render-diagnostics"]).lines(|line| {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        program = message["executable"].as_str().map(PathBuf::from).or(program.take());
    })?;
    program.context("cargo built no program")
}

/// The wasm file a line of cargo's JSON messages announces: of a cdylib or a test, not of a
/// library, even if it is a cdylib too.
fn wasm_in_message(line: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    if list(&message["target"]["kind"]).any(|kind| kind == "rlib") {
        return None;
    }
    let files = list(&message["filenames"]).filter_map(Value::as_str);
    files.map(PathBuf::from).find(|file| file.extension().is_some_and(|end| end == "wasm"))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn targets_are_sorted_by_name() {
        let metadata = json!({ "packages": [{ "targets": [
            { "kind": ["lib"], "name": "gpu_like_library" },
            { "kind": ["test"], "name": "gpu_kernels" },
            { "kind": ["test"], "name": "browser_worker" },
            { "kind": ["test"], "name": "goldens" },
            { "kind": ["test"], "name": "real" },
        ] }] });
        let targets = TestTargets::sort(test_names(&metadata));
        assert_eq!(targets.gpu, ["gpu_kernels"]);
        assert_eq!(targets.browser, ["browser_worker"]);
        assert_eq!(targets.pure, ["goldens"]);
    }

    #[test]
    fn wasm_files_are_found_in_messages() {
        let artifact = json!({ "reason": "compiler-artifact",
            "filenames": ["/t/deps/a.rmeta", "/t/a.wasm"] });
        assert_eq!(wasm_in_message(&artifact.to_string()), Some(PathBuf::from("/t/a.wasm")));
        let library = json!({ "reason": "compiler-artifact", "filenames": ["/t/a.rlib"] });
        assert_eq!(wasm_in_message(&library.to_string()), None);
        let both = json!({ "reason": "compiler-artifact", "filenames": ["/t/a.rlib", "/t/a.wasm"],
            "target": { "kind": ["rlib", "cdylib"] } });
        assert_eq!(wasm_in_message(&both.to_string()), None);
        assert_eq!(wasm_in_message("warning: not JSON"), None);
    }
}
