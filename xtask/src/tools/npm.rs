//! Node, and the npm packages of the repository's `package.json` files.

use super::find::find_program;
use super::source::Source;
use crate::process::{Task, minutes};
use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The oldest major version that everything here runs on.
const OLDEST: u32 = 20;

pub fn node() -> Result<PathBuf> {
    find_program(&["node"]).context("no Node")
}

pub fn has_node() -> bool {
    let version = node().and_then(|node| {
        Task::new("node", node, minutes(1)).args(["--print", "process.versions.node"]).output()
    });
    let major = version.ok().and_then(|text| text.split('.').next()?.parse::<u32>().ok());
    major.is_some_and(|major| major >= OLDEST) && find_program(&["npm"]).is_some()
}

pub fn node_source() -> Source {
    Source::Hand("install Node 20 or later with npm (https://nodejs.org/en/download)")
}

/// The folder of the packages that build and test.
pub fn npm_packages() -> PathBuf {
    workspace::root().join("node_modules")
}

/// The folder of the packages that write the API reference.
pub fn reference_packages() -> PathBuf {
    workspace::root().join("docs/api/node_modules")
}

pub fn has_packages() -> bool {
    is_installed(workspace::root())
}

pub fn has_reference_packages() -> bool {
    is_installed(&workspace::root().join("docs/api"))
}

pub fn packages() -> Source {
    install(".")
}

pub fn reference() -> Source {
    install("docs/api")
}

fn install(folder: &str) -> Source {
    let options = ["--ignore-scripts", "--no-audit", "--no-fund"];
    Source::command(["npm", "--prefix", folder, "ci"].into_iter().chain(options))
}

/// Whether the packages in `project` are those of its lock file: npm writes a list of what it has
/// installed when it is done.
fn is_installed(project: &Path) -> bool {
    let written = |file: &str| fs::metadata(project.join(file))?.modified();
    match (written("package-lock.json"), written("node_modules/.package-lock.json")) {
        (Ok(wanted), Ok(installed)) => installed >= wanted,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_as_new_as_their_lock_file() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str| fs::write(folder.path().join(file), "{}").unwrap();
        fs::create_dir(folder.path().join("node_modules")).unwrap();
        write("package-lock.json");
        assert!(!is_installed(folder.path()));
        write("node_modules/.package-lock.json");
        assert!(is_installed(folder.path()));
        let later = std::time::SystemTime::now() + minutes(1);
        let lock = fs::File::options().write(true).open(folder.path().join("package-lock.json"));
        lock.unwrap().set_modified(later).unwrap();
        assert!(!is_installed(folder.path()));
    }
}
