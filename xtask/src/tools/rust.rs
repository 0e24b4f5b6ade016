//! What rustup installs: components and the WebAssembly target.

use super::source::Source;
use crate::cargo::{self, WASM};
use crate::process::{Task, minutes};
use crate::workspace;
use std::path::Path;

/// Whether cargo has a command, such as `fmt`.
pub fn has(command: &str) -> bool {
    cargo::task(command).args([command, "--version"]).succeeds()
}

pub fn component(name: &str) -> Source {
    Source::command(["rustup", "component", "add", name])
}

pub const WASM_NAME: &str = "Rust's standard library for WebAssembly";

pub fn has_wasm_target() -> bool {
    let libraries = Task::new("rustc", "rustc", minutes(1))
        .args(["--print", "target-libdir", "--target", WASM])
        .dir(workspace::root())
        .output();
    libraries.is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

pub fn wasm_target() -> Source {
    Source::command(["rustup", "target", "add", WASM])
}
