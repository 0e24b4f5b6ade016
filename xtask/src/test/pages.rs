//! Tests that Node runs: of the package, the demo page and the native programs.

use super::tally::{Tally, watch};
use crate::once::Once;
use crate::process::{Task, minutes};
use crate::server::Server;
use crate::{cargo, crates, package, site, tools, workspace};
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// How many files run at once in Chromium: their tests wait longer than they compute.
const IN_CHROMIUM_AT_ONCE: usize = 2;

/// The native server and the chat in the terminal.
pub fn native_programs(files: Vec<PathBuf>) -> Result<Tally> {
    let (server, chat) = (cargo::example("serve")?, cargo::example("chat")?);
    run("tests of the native examples", files, 1, |task| {
        task.env("TABLOOM_SERVE", server).env("TABLOOM_CHAT", chat)
    })
}

/// The package as it is published.
pub fn of_package(files: Vec<PathBuf>) -> Result<Tally> {
    let (chromium, server) = (tools::chromium()?, Server::start(site::build()?, 0)?);
    let tarball = checked()?;
    run("tests of the package", files, 1, |task| {
        task.env("TABLOOM_URL", server.url())
            .env("TABLOOM_CHROMIUM", chromium)
            .env("TABLOOM_TARBALL", tarball)
    })
}

/// Which of the apps in tests/apps are built.
#[derive(Clone, Copy)]
pub enum Apps {
    /// Those that most sites are made with.
    Usual,
    All,
}

/// Apps that bundlers and frameworks make with the package.
pub fn of_apps(files: Vec<PathBuf>, which: Apps) -> Result<Tally> {
    let (chromium, server) = (tools::chromium()?, Server::start(site::build()?, 0)?);
    let tarball = tarball()?;
    run("tests of apps", files, 1, |task| {
        let task = task
            .env("TABLOOM_URL", server.url())
            .env("TABLOOM_CHROMIUM", chromium)
            .env("TABLOOM_TARBALL", tarball);
        match which {
            Apps::Usual => task,
            Apps::All => task.env("TABLOOM_APPS", "all"),
        }
    })
}

/// The package as it is published; packed when it is first asked for.
fn tarball() -> Result<&'static Path> {
    static TARBALL: Once = Once::new();
    TARBALL.get(|| package::pack(package::build()?, &packed("first")))
}

/// The same, checked as a whole: whoever builds it gets the same.
fn checked() -> Result<&'static Path> {
    static CHECKED: Once = Once::new();
    CHECKED.get(|| {
        let again = workspace::target().join("package-again");
        package::assemble(&again)?;
        let tarball = tarball()?;
        let same = fs::read(tarball)? == fs::read(package::pack(&again, &packed("again"))?)?;
        ensure!(same, "two builds gave two different packages");
        tools::script("xtask/js/published.mjs")?.arg(tarball).run()?;
        tools::script("xtask/js/advisories.mjs")?.arg(crates::names()?.to_string()).run()?;
        Ok(tarball.to_owned())
    })
}

/// A folder for a packed package.
fn packed(name: &str) -> PathBuf {
    workspace::target().join("packed").join(name)
}

/// Files below tests/e2e in Chromium.
pub fn in_chromium(files: Vec<PathBuf>) -> Result<Tally> {
    let (chromium, server) = (tools::chromium()?, Server::start(site::build()?, 0)?);
    let program = cargo::example("serve")?;
    run("end-to-end tests", files, IN_CHROMIUM_AT_ONCE, |task| {
        task.env("TABLOOM_URL", server.url())
            .env("TABLOOM_CHROMIUM", chromium)
            .env("TABLOOM_SERVE", program)
    })
}

/// The demo page and the element in Firefox: the same tests as in Chromium, but for the few that say
/// why not.
pub fn in_firefox() -> Result<Tally> {
    let (firefox, adapter) = (tools::firefox()?, tools::lavapipe()?);
    let server = Server::start(site::build()?, 0)?;
    let names = ["chat", "demo-page", "element", "panel"];
    let folder = workspace::root().join("tests/e2e");
    let files = names.map(|name| folder.join(format!("{name}.test.mjs")));
    run("the demo page and the element in Firefox", files, 1, |task| {
        adapter.select(task.env("TABLOOM_URL", server.url()).env("TABLOOM_FIREFOX", firefox))
    })
}

/// Files below tests/e2e in WebKitGTK.
pub fn in_webkit(files: Vec<PathBuf>) -> Result<Tally> {
    let (driver, server) = (tools::webkit_driver()?, Server::start(site::build()?, 0)?);
    run("pages in WebKitGTK", files, 1, |task| {
        task.env("TABLOOM_URL", server.url()).env("TABLOOM_WEBKIT", driver)
    })
}

/// Runs files of tests, `at_once` of them side by side.
fn run(
    what: &str,
    tests: impl IntoIterator<Item = PathBuf>,
    at_once: usize,
    with: impl FnOnce(Task) -> Task,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let task = Task::new(what, tools::node()?, minutes(80))
        .args(["--test", "--test-reporter=spec", "--test-timeout=1800000"])
        .arg(format!("--test-concurrency={at_once}"))
        .args(tests)
        .dir(workspace::root());
    watch(with(task), &mut tally)?;
    tally.check()
}
