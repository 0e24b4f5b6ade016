//! Programs on the search path.

use std::path::PathBuf;

/// The first of `names` that is a file on the search path.
pub fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let named = |name: &&str| {
        let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        folders.iter().map(move |folder| folder.join(&file)).find(|path| path.is_file())
    };
    names.iter().find_map(named)
}
