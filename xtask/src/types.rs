//! What TypeScript does for the package: its JSDoc is checked and written out as `.d.ts` files, and
//! its modules lose their comments, which are half of their bytes.

use crate::process::{Task, minutes};
use crate::provision;
use crate::workspace::{copy_tree, make_empty};
use anyhow::Result;
use std::path::Path;

/// The modules that import all others.
const ENTRIES: [&str; 3] = ["index.js", "worker.js", "element.js"];

const LANGUAGE: [&str; 7] = [
    "--allowJs",
    "--target",
    "es2022",
    "--module",
    "nodenext",
    // No types of other packages that happen to be installed.
    "--types",
    "",
];

const DECLARE: [&str; 6] = [
    "--checkJs",
    "--strict",
    "--declaration",
    "--emitDeclarationOnly",
    "--lib",
    // The last are for the types that wasm-bindgen writes.
    "es2023,dom,dom.iterable,dom.asynciterable,esnext.disposable",
];

/// Writes a `.d.ts` file beside every module and takes the comments out of the modules, which it
/// keeps in `scratch` meanwhile; a type error fails the build.
pub fn declare(package: &Path, scratch: &Path) -> Result<()> {
    eprintln!("  type declarations");
    // First: later the modules would be known by their declarations alone.
    make_empty(scratch)?;
    tsc(package)?.args(["--noCheck", "--removeComments", "--outDir"]).arg(scratch).run()?;
    tsc(package)?.args(DECLARE).run()?;
    copy_tree(scratch, package, &|_| true)
}

fn tsc(package: &Path) -> Result<Task> {
    let compiler = provision::npm_packages()?.join("typescript/bin/tsc");
    let task = Task::new("tsc", provision::node()?, minutes(5));
    Ok(task.arg(compiler).args(ENTRIES).args(LANGUAGE).dir(package))
}
