//! Where things lie in the repository, and small file-system helpers.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The repository's root folder: of the checkout that cargo runs this for, which need not be the
/// one it was compiled in when checkouts share a target folder.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
        let folder = PathBuf::from(manifest.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()));
        folder.parent().expect("xtask lies in the workspace root").to_owned()
    })
}

/// Where build products of xtask itself go. Always inside the repository, even when cargo's own
/// target folder is shared between checkouts, so that checkouts do not overwrite each other.
pub fn target() -> PathBuf {
    root().join("target")
}

/// Empties `folder`, making it where it is missing.
pub fn make_empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Copies the files below `from` into `to`, leaving out entries that `keep` refuses.
pub fn copy_tree(from: &Path, to: &Path, keep: &dyn Fn(&Path) -> bool) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let (source, copy) = (entry.path(), to.join(entry.file_name()));
        if !keep(&source) {
            continue;
        }
        if source.is_dir() {
            copy_tree(&source, &copy, keep)?;
        } else {
            copy_file(&source, &copy)?;
        }
    }
    Ok(())
}

/// The files of a folder and of those below it, in order.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(self::files(&path)?),
            false => files.push(path),
        }
    }
    files.sort();
    Ok(files)
}

/// Copies one file, naming both ends in the error.
pub fn copy_file(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}
