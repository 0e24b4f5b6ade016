//! Programs on the search path.

use std::path::PathBuf;

/// The first of `names` that is a program on the search path.
pub fn find_program(names: &[&str]) -> Option<PathBuf> {
    names.iter().find_map(|name| which::which(name).ok())
}
