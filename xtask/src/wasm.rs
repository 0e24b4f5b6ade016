//! The wasm modules as they ship: built, bound to JavaScript, optimised.

use crate::process::{self, Task, minutes};
use crate::workspace::{self, make_empty};
use crate::{cargo, tools};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Reads what it needs of the module's features from the module itself; given
/// `--all-features` it would write files that browsers refuse.
const OPTIMISE: [&str; 3] = ["-Os", "--strip-debug", "--strip-producers"];

/// A module: its crate, its name in the package, and further options of wasm-bindgen.
type Module = (&'static str, &'static str, &'static [&'static str]);

/// The engine, and what it loads once an answer is to be constrained. That one can be made anew
/// after a trap.
const MODULES: [Module; 2] = [
    ("tabloom-wasm", "tabloom", &[]),
    ("tabloom-grammar-wasm", "grammar", &["--experimental-reset-state-function"]),
];

/// The crates that become modules.
pub fn packages() -> impl Iterator<Item = &'static str> {
    MODULES.iter().map(|(package, ..)| *package)
}

/// Builds the modules and returns the folder that holds them with their JavaScript and their types:
/// `tabloom.js`, `tabloom_bg.wasm`, their `.d.ts`, and the same of `grammar`.
pub fn build() -> Result<PathBuf> {
    process::say("compiling to WebAssembly (profile web; minutes when cold)");
    let built = MODULES.map(|(package, ..)| compile(package));
    let built: Vec<PathBuf> = built.into_iter().collect::<Result<_>>()?;

    let out = workspace::target().join("wasm-package");
    let stamp = out.join("made-from");
    let key = fingerprint(&built)?;
    if fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == key) {
        return Ok(out);
    }
    make_empty(&out)?;
    let bindgen = cargo::bindgen()?;
    for (file, (_, name, options)) in built.iter().zip(MODULES) {
        bind(&bindgen, file, name, options, &out)?;
        optimise(&out.join(format!("{name}_bg.wasm")))?;
    }
    fs::write(&stamp, key).context("cannot note what the modules were made from")?;
    Ok(out)
}

/// Compiles one crate by itself, so that no other crate's features end up in its module.
fn compile(package: &str) -> Result<PathBuf> {
    let flags = format!("target.{}.rustflags={:?}", cargo::WASM, remapped()?);
    let arguments = ["build", "--package", package, "--profile", "web", "--config", &flags];
    let mut files = cargo::wasm_files(cargo::task("the wasm build").args(arguments))?;
    // Libraries may come as modules of their own, too.
    let module = package.replace('-', "_");
    files.retain(|file| file.file_stem().is_some_and(|stem| stem == module.as_str()));
    ensure!(files.len() == 1, "{package} made {} modules instead of one", files.len());
    Ok(files.remove(0))
}

/// Flags by which places in source files are named alike wherever cargo keeps them: a module is the
/// same for whoever builds it, and smaller.
fn remapped() -> Result<Vec<String>> {
    let registries = cargo::home()?.join("registry/src");
    let folders = fs::read_dir(&registries)
        .with_context(|| format!("cannot read {}", registries.display()))?;
    let flag = |folder: PathBuf| format!("--remap-path-prefix={}/=", folder.display());
    folders.map(|folder| Ok(flag(folder?.path()))).collect()
}

fn bind(bindgen: &Path, module: &Path, name: &str, options: &[&str], out: &Path) -> Result<()> {
    Task::new("wasm-bindgen", bindgen, minutes(10))
        .args(["wasm-bindgen", "--target", "web", "--out-name", name])
        .args(options)
        .arg("--out-dir")
        .args([out, module])
        .run()
}

fn optimise(module: &Path) -> Result<()> {
    process::say(&format!("wasm-opt {} (up to a minute)", OPTIMISE.join(" ")));
    Task::new("wasm-opt", tools::node()?, minutes(20))
        .arg(tools::npm_packages(".").join("binaryen/bin/wasm-opt"))
        .arg(module)
        .args(OPTIMISE)
        .arg("-o")
        .arg(module)
        .run()
}

/// Changes whenever the optimised modules would.
fn fingerprint(modules: &[PathBuf]) -> Result<String> {
    let lock =
        fs::read(workspace::root().join("package-lock.json")).context("package-lock.json")?;
    let read = |file| fs::read(file).context("cannot read a built module");
    let modules: Vec<Vec<u8>> = modules.iter().map(read).collect::<Result<_>>()?;
    let mut hasher = DefaultHasher::new();
    (modules, lock, OPTIMISE).hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
