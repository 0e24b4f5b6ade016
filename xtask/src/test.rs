//! `cargo xtask test`: every check and test, part by part, and a summary. A part that cannot
//! run fails; nothing is skipped in silence.

use crate::cargo::{self, TestTargets, WASM, test_flags};
use crate::process::{Task, minutes};
use crate::provision::{self, Adapter, Firefox};
use crate::serve::Site;
use crate::tally::Tally;
use crate::{docs, package, site, wasm, workspace};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Whole models run on software adapters here.
const NATIVE_LIMIT: Duration = minutes(40);
const BROWSER_LIMIT: Duration = minutes(15);

#[derive(clap::Args)]
pub struct Options {
    /// Run only this part; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    /// cargo fmt --check
    Fmt,
    /// Lints, native and for WebAssembly; a warning is an error
    Clippy,
    /// Native tests, those of the GPU on each software adapter
    Native,
    /// wasm-bindgen tests in headless Chromium, then in Firefox
    Browser,
    /// The native server, driven by the `openai` package, and the chat in the terminal
    Serve,
    /// The package as it is published: size, contents, types, apps made by Vite and webpack
    Package,
    /// The API reference, which must know all that it names
    Docs,
    /// The demo page, the examples and the package, driven by Playwright
    E2e,
    /// One engine for many tabs, driven by Playwright
    Tabs,
    /// The demo page and the element in Firefox
    Firefox,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    // Asked for now: a rebuild may replace the file under the running program.
    let runner = std::env::current_exe().context("cannot find the running program")?;
    let wanted = |part| options.only.is_empty() || options.only.contains(&part);
    let mut report = Report::default();
    if wanted(Part::Fmt) {
        report.part("formatting", || format().map(|()| None));
    }
    if wanted(Part::Clippy) {
        report.part("clippy, native", || clippy_native().map(|()| None));
        report.part("clippy, wasm", || clippy_wasm().map(|()| None));
    }
    if wanted(Part::Native) {
        report.part("native tests", || native().map(Some));
        match provision::adapters() {
            Ok(adapters) => {
                for adapter in adapters {
                    let name = format!("GPU tests on {}", adapter.name);
                    report.part(&name, || gpu(&adapter).map(Some));
                }
            }
            Err(error) => report.part("GPU tests", || Err(error)),
        }
    }
    if wanted(Part::Browser) {
        report.part("browser tests in Chromium", || in_chromium(&runner).map(Some));
        report.part("browser tests in Firefox", || in_firefox(&runner).map(Some));
    }
    if wanted(Part::Serve) {
        report.part("tests of the native examples", || serve().map(Some));
    }
    if wanted(Part::Package) {
        report.part("the package's size", || package::run(&Default::default()).map(|()| None));
        report.part("tests of the package", || package_tests().map(Some));
    }
    if wanted(Part::Docs) {
        report.part("the API reference", || docs::run().map(|()| None));
    }
    if wanted(Part::E2e) {
        report.part("end-to-end tests", || end_to_end("tests/e2e").map(Some));
    }
    if wanted(Part::Tabs) {
        report.part("tests of many tabs", || end_to_end("tests/e2e/tabs").map(Some));
    }
    if wanted(Part::Firefox) {
        report.part("the demo page and the element in Firefox", || pages_in_firefox().map(Some));
    }
    Ok(report.finish())
}

fn format() -> Result<()> {
    provision::rust_components()?;
    cargo::task("cargo fmt").args(["fmt", "--all", "--check"]).run()
}

fn clippy_native() -> Result<()> {
    provision::rust_components()?;
    let arguments = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    cargo::task("clippy").args(arguments).run()
}

fn clippy_wasm() -> Result<()> {
    provision::rust_components()?;
    provision::wasm_target()?;
    let targets = TestTargets::read()?;
    cargo::task("clippy for wasm")
        .args(["clippy", "--target", WASM, "--lib", "--package", "tabloom"])
        .args(wasm::packages().flat_map(|package| ["--package", package]))
        .args(test_flags(&targets.browser))
        .args(["--", "-D", "warnings"])
        .run()
}

