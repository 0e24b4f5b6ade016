//! The npm package, assembled in target/package: the template's modules and their types, the
//! wasm with its glue below `wasm/`, and the licences.

use crate::once::Once;
use crate::process::{Task, minutes};
use crate::sizes::Sizes;
use crate::tools::{self, find_program, script};
use crate::workspace::{self, copy_file, copy_tree, files, make_empty};
use crate::{cargo, notices, types, wasm};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(clap::Args, Default)]
pub struct Options {
    /// Print the sizes as JSON.
    #[arg(long)]
    json: bool,
    /// Write anew what the repository keeps of the package: its sizes, its declarations, and tables of
    /// the reference.
    #[arg(long)]
    accept: bool,
}

/// `cargo xtask package`.
pub fn run(options: &Options) -> Result<()> {
    tools::provide(tools::SITE)?;
    let package = build()?;
    let sizes = sizes(package)?;
    if options.json {
        println!("{:#}", sizes.to_json());
    } else {
        println!("\n{sizes}");
    }
    sizes.check()?;
    script("xtask/js/kept.mjs")?
        .arg(package)
        .arg(sizes.to_json().to_string())
        .args(options.accept.then_some("--accept"))
        .run()?;
    eprintln!("The package is in {}", package.display());
    Ok(())
}

/// The package's folder; built when it is first asked for.
pub fn build() -> Result<&'static Path> {
    static PACKAGE: Once = Once::new();
    PACKAGE.get(|| {
        let folder = workspace::target().join("package");
        assemble(&folder)?;
        Ok(folder)
    })
}

/// Builds the package into `folder`.
pub fn assemble(package: &Path) -> Result<()> {
    let root = workspace::root();
    let template = root.join("pkg-template");
    check_version(&template)?;
    let modules = wasm::build()?;

    make_empty(package)?;
    copy_tree(&template, package, &|_| true)?;
    copy_tree(&modules, &package.join("wasm"), &|path| !path.ends_with("made-from"))?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        copy_file(&root.join(file), &package.join(file))?;
    }
    notices::write(&package.join("THIRD-PARTY.md"))?;
    types::declare(package)?;
    script("xtask/js/manifest.mjs")?.arg(package).run()?;
    let mut modules = files(package)?;
    modules.retain(|file| file.extension().is_some_and(|ending| ending == "js"));
    types::minify(&modules)
}

/// Packs a built package as it is published; returns the tarball, in an empty `folder`.
pub fn pack(package: &Path, folder: &Path) -> Result<PathBuf> {
    let npm = find_program(&["npm"]).context("npm is missing; it comes with Node")?;
    make_empty(folder)?;
    Task::new("npm pack", npm, minutes(5))
        .args(["pack", "--silent", "--ignore-scripts", "--pack-destination"])
        .arg(folder)
        .dir(package)
        .run()?;
    files(folder)?.pop().context("npm packed nothing")
}

/// Measures the code of a built package.
pub fn sizes(package: &Path) -> Result<Sizes> {
    Sizes::measure(package, &files(package)?)
}

/// The package, its client and the crate carry one version.
fn check_version(template: &Path) -> Result<()> {
    let read = |file: &str| {
        let path = template.join(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let manifest: Value = serde_json::from_str(&read("package.json")?).context("package.json")?;
    let module = read("version.js")?;
    let client = module.split_once("VERSION = \"").and_then(|(_, rest)| rest.split_once('"'));
    let tabloom = cargo::version("tabloom")?;
    for (file, version) in [
        ("package.json", manifest["version"].as_str()),
        ("version.js", client.map(|(version, _)| version)),
    ] {
        ensure!(
            version == Some(tabloom.as_str()),
            "pkg-template/{file} has version {version:?}, the crate has {tabloom}"
        );
    }
    Ok(())
}
