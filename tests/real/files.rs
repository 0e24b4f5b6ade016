//! Where published files lie.

use std::path::{Path, PathBuf};

/// The path of a published file or folder.
pub fn real(path: &str) -> PathBuf {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/real").join(path);
    assert!(found.exists(), "{} is missing: run `cargo xtask test --only real`", found.display());
    found
}
