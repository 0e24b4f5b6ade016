//! Where published files lie.

use std::path::{Path, PathBuf};

/// The path of a published file below `target/real`.
pub fn real(path: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/real").join(path);
    assert!(file.exists(), "{} is missing: run `cargo xtask test --only real`", file.display());
    file
}
