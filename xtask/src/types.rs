//! TypeScript's view of the package: its JSDoc is checked and written out as `.d.ts` files.

use crate::process::{Task, minutes};
use crate::provision;
use anyhow::Result;
use std::path::Path;

const OPTIONS: [&str; 13] = [
    "--allowJs",
    "--checkJs",
    "--strict",
    "--declaration",
    "--emitDeclarationOnly",
    "--target",
    "es2022",
    "--module",
    "nodenext",
    "--lib",
    "es2023,dom,dom.iterable,dom.asynciterable",
    // No types of other packages that happen to be installed.
    "--types",
    "",
];

/// Writes `index.d.ts` and those of the modules it imports; a type error fails the build.
pub fn declare(package: &Path) -> Result<()> {
    let tools = provision::npm_packages()?;
    eprintln!("  type declarations");
    Task::new("tsc", provision::node()?, minutes(5))
        .arg(tools.join("typescript/bin/tsc"))
        .arg("index.js")
        .args(OPTIONS)
        .dir(package)
        .run()
}
