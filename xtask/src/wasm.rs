//! The wasm module as it ships: built, bound to JavaScript, optimised.

use crate::process::{Task, minutes};
use crate::workspace::{self, make_empty};
use crate::{cargo, provision};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Reads what it needs of the module's features from the module itself; given
/// `--all-features` it would write files that browsers refuse.
const OPTIMISE: [&str; 3] = ["-Os", "--strip-debug", "--strip-producers"];

/// Builds the module and returns the folder that holds it with its JavaScript and its types:
/// `tabloom.js`, `tabloom_bg.wasm` and their `.d.ts`.
pub fn build() -> Result<PathBuf> {
    provision::wasm_target()?;
    let tools = provision::npm_packages()?;
    eprintln!("  compiling to WebAssembly (profile web; minutes when cold)");
    let arguments = ["build", "--package", "tabloom-wasm", "--profile", "web"];
    let files = cargo::wasm_files("the wasm build", &arguments)?;
    ensure!(files.len() == 1, "the wasm build made {} modules instead of one", files.len());
    let module = fs::read(&files[0]).context("cannot read the built module")?;

    let out = workspace::target().join("wasm-package");
    let stamp = out.join("made-from");
    let key = fingerprint(&module, &tools)?;
    if fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == key) {
        return Ok(out);
    }
    make_empty(&out)?;
    bind(&files[0], &out)?;
    optimise(&tools, &out.join("tabloom_bg.wasm"))?;
    fs::write(&stamp, key).context("cannot note what the module was made from")?;
    Ok(out)
}

fn bind(module: &Path, out: &Path) -> Result<()> {
    eprintln!("  wasm-bindgen");
    let fixed = ["wasm-bindgen", "--target", "web", "--out-name", "tabloom", "--out-dir"];
    let arguments = fixed.iter().map(|word| word.into()).chain([out.into(), module.into()]);
    wasm_bindgen_cli::wasm_bindgen::run_cli_with_args(
        arguments.collect::<Vec<std::ffi::OsString>>(),
    )
}

fn optimise(tools: &Path, module: &Path) -> Result<()> {
    eprintln!("  wasm-opt {} (up to a minute)", OPTIMISE.join(" "));
    Task::new("wasm-opt", provision::node()?, minutes(20))
        .arg(tools.join("binaryen/bin/wasm-opt"))
        .arg(module)
        .args(OPTIMISE)
        .arg("-o")
        .arg(module)
        .run()
}

/// Changes whenever the optimised module would.
fn fingerprint(module: &[u8], tools: &Path) -> Result<String> {
    let lock = fs::read(tools.join(".installed-lock.json")).context("npm packages are missing")?;
    let mut hasher = DefaultHasher::new();
    (module, lock, OPTIMISE).hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
