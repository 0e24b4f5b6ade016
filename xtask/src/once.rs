//! Work that a program does once, however many parts of it ask.

use anyhow::{Result, anyhow};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A folder that is made when it is first asked for; a failure is kept too.
pub struct Once(OnceLock<Result<PathBuf, String>>);

impl Once {
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The folder, or why it could not be made. Whoever asks meanwhile waits.
    pub fn get(&'static self, make: impl FnOnce() -> Result<PathBuf>) -> Result<&'static Path> {
        let made = self.0.get_or_init(|| make().map_err(|error| format!("{error:#}")));
        made.as_deref().map_err(|error| anyhow!("{error}"))
    }
}
