//! The demo page, assembled in target/www: what lies in `www/`, with the package as `tabloom/` and
//! the example pages as `embed/`. Any static host can serve the folder.

use crate::package;
use crate::workspace::{self, copy_tree, make_empty};
use anyhow::Result;
use std::path::PathBuf;

/// Builds the package and the page, and returns the page's folder.
pub fn build() -> Result<PathBuf> {
    let package = package::build()?;
    let site = workspace::target().join("www");
    make_empty(&site)?;
    copy_tree(&workspace::root().join("www"), &site, &|_| true)?;
    copy_tree(&workspace::root().join("examples/embed"), &site.join("embed"), &|_| true)?;
    copy_tree(&package, &site.join("tabloom"), &|_| true)?;
    Ok(site)
}
