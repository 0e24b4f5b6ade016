//! The commands of this repository: `cargo xtask demo`, `cargo xtask test` and their parts.

mod bench;
mod cargo;
mod crates;
mod demo;
mod docs;
mod notices;
mod once;
mod package;
mod process;
mod server;
mod site;
mod sizes;
mod test;
mod tools;
mod types;
mod wasm;
mod workspace;

use anyhow::Result;
use clap::Parser;
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
    /// Name the packages of the system that demo and test install.
    SystemPackages,
    /// Measure speed and size, and print one table.
    Bench(bench::Options),
}

fn main() -> Result<ExitCode> {
    match Command::parse() {
        Command::Demo(options) => demo::run(&options)?,
        Command::Package(options) => package::run(&options)?,
        Command::Docs => docs::run()?,
        Command::Test(options) => return test::run(&options),
        Command::SystemPackages => println!("{}", tools::system_packages().join(" ")),
        Command::Bench(options) => bench::run(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}
