//! Where the published files are.

use std::path::{Path, PathBuf};

/// A published file or folder, by its path in `packages.json`.
pub fn real(path: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/real").join(path);
    assert!(file.exists(), "{} is missing: run `cargo xtask test --only real`", file.display());
    file
}
