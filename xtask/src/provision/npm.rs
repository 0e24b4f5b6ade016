//! Node and the npm packages of the root `package.json`.

use super::announce;
use crate::process::{Task, minutes};
use crate::workspace::{self, find_program};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// Finds Node.
pub fn node() -> Result<PathBuf> {
    find_program(&["node"])
        .context("Node 20 or later is missing; install it: https://nodejs.org/en/download")
}

/// Installs the locked npm packages unless they are there, and returns their folder.
pub fn npm_packages() -> Result<PathBuf> {
    node()?;
    let folder = workspace::root().join("node_modules");
    let lock = fs::read(workspace::root().join("package-lock.json"))
        .context("cannot read package-lock.json")?;
    // A copy of the lock file, written last, says what is installed.
    let installed = folder.join(".installed-lock.json");
    if fs::read(&installed).is_ok_and(|copy| copy == lock) {
        return Ok(folder);
    }
    let npm = find_program(&["npm"]).context("npm is missing; it comes with Node")?;
    let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    let command = format!("npm {}", arguments.join(" "));
    announce("wasm-opt, TypeScript, Playwright, esbuild and others' clients", &command);
    Task::new("npm ci", npm, minutes(15))
        .args(arguments)
        .dir(workspace::root())
        .run()
        .with_context(|| format!("run `{command}` in {} yourself", workspace::root().display()))?;
    fs::write(&installed, lock).context("cannot note what npm installed")?;
    Ok(folder)
}
