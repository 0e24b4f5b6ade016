//! wasm-bindgen's two programs in one: the first argument names which of them runs with the others.
//! A crate of its own, because it takes longer to compile than all of xtask.

use anyhow::{Result, bail};
use std::ffi::OsString;
use wasm_bindgen_cli::{wasm_bindgen, wasm_bindgen_test_runner};

fn main() -> Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|program| program.to_str()) {
        Some("wasm-bindgen") => wasm_bindgen::run_cli_with_args(arguments),
        Some("wasm-bindgen-test-runner") => wasm_bindgen_test_runner::run_cli_with_args(arguments),
        _ => bail!("the first argument is wasm-bindgen or wasm-bindgen-test-runner"),
    }
}
