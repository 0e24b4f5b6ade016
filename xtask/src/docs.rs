//! `cargo xtask docs`: the API reference, which TypeDoc writes as `docs/api/typedoc.json` says.

use crate::process::{Task, minutes};
use crate::tools::{self, Tool};
use crate::workspace;
use anyhow::Result;

pub fn run() -> Result<()> {
    tools::provide([Tool::Node, Tool::TypeDoc])?;
    write()
}

/// The same with all tools at hand.
pub fn write() -> Result<()> {
    let typedoc = tools::npm_packages(tools::REFERENCE).join("typedoc/bin/typedoc");
    Task::new("typedoc", tools::node()?, minutes(5))
        .arg(typedoc)
        .dir(&workspace::root().join("docs/api"))
        .run()?;
    println!("The API reference is {}", workspace::target().join("api/index.html").display());
    Ok(())
}
