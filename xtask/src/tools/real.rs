//! Published models, tokenizers and templates that tests run on: `tests/real/packages.json` names them.

use super::source::Source;
use crate::workspace;
use std::fs;

pub const NAME: &str = "published models, tokenizers and templates (560 MB)";
/// Below the repository's root.
const FOLDER: &str = "target/real";

/// Whether all are here: the list is copied beside them once they are.
pub fn is_here() -> bool {
    let root = workspace::root();
    let wanted = fs::read(root.join("tests/real/packages.json"));
    let found = fs::read(root.join(FOLDER).join("packages.json"));
    matches!((wanted, found), (Ok(wanted), Ok(found)) if wanted == found)
}

pub fn source() -> Source {
    Source::command(["node", "xtask/js/real.mjs", FOLDER])
}