fn native() -> Result<Tally> {
    let targets = TestTargets::read()?;
    let mut tally = Tally::default();
    let tests = cargo::task("native tests")
        .args(["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--examples"])
        .args(test_flags(&targets.pure))
        .limit(NATIVE_LIMIT);
    let outcome = watch(tests, &mut tally);
    let documentation = cargo::task("documentation tests")
        .args(["test", "--workspace", "--doc"])
        .limit(NATIVE_LIMIT);
    let documentation = watch(documentation, &mut tally);
    outcome.and(documentation)?;
    tally.check()
}

fn gpu(adapter: &Adapter) -> Result<Tally> {
    let targets = TestTargets::read()?;
    ensure!(!targets.gpu.is_empty(), "there are no GPU tests: none is named tests/gpu*.rs");
    let tests = cargo::task("GPU tests")
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(test_flags(&targets.gpu))
        .limit(NATIVE_LIMIT);
    let mut tally = Tally::default();
    watch(adapter.select(tests), &mut tally)?;
    tally.check()
}

fn in_chromium(runner: &Path) -> Result<Tally> {
    let driver = provision::browser()?.driver;
    browser(|name, binary| {
        Task::new(name, runner, BROWSER_LIMIT)
            .arg("test-runner")
            .arg(binary)
            .dir(workspace::root())
            .env("CHROMEDRIVER", &driver)
            .env("WASM_BINDGEN_TEST_WEBDRIVER_JSON", workspace::root().join("webdriver.json"))
            .env("WASM_BINDGEN_TEST_TIMEOUT", "600")
    })
}

fn in_firefox(runner: &Path) -> Result<Tally> {
    provision::npm_packages()?;
    let (node, firefox) = (provision::node()?, Firefox::provide()?);
    browser(|name, binary| {
        let task = Task::new(name, &node, BROWSER_LIMIT)
            .arg("tests/in-firefox.mjs")
            .args([runner, binary])
            .dir(workspace::root());
        firefox.select(task)
    })
}

