//! The commands of this repository: `cargo xtask demo`, `cargo xtask test` and their parts.

mod bench;
mod cargo;
mod demo;
mod docs;
mod http;
mod package;
mod process;
mod provision;
mod serve;
mod site;
mod sizes;
mod tally;
mod test;
mod types;
mod wasm;
mod workspace;

use anyhow::Result;
use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

/// Builds, tests and serves Tabloom. Whatever is missing is found or installed.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Build the package and the demo page, serve them on 127.0.0.1, open a browser.
    Demo(demo::Options),
    /// Build the npm package into target/package and print its sizes.
    Package(package::Options),
    /// Write the API reference into target/api, from the package's types and comments.
    Docs,
    /// Run every check and test, or the parts named with --only.
    Test(test::Options),
    /// Measure speed and size, and print one table.
    Bench(bench::Options),
    /// Run one wasm test binary in a browser (cargo calls this).
    #[command(disable_help_flag = true)]
    TestRunner {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> Result<ExitCode> {
    match Command::parse() {
        Command::Demo(options) => demo::run(&options)?,
        Command::Package(options) => package::run(&options)?,
        Command::Docs => docs::run()?,
        Command::Test(options) => return test::run(&options),
        Command::Bench(options) => bench::run(&options)?,
        Command::TestRunner { arguments } => {
            let name = OsString::from("wasm-bindgen-test-runner");
            let arguments = std::iter::once(name).chain(arguments);
            wasm_bindgen_cli::wasm_bindgen_test_runner::run_cli_with_args(arguments)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
