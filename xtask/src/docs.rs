//! `cargo xtask docs`: the API reference, which TypeDoc writes as `docs/api/typedoc.json` says.

use crate::process::{Task, minutes};
use crate::provision;
use crate::workspace;
use anyhow::Result;

pub fn run() -> Result<()> {
    let typedoc = provision::reference_packages()?.join("typedoc/bin/typedoc");
    Task::new("typedoc", provision::node()?, minutes(5))
        .arg(typedoc)
        .dir(&workspace::root().join("docs/api"))
        .run()?;
    println!("The API reference is {}", workspace::target().join("api/index.html").display());
    Ok(())
}