/// Runs each of the browser tests by the task that is made of its name and its binary.
fn browser(task: impl Fn(&str, &Path) -> Task) -> Result<Tally> {
    provision::wasm_target()?;
    let targets = TestTargets::read()?;
    ensure!(!targets.browser.is_empty(), "there are no browser tests: none is tests/browser*.rs");
    let build = ["test", "--package", "tabloom", "--no-run"];
    let arguments: Vec<&str> = build.into_iter().chain(test_flags(&targets.browser)).collect();
    let mut binaries = cargo::wasm_files("the browser tests' build", &arguments)?;
    binaries.sort();
    ensure!(binaries.len() == targets.browser.len(), "not every browser test was built");

    let mut total = Tally::default();
    let mut failed = Vec::new();
    for binary in binaries {
        let name = test_name(&binary);
        println!("  {name}");
        let mut tally = Tally::default();
        if let Err(error) = watch(task(&name, &binary), &mut tally).and_then(|()| tally.check()) {
            eprintln!("  {name}: {error:#}");
            failed.push(name);
        }
        total += tally;
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    total.check()
}

/// The name of a test binary without the hash that cargo appends.
fn test_name(binary: &Path) -> String {
    let stem = binary.file_stem().unwrap_or_default().to_string_lossy();
    stem.rsplit_once('-').map_or(&*stem, |(name, _)| name).to_owned()
}

/// Runs the tests that lie in a folder itself, not those in folders below.
fn end_to_end(folder: &str) -> Result<Tally> {
    let chromium = provision::browser()?.chromium;
    let site = Site::start(&site::build()?, 0)?;
    let server = cargo::example("serve")?;
    node_tests("end-to-end tests", test_files(folder)?, |task| {
        task.env("TABLOOM_URL", site.url())
            .env("TABLOOM_CHROMIUM", chromium)
            .env("TABLOOM_SERVE", server)
    })
}

/// The same tests as in Chromium, but for the few that say why not.
fn pages_in_firefox() -> Result<Tally> {
    let firefox = Firefox::provide()?;
    let site = Site::start(&site::build()?, 0)?;
    let tests = ["chat", "demo-page", "element", "panel"]
        .map(|name| workspace::root().join(format!("tests/e2e/{name}.test.mjs")));
    node_tests("the demo page and the element in Firefox", tests, |task| {
        firefox.select(task.env("TABLOOM_URL", site.url()))
    })
}

fn package_tests() -> Result<Tally> {
    let chromium = provision::browser()?.chromium;
    let site = Site::start(&site::build()?, 0)?;
    let folder = workspace::target().join("packed");
    let pack = |name| package::pack(&package::build()?, &folder.join(name));
    let (tarball, again) = (pack("first")?, pack("again")?);
    ensure!(fs::read(&tarball)? == fs::read(again)?, "two builds gave two different packages");
    node_tests("tests of the package", test_files("tests/package")?, |task| {
        task.env("TABLOOM_URL", site.url())
            .env("TABLOOM_CHROMIUM", chromium)
            .env("TABLOOM_TARBALL", tarball)
    })
}

fn serve() -> Result<Tally> {
    provision::npm_packages()?;
    let (server, chat) = (cargo::example("serve")?, cargo::example("chat")?);
    let tests = test_files("tests/serve")?;
    node_tests("tests of the native examples", tests, |task| {
        task.env("TABLOOM_SERVE", server).env("TABLOOM_CHAT", chat)
    })
}

fn node_tests(
    what: &str,
    tests: impl IntoIterator<Item = PathBuf>,
    with: impl FnOnce(Task) -> Task,
) -> Result<Tally> {
    let mut tally = Tally::default();
    // Tests wait more than they compute; more Chromiums with software GPUs would starve each other.
    let task = Task::new(what, provision::node()?, minutes(30))
        .args(["--test", "--test-reporter=spec", "--test-concurrency=2"])
        .arg("--test-timeout=600000")
        .args(tests)
        .dir(workspace::root());
    watch(with(task), &mut tally)?;
    tally.check()
}

fn test_files(folder: &str) -> Result<Vec<PathBuf>> {
    let folder = workspace::root().join(folder);
    let entries = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(".test.mjs"));
    files.sort();
    ensure!(!files.is_empty(), "{} holds no *.test.mjs", folder.display());
    Ok(files)
}

/// Runs tests, shows what they print and counts them.
fn watch(task: Task, tally: &mut Tally) -> Result<()> {
    task.lines(|line| {
        println!("{line}");
        tally.read(line);
    })
}

#[derive(Default)]
struct Report {
    lines: Vec<String>,
    passed: usize,
    failed: usize,
}

impl Report {
    /// Runs one part and notes how it ended; a failure does not keep the next part from running.
    fn part(&mut self, name: &str, part: impl FnOnce() -> Result<Option<Tally>>) {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = part();
        let took = format!("{:.0} s", start.elapsed().as_secs_f64());
        self.lines.push(match &outcome {
            Ok(Some(tally)) => format!("ok      {name}: {} tests, {took}", tally.passed),
            Ok(None) => format!("ok      {name}, {took}"),
            Err(error) => format!("FAILED  {name}, {took}: {error:#}"),
        });
        match outcome {
            Ok(_) => self.passed += 1,
            Err(error) => {
                self.failed += 1;
                eprintln!("{name}: {error:#}");
            }
        }
    }

    /// Prints the summary; its last line is the count.
    fn finish(self) -> ExitCode {
        println!("\n== summary");
        for line in &self.lines {
            println!("{line}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
