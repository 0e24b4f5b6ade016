//! What commands need besides cargo. Each command names its tools at its start; those that are
//! missing are installed then, all together, before anything is compiled.

mod apt;
mod browser;
mod find;
mod npm;
mod real;
mod rust;
mod source;
mod vulkan;

pub use browser::{chromedriver, chromium, firefox, webkit_driver};
pub use find::find_program;
pub use npm::{node, npm_packages, script};
pub use vulkan::{Adapter, has_driver, lavapipe, swiftshader};

use crate::process::{Task, minutes};
use crate::workspace;
use anyhow::{Context, Result, bail};
use source::Source;
use std::collections::BTreeSet;
use std::thread;

/// A program, a library or a set of packages that a command uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    Rustfmt,
    Clippy,
    WasmTarget,
    Node,
    NpmPackages,
    TypeDoc,
    Chromium,
    Firefox,
    Webkit,
    Lavapipe,
    RealFiles,
}

/// The folder of what writes the API reference.
pub const REFERENCE: &str = "docs/api";

/// What builds the package and the demo page.
pub const SITE: [Tool; 3] = [Tool::WasmTarget, Tool::Node, Tool::NpmPackages];

impl Tool {
    /// The name for people, whether it is here, and where it comes from otherwise.
    fn look_up(self) -> (&'static str, bool, Source) {
        match self {
            Self::Rustfmt => ("rustfmt", rust::has("fmt"), rust::component("rustfmt")),
            Self::Clippy => ("clippy", rust::has("clippy"), rust::component("clippy")),
            Self::WasmTarget => (rust::WASM_NAME, rust::has_wasm_target(), rust::wasm_target()),
            Self::Node => ("Node", npm::has_node(), npm::NODE),
            Self::NpmPackages => ("npm packages", npm::has_packages("."), npm::packages(".")),
            Self::TypeDoc => ("TypeDoc", npm::has_packages(REFERENCE), npm::packages(REFERENCE)),
            Self::Chromium => (
                "Chromium and its driver",
                chromium().is_ok() && chromedriver().is_ok(),
                browser::chromium_source(),
            ),
            Self::Firefox => ("Firefox", firefox().is_ok(), browser::firefox_source()),
            Self::Webkit => ("WebKitGTK", webkit_driver().is_ok(), browser::WEBKIT),
            Self::Lavapipe => ("the Vulkan driver lavapipe", lavapipe().is_ok(), vulkan::LAVAPIPE),
            Self::RealFiles => (real::NAME, real::is_here(), real::source()),
        }
    }
}

/// Finds `tools`, or installs them. Where that is not possible the error holds one command that does.
pub fn provide(tools: impl IntoIterator<Item = Tool>) -> Result<()> {
    let wanted: BTreeSet<Tool> = tools.into_iter().collect();
    let missing: Vec<_> =
        wanted.iter().map(|tool| tool.look_up()).filter(|found| !found.1).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
    let plan = Plan::of(missing.into_iter().map(|(.., source)| source));
    if let Some(first) = plan.by_hand.first() {
        bail!("missing: {names}. First {first}, then run this command again");
    }
    let command = plan.command();
    if let Some(obstacle) = (!plan.packages.is_empty()).then(apt::obstacle).flatten() {
        bail!("missing: {names}. {obstacle}:\n  {command}");
    }
    eprintln!("  missing: {names}. Installing:\n  {command}");
    plan.run().with_context(|| format!("run this yourself:\n  {command}"))?;
    let lost = wanted.iter().map(|tool| tool.look_up()).find(|found| !found.1);
    match lost {
        Some((name, ..)) => bail!("{name} is still not found after installing it"),
        None => Ok(()),
    }
}

/// The packages of this system that `provide` may install.
pub fn system_packages() -> Vec<&'static str> {
    let browsers = [browser::chromium_source(), browser::firefox_source(), browser::WEBKIT];
    Plan::of(browsers.into_iter().chain([vulkan::LAVAPIPE])).packages
}

/// All installations of a command.
#[derive(Default)]
struct Plan {
    packages: Vec<&'static str>,
    commands: Vec<Vec<String>>,
    by_hand: Vec<&'static str>,
}

impl Plan {
    fn of(sources: impl IntoIterator<Item = Source>) -> Self {
        let mut plan = Self::default();
        for source in sources {
            match source {
                Source::Apt(packages) => plan.packages.extend(packages),
                Source::Command(words) => plan.commands.push(words),
                Source::Hand(what) => plan.by_hand.push(what),
            }
        }
        plan
    }

    /// The one command that does it all.
    fn command(&self) -> String {
        let apt = (!self.packages.is_empty()).then(|| apt::by_hand(&self.packages));
        let others = self.commands.iter().map(|words| words.join(" "));
        apt.into_iter().chain(others).collect::<Vec<_>>().join(" && ")
    }

    /// Runs it: the system's packages beside everything else.
    fn run(&self) -> Result<()> {
        thread::scope(|scope| {
            let packages = scope.spawn(|| match self.packages.as_slice() {
                [] => Ok(()),
                packages => apt::install(packages),
            });
            let others = self.commands.iter().try_for_each(|words| {
                let task = Task::new(words.join(" "), &words[0], minutes(30));
                task.args(&words[1..]).dir(workspace::root()).run()
            });
            packages.join().expect("installing does not panic").and(others)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_installations_become_one_command() {
        let plan = Plan::of([
            Source::Apt(&["libvulkan1"]),
            Source::command(["rustup", "target", "add", "x"]),
            Source::Apt(&["firefox-esr"]),
            Source::Hand("install Node"),
        ]);
        assert_eq!(
            plan.command(),
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends \
             libvulkan1 firefox-esr && rustup target add x"
        );
        assert_eq!(plan.by_hand, ["install Node"]);
    }
}
