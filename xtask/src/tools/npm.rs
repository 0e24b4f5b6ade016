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
pub const NODE: Source =
    Source::Hand("install Node 20 or later with npm (https://nodejs.org/en/download)");

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

/// The packages of the `package.json` in `folder`, which is named from the repository's root.
pub fn npm_packages(folder: &str) -> PathBuf {
    workspace::root().join(folder).join("node_modules")
}

/// Whether they are those of the lock file: npm writes a list of what it has installed when it is done.
pub fn has_packages(folder: &str) -> bool {
    let packages = npm_packages(folder);
    is_as_new(&packages.with_file_name("package-lock.json"), &packages.join(".package-lock.json"))
}

fn is_as_new(wanted: &Path, installed: &Path) -> bool {
    let written = |file: &Path| fs::metadata(file)?.modified();
    matches!((written(wanted), written(installed)), (Ok(wanted), Ok(installed)) if installed >= wanted)
}

pub fn packages(folder: &str) -> Source {
    let options = ["--ignore-scripts", "--no-audit", "--no-fund"];
    Source::command(["npm", "--prefix", folder, "ci"].into_iter().chain(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_as_new_as_their_lock_file() {
        let folder = tempfile::tempdir().unwrap();
        let (lock, list) = (folder.path().join("lock"), folder.path().join("list"));
        fs::write(&lock, "").unwrap();
        assert!(!is_as_new(&lock, &list));
        fs::write(&list, "").unwrap();
        assert!(is_as_new(&lock, &list));
        let later = std::time::SystemTime::now() + minutes(1);
        fs::File::options().write(true).open(&lock).unwrap().set_modified(later).unwrap();
        assert!(!is_as_new(&lock, &list));
    }
}
