//! Node, and the npm packages of the repository's `package.json` files.

use super::announce;
use crate::process::{Task, minutes};
use crate::workspace::{self, find_program};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Finds Node.
pub fn node() -> Result<PathBuf> {
    find_program(&["node"])
        .context("Node 20 or later is missing; install it: https://nodejs.org/en/download")
}

/// Installs the locked npm packages unless they are there, and returns their folder.
pub fn npm_packages() -> Result<PathBuf> {
    let what = "wasm-opt, TypeScript, Playwright, esbuild, and others' clients and frameworks";
    install(workspace::root(), what)
}

/// The same for what writes the API reference.
pub fn reference_packages() -> Result<PathBuf> {
    install(&workspace::root().join("docs/api"), "TypeDoc")
}

fn install(project: &Path, what: &str) -> Result<PathBuf> {
    node()?;
    let folder = project.join("node_modules");
    let lock = fs::read(project.join("package-lock.json"))
        .with_context(|| format!("cannot read package-lock.json in {}", project.display()))?;
    // A copy of the lock file, written last, says what is installed.
    let installed = folder.join(".installed-lock.json");
    if fs::read(&installed).is_ok_and(|copy| copy == lock) {
        return Ok(folder);
    }
    let npm = find_program(&["npm"]).context("npm is missing; it comes with Node")?;
    let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    let command = format!("npm {}", arguments.join(" "));
    announce(what, &command);
    Task::new("npm ci", npm, minutes(15))
        .args(arguments)
        .dir(project)
        .run()
        .with_context(|| format!("run `{command}` in {} yourself", project.display()))?;
    fs::write(&installed, lock).context("cannot note what npm installed")?;
    Ok(folder)
}
