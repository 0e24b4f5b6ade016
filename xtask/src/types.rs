//! What becomes of the package's modules: their JSDoc is checked and written out as `.d.ts` files,
//! and they lose their comments and long names, which are most of their bytes.

use crate::process::{Task, minutes};
use crate::tools;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules that import all others but the element's texts.
const ENTRIES: [&str; 6] = [
    "index.js",
    "worker.js",
    "element.js",
    "element/parts.js",
    "prompt-api.js",
    "server-component.js",
];

const DECLARE: [&str; 14] = [
    // That of the repository is for all of its JavaScript.
    "--ignoreConfig",
    "--allowJs",
    "--target",
    "es2022",
    "--module",
    "nodenext",
    // No types of other packages that happen to be installed.
    "--types",
    "",
    "--checkJs",
    "--strict",
    "--declaration",
    "--emitDeclarationOnly",
    "--lib",
    // The last are for the types that wasm-bindgen writes.
    "es2024,dom,dom.iterable,dom.asynciterable,esnext.disposable",
];

/// What JSDoc cannot say of the element: the tag that the DOM's types know it by.
const TAG: &str = r#"declare global {
    interface HTMLElementTagNameMap {
        "tabloom-chat": TabloomChat;
    }
}
"#;

/// Writes a `.d.ts` file beside every module; a type error fails the build.
pub fn declare(package: &Path) -> Result<()> {
    let compiler = tools::npm_packages(".").join("typescript/bin/tsc");
    let task = Task::new("tsc", tools::node()?, minutes(5));
    let texts = fs::read_dir(package.join("element/texts"))?.map(|entry| Ok(entry?.path()));
    let texts: Vec<PathBuf> = texts.collect::<Result<_>>()?;
    task.arg(compiler).args(ENTRIES).args(texts).args(DECLARE).dir(package).run()?;
    let element = package.join("element.d.ts");
    fs::write(&element, fs::read_to_string(&element)? + TAG)?;
    Ok(())
}

/// Makes `modules` as small as they can be.
pub fn minify(modules: &[PathBuf]) -> Result<()> {
    tools::script("xtask/js/minify.mjs")?.args(modules).run()
}
