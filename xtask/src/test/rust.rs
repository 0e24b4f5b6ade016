//! Formatting, lints and tests of the Rust code: native, on software adapters, in browsers.

use super::tally::{Tally, watch};
use crate::cargo::{self, TestTargets, WASM, test_flags};
use crate::process::{Task, minutes, say};
use crate::tools::{self, Adapter};
use crate::{wasm, workspace};
use anyhow::{Result, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whole models run on software adapters here.
const NATIVE_LIMIT: Duration = minutes(40);
const BROWSER_LIMIT: Duration = minutes(15);

/// For tests that compute little: the crate compiles four times as fast, and is several times slower.
const UNOPTIMISED: [&str; 2] = ["--config", "profile.dev.package.tabloom.opt-level=0"];

/// The crates with code to lint and to test: all but the one that only starts wasm-bindgen.
const CRATES: [&str; 3] = ["--workspace", "--exclude", "bindgen"];

pub fn format() -> Result<()> {
    cargo::task("cargo fmt").args(["fmt", "--all", "--check"]).run()
}

/// Lints what [`cargo::lint_builds`] does not see in the native tests' builds.
pub fn clippy_beyond_tests() -> Result<()> {
    browser_tests("lints of the wasm modules", &TestTargets::read()?.browser).map(drop)
}

/// Builds tests that run in browsers, and the wasm modules: together, what they depend on is compiled once, and
/// sooner than its optimised code would save.
fn browser_tests(what: &str, tests: &[String]) -> Result<Vec<PathBuf>> {
    let build = cargo::build(what)
        .args(["build", "--package", "tabloom", "--lib"])
        .args(wasm::packages().flat_map(|package| ["--package", package]))
        .args(["--config", "profile.dev.opt-level=0"])
        .args(test_flags(tests));
    let mut files = cargo::wasm_files(build)?;
    files.retain(|file| tests.iter().any(|test| test == test_name(file)));
    files.sort();
    ensure!(files.len() == tests.len(), "not every browser test was built");
    Ok(files)
}

pub fn clippy() -> Result<()> {
    let arguments = ["--all-targets", "--", "-D", "warnings"];
    cargo::task("clippy").arg("clippy").args(CRATES).args(arguments).run()?;
    let targets = TestTargets::read()?;
    cargo::task("clippy for wasm")
        .args(["clippy", "--target", WASM, "--lib", "--package", "tabloom"])
        .args(wasm::packages().flat_map(|package| ["--package", package]))
        .args(test_flags(&targets.browser))
        .args(["--", "-D", "warnings"])
        .run()
}

/// The tests of all crates that need no browser, and the examples in their documentation.
pub fn native() -> Result<Tally> {
    let targets = TestTargets::read()?;
    let mut tally = Tally::default();
    let test = |what| cargo::build(what).arg("test").limit(NATIVE_LIMIT);
    // Of all crates at once: without tabloom, and so without its tests' needs, what it depends on would have other
    // features, and be compiled once more.
    let unit = test("unit tests").args(CRATES).arg("--lib").args(UNOPTIMISED);
    let native = test("native tests")
        .args(CRATES)
        .args(["--no-fail-fast", "--bins", "--examples"])
        .args(test_flags(&targets.pure));
    let documentation = test("documentation tests").args(CRATES).arg("--doc");
    let adapter = tools::lavapipe()?;
    let tests = [unit, native, documentation];
    let outcomes = tests.map(|tests| watch(adapter.select(tests), &mut tally));
    let mut failed: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    ensure!(
        failed.len() < 2,
        "{}",
        failed.iter().map(|it| format!("{it:#}")).collect::<Vec<_>>().join("\n")
    );
    failed.pop().map_or_else(|| tally.check(), Err)
}

/// Parts of the names of tests that one adapter is enough for: they use none, or run whole models, or products
/// of all layouts, by the kernels of graphics hardware, which takes minutes where barriers are emulated, or look at
/// how thousands of samples are spread, which are the CPU's on each adapter.
pub const ON_ONE_ADAPTER: [&str; 4] = [
    "models::the_cpu_agrees",
    "same_answer::on_the_cpu",
    "kernels_of_graphics_hardware",
    "transformers::samples_follow_the_probabilities",
];

/// The kernels and models on one adapter, but for the tests whose names contain one of `skipped`.
pub fn gpu(adapter: &Adapter, skipped: &[&str]) -> Result<Tally> {
    let targets = TestTargets::read()?;
    ensure!(!targets.gpu.is_empty(), "there are no GPU tests: none is named tests/gpu*");
    let tests = cargo::build("GPU tests")
        .args(["test", "--package", "tabloom", "--no-fail-fast"])
        .args(test_flags(&targets.gpu))
        .arg("--")
        .args(skipped.iter().flat_map(|test| ["--skip", test]))
        .limit(NATIVE_LIMIT);
    let mut tally = Tally::default();
    watch(adapter.select(tests), &mut tally)?;
    tally.check()
}

/// The tests of a target whose names begin with one of `filters`, or all.
pub fn target(name: &str, filters: &[&str]) -> Result<Tally> {
    let tests = cargo::build(name)
        .args(["test", "--package", "tabloom", "--test", name, "--"])
        .args(filters)
        .limit(NATIVE_LIMIT);
    let mut tally = Tally::default();
    watch(tools::lavapipe()?.select(tests), &mut tally)?;
    tally.check()
}

/// The browser tests whose names begin with `prefix`.
pub fn in_chromium(prefix: &str) -> Result<Tally> {
    let (driver, bindgen) = (tools::chromedriver()?, cargo::bindgen()?);
    in_browser(&|test| test.starts_with(prefix), |name, binary| {
        Task::new(name, &bindgen, BROWSER_LIMIT)
            .arg("wasm-bindgen-test-runner")
            .arg(binary)
            .dir(workspace::root())
            .env("CHROMEDRIVER", &driver)
            .env("WASM_BINDGEN_TEST_WEBDRIVER_JSON", workspace::root().join("webdriver.json"))
            .env("WASM_BINDGEN_TEST_TIMEOUT", "600")
    })
}

pub fn in_firefox() -> Result<Tally> {
    let (in_page, firefox, adapter) = (in_page()?, tools::firefox()?, tools::lavapipe()?);
    in_browser(&|_| true, |name, binary| {
        adapter.select(in_page(name, binary).env("TABLOOM_FIREFOX", &firefox))
    })
}

/// In WebKitGTK, which has no WebGPU: the tests that need none.
pub fn in_webkit() -> Result<Tally> {
    let (in_page, driver) = (in_page()?, tools::webkit_driver()?);
    let tests = ["browser_fetch", "browser_regex", "browser_shared_worker"];
    in_browser(&|test| tests.contains(&test), |name, binary| {
        in_page(name, binary).args(["--skip", "the_gpu"]).env("TABLOOM_WEBKIT", &driver)
    })
}

/// What runs a test's binary in a browser that the runner does not steer.
fn in_page() -> Result<impl Fn(&str, &Path) -> Task> {
    let (node, bindgen) = (tools::node()?, cargo::bindgen()?);
    Ok(move |name: &str, binary: &Path| {
        Task::new(name, &node, BROWSER_LIMIT)
            .arg("tests/in-page.mjs")
            .args([&*bindgen, binary])
            .dir(workspace::root())
    })
}

/// Runs the browser tests that are `wanted`, each by the task that is made of its name and its binary.
fn in_browser(wanted: &dyn Fn(&str) -> bool, task: impl Fn(&str, &Path) -> Task) -> Result<Tally> {
    let mut tests = TestTargets::read()?.browser;
    tests.retain(|name| wanted(name));
    ensure!(!tests.is_empty(), "there are no such browser tests");
    let binaries = browser_tests("the browser tests' build", &tests)?;

    let mut total = Tally::default();
    let mut failed = Vec::new();
    for binary in binaries {
        let name = test_name(&binary);
        say(name);
        let mut tally = Tally::default();
        let outcome = watch(task(name, &binary), &mut tally).and_then(|()| tally.check());
        if let Err(error) = outcome {
            let failure = format!("{name}: {error:#}");
            say(&failure);
            failed.push(failure);
        }
        total += tally;
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    total.check()
}

/// The name of a test binary without the hash that cargo appends.
fn test_name(binary: &Path) -> &str {
    let stem = binary.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    stem.rsplit_once('-').map_or(stem, |(name, _)| name)
}
