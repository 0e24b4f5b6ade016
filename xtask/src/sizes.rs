//! How large the package is for a visitor: raw and compressed.

use crate::process::{Task, minutes};
use crate::{provision, wasm};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// What wasm and JavaScript may weigh together, in bytes after brotli, without what is loaded on
/// demand and without the element.
const LIMIT: u64 = 1_000_000;

/// What the element `<tabloom-chat>` may weigh beside them.
const ELEMENT_LIMIT: u64 = 20_000;

/// Modules that a page loads when it first calls what they are for.
const LATER: [&str; 5] =
    ["fetch.js", "language-model.js", "probe.js", "prompt-constraint.js", "prompt-input.js"];

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
    /// What only some pages load: the module of constrained answers with its JavaScript, and
    /// `LATER`.
    pub on_demand: Size,
    /// The element `<tabloom-chat>`, for pages that embed it.
    pub element: Size,
}

impl Sizes {
    /// Measures the wasm and JavaScript files among `files`.
    pub fn measure(files: &[PathBuf]) -> Result<Self> {
        let code = files.iter().filter(|file| ends_with(file, "wasm") || ends_with(file, "js"));
        let (on_demand, always): (Vec<&PathBuf>, Vec<&PathBuf>) =
            code.partition(|file| is_on_demand(file));
        let (element, always): (Vec<&PathBuf>, Vec<&PathBuf>) =
            always.into_iter().partition(|file| is_of_element(file));
        let (wasm, script): (Vec<&PathBuf>, Vec<&PathBuf>) =
            always.into_iter().partition(|file| ends_with(file, "wasm"));
        let [wasm, script, on_demand, element] = [wasm, script, on_demand, element].map(measure);
        Ok(Self { wasm: wasm?, script: script?, on_demand: on_demand?, element: element? })
    }

    /// What every page loads.
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
        let brotli = self.element.brotli;
        ensure!(
            brotli <= ELEMENT_LIMIT,
            "the element takes {brotli} bytes after brotli; the limit is {ELEMENT_LIMIT}"
        );
        Ok(())
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        writeln!(out, "  {:12} {:>9} {:>9} {:>9}", "KiB", "raw", "gzip", "brotli")?;
        let rows = [
            ("wasm", self.wasm),
            ("JavaScript", self.script),
            ("together", self.total()),
            ("on demand", self.on_demand),
            ("element", self.element),
        ];
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

/// Whether a file is one that only some pages load.
fn is_on_demand(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split(['.', '_']).next() == Some(wasm::ON_DEMAND) || LATER.contains(&name)
}

/// Whether a file is the element's: `element.js`, or in the folder `element`.
fn is_of_element(file: &Path) -> bool {
    let named = |part: Option<&std::ffi::OsStr>, name| part.is_some_and(|part| part == name);
    let folder = file.parent().and_then(Path::file_name);
    named(file.file_name(), "element.js") || named(folder, "element")
}

fn measure(files: Vec<&PathBuf>) -> Result<Size> {
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
        let [on_demand, element] = [LIMIT, ELEMENT_LIMIT].map(size);
        Sizes { wasm: size(wasm), script: size(script), on_demand, element }
    }

    #[test]
    fn the_limit_counts_wasm_and_script_together_and_nothing_on_demand() {
        assert!(sizes(LIMIT - 10, 10).check().is_ok());
        assert!(sizes(LIMIT - 10, 11).check().is_err());
    }

    #[test]
    fn the_element_has_a_limit_of_its_own() {
        let mut sizes = sizes(1, 1);
        assert!(sizes.check().is_ok());
        sizes.element.brotli += 1;
        assert!(sizes.check().is_err());
        let of_element = |file: &str| is_of_element(Path::new(file));
        assert!(of_element("package/element.js") && of_element("package/element/style.js"));
        assert!(!of_element("package/index.js") && !of_element("element/wasm/tabloom.js"));
    }

    #[test]
    fn the_table_adds_up() {
        let table = sizes(1024, 2048).to_string();
        let row = table.lines().find(|line| line.contains("together")).unwrap();
        assert_eq!(row.split_whitespace().skip(1).collect::<Vec<_>>(), ["9.0", "6.0", "3.0"]);
    }

    #[test]
    fn what_only_some_pages_use_is_loaded_on_demand() {
        let on_demand = |file: &str| is_on_demand(Path::new(file));
        assert!(on_demand("package/wasm/grammar_bg.wasm") && on_demand("package/wasm/grammar.js"));
        assert!(on_demand("package/fetch.js") && !on_demand("package/index.js"));
        assert!(!on_demand("grammar/wasm/tabloom_bg.wasm") && !on_demand("package/worker.js"));
    }
}
