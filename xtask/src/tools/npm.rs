//! Node, and the npm packages of the repository's `package.json` files.

use super::find::find_program;
use super::source::Source;
use crate::process::{Task, minutes};
use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The oldest version that everything here runs on: Vite and knip ask for it.
const OLDEST: (u32, u32) = (20, 19);
pub const NODE: Source =
    Source::Hand("install Node 20.19 or later with npm (https://nodejs.org/en/download)");

pub fn node() -> Result<PathBuf> {
    find_program(&["node"]).context("no Node")
}

pub fn has_node() -> bool {
    let version = node().and_then(|node| {
        Task::new("node", node, minutes(1)).args(["--print", "process.versions.node"]).output()
    });
    let is_new_enough = version.ok().and_then(|text| major_and_minor(&text)) >= Some(OLDEST);
    is_new_enough && find_program(&["npm"]).is_some()
}

fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.trim().split_once('.')?;
    Some((major.parse().ok()?, rest.split('.').next()?.parse().ok()?))
}

/// Runs a script, which is named from the repository's root, and there.
pub fn script(path: &str) -> Result<Task> {
    let root = workspace::root();
    Ok(Task::new(path, node()?, minutes(10)).arg(root.join(path)).dir(root))
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
    fn versions_are_compared_by_both_numbers() {
        assert_eq!(major_and_minor("20.20.2\n"), Some((20, 20)));
        assert!(major_and_minor("20.9.0") < Some(OLDEST));
        assert!(major_and_minor("22.1.0") > Some(OLDEST));
        assert!(major_and_minor("") < Some(OLDEST));
    }

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
