//! How large the package is for a visitor: raw and compressed.

use crate::process::{Task, minutes};
use crate::provision;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// What wasm and JavaScript may weigh together, in bytes after brotli.
const LIMIT: u64 = 1_000_000;

/// Node has both compressors; they would cost xtask two more crates.
const MEASURE: &str = "
const { readFileSync } = require('node:fs');
const { brotliCompressSync, gzipSync } = require('node:zlib');
const measure = (file) => {
  const bytes = readFileSync(file);
  return { raw: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length,
           brotli: brotliCompressSync(bytes).length };
};
console.log(JSON.stringify(process.argv.slice(1).map(measure)));
";

/// Bytes of one file, or of several together.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
pub struct Size {
    pub raw: u64,
    pub gzip: u64,
    pub brotli: u64,
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |sum, size| Self {
            raw: sum.raw + size.raw,
            gzip: sum.gzip + size.gzip,
            brotli: sum.brotli + size.brotli,
        })
    }
}

/// The sizes of a package's code.
pub struct Sizes {
    pub wasm: Size,
    pub script: Size,
}

impl Sizes {
    /// Measures the wasm and JavaScript files among `files`.
    pub fn measure(files: &[PathBuf]) -> Result<Self> {
        let wasm = measure(files.iter().filter(|file| ends_with(file, "wasm")))?;
        let script = measure(files.iter().filter(|file| ends_with(file, "js")))?;
        Ok(Self { wasm, script })
    }

    pub fn total(&self) -> Size {
        [self.wasm, self.script].into_iter().sum()
    }

    /// Fails where the code is too large to load quickly.
    pub fn check(&self) -> Result<()> {
        let brotli = self.total().brotli;
        ensure!(
            brotli <= LIMIT,
            "wasm and JavaScript take {brotli} bytes after brotli; the limit is {LIMIT}"
        );
        Ok(())
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        writeln!(out, "  {:12} {:>9} {:>9} {:>9}", "KiB", "raw", "gzip", "brotli")?;
        let rows = [("wasm", self.wasm), ("JavaScript", self.script), ("together", self.total())];
        for (name, size) in rows {
            let [raw, gzip, brotli] =
                [size.raw, size.gzip, size.brotli].map(|bytes| bytes as f64 / 1024.0);
            writeln!(out, "  {name:12} {raw:9.1} {gzip:9.1} {brotli:9.1}")?;
        }
        Ok(())
    }
}

fn ends_with(file: &Path, ending: &str) -> bool {
    file.extension().is_some_and(|end| end == ending)
}

fn measure<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<Size> {
    let text = Task::new("measuring sizes", provision::node()?, minutes(5))
        .args(["-e", MEASURE, "--"])
        .args(files)
        .output()?;
    let sizes: Vec<Size> = serde_json::from_str(&text).context("sizes from Node")?;
    Ok(sizes.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(wasm: u64, script: u64) -> Sizes {
        let size = |bytes| Size { raw: 3 * bytes, gzip: 2 * bytes, brotli: bytes };
        Sizes { wasm: size(wasm), script: size(script) }
    }

    #[test]
    fn the_limit_counts_wasm_and_script_together() {
        assert!(sizes(LIMIT - 10, 10).check().is_ok());
        assert!(sizes(LIMIT - 10, 11).check().is_err());
    }

    #[test]
    fn the_table_adds_up() {
        let table = sizes(1024, 2048).to_string();
        let last: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["together", "9.0", "6.0", "3.0"]);
    }
}
