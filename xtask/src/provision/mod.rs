//! What building and testing needs besides cargo: found where it is, installed where it is not.
//! Each installation is announced in one line; where it is not allowed, the error holds the
//! command to run.

mod apt;
mod browser;
mod npm;
mod vulkan;

pub use browser::{Firefox, browser};
pub use npm::{node, npm_packages, reference_packages};
pub use vulkan::{Adapter, adapters};

use crate::cargo::WASM;
use crate::process::{Task, minutes};
use crate::workspace;
use anyhow::{Context, Result};
use std::path::Path;

/// Makes sure that Rust's standard library for WebAssembly is there.
pub fn wasm_target() -> Result<()> {
    let libraries = Task::new("rustc", "rustc", minutes(1))
        .args(["--print", "target-libdir", "--target", WASM])
        .dir(workspace::root())
        .output()?;
    if Path::new(libraries.trim()).is_dir() {
        return Ok(());
    }
    rustup(&["target", "add", WASM])
}

/// Makes sure that `cargo fmt` and `cargo clippy` are there.
pub fn rust_components() -> Result<()> {
    for (program, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !crate::cargo::task(component).args([program, "--version"]).succeeds() {
            rustup(&["component", "add", component])?;
        }
    }
    Ok(())
}

fn rustup(arguments: &[&str]) -> Result<()> {
    let command = format!("rustup {}", arguments.join(" "));
    announce(arguments[2], &command);
    Task::new(&command, "rustup", minutes(10))
        .args(arguments)
        .dir(workspace::root())
        .run()
        .with_context(|| format!("run `{command}` in {} yourself", workspace::root().display()))
}

fn announce(what: &str, command: &str) {
    eprintln!("  installing {what}: {command}");
}
