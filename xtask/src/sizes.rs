//! How large the package is for a visitor: raw and compressed, file by file.

use crate::process::{Task, minutes};
use crate::{tools, workspace};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::path::{Path, PathBuf};

/// What a page that chats loads, page and worker together, in bytes after brotli.
const LIMIT: u64 = 1_000_000;

/// What of it the page itself loads before it asks for anything.
const CLIENT_LIMIT: u64 = 12_000;

/// What the element `<tabloom-chat>` may weigh beside them.
const ELEMENT_LIMIT: u64 = 20_000;

/// Node has both compressors, and esbuild knows who imports whom.
const MEASURE: &str = include_str!("../js/measure.cjs");

/// Bytes of one file, or of several together.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
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

/// Who loads a file.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Every page.
    Client,
    /// The worker of every page.
    Worker,
    /// Pages that embed the element `<tabloom-chat>`.
    Element,
    /// Pages and workers that first use what it is for.
    #[serde(rename = "on demand")]
    OnDemand,
}

/// A file of the package.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct File {
    pub path: String,
    pub part: Part,
    #[serde(flatten)]
    pub size: Size,
}

/// The sizes of a package's code.
#[derive(Deserialize)]
pub struct Sizes {
    files: Vec<File>,
    /// The client's modules as a bundler makes them, all that a page loads at once.
    bundled: Vec<Size>,
}

impl Sizes {
    /// Measures the wasm and JavaScript files among `files` of the package in `folder`. Each is
    /// compressed by itself, as servers send them.
    pub fn measure(folder: &Path, files: &[PathBuf]) -> Result<Self> {
        let is_code = |file: &&PathBuf| {
            file.extension().is_some_and(|ending| ending == "wasm" || ending == "js")
        };
        let text = Task::new("measuring sizes", tools::node()?, minutes(5))
            .args(["-e", MEASURE, "--"])
            .arg(folder)
            .args(files.iter().filter(is_code))
            .dir(workspace::root())
            .output()?;
        serde_json::from_str(&text).context("sizes from Node")
    }

    /// The files that `chosen` says, together.
    pub fn sum(&self, chosen: impl Fn(&File) -> bool) -> Size {
        self.files.iter().filter(|file| chosen(file)).map(|file| file.size).sum()
    }

    /// A part of the package.
    pub fn part(&self, part: Part) -> Size {
        self.sum(|file| file.part == part)
    }

    /// What every page that chats loads.
    pub fn total(&self) -> Size {
        [self.part(Part::Client), self.part(Part::Worker)].into_iter().sum()
    }

    /// Fails where the code is too large to load quickly.
    pub fn check(&self) -> Result<()> {
        for (what, size, limit) in [
            ("a page that chats loads", self.total(), LIMIT),
            ("the page's own modules take", self.part(Part::Client), CLIENT_LIMIT),
            ("the element takes", self.part(Part::Element), ELEMENT_LIMIT),
        ] {
            let brotli = size.brotli;
            ensure!(brotli <= limit, "{what} {brotli} bytes after brotli; the limit is {limit}");
        }
        Ok(())
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let brotli = |part| self.part(part).brotli;
        json!({
            "total_brotli_bytes": self.total().brotli,
            "client_brotli_bytes": brotli(Part::Client),
            "client_bundled_brotli_bytes": self.bundled().brotli,
            "element_brotli_bytes": brotli(Part::Element),
            "limits": { "total": LIMIT, "client": CLIENT_LIMIT, "element": ELEMENT_LIMIT },
            "files": self.files,
        })
    }

    fn bundled(&self) -> Size {
        self.bundled.iter().copied().sum()
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        writeln!(out, "  {:18} {:>9} {:>9} {:>9}", "KiB", "raw", "gzip", "brotli")?;
        let rows = [
            ("client", self.part(Part::Client)),
            ("client, bundled", self.bundled()),
            ("worker", self.part(Part::Worker)),
            ("client and worker", self.total()),
            ("on demand", self.part(Part::OnDemand)),
            ("element", self.part(Part::Element)),
        ];
        for (name, size) in rows {
            let [raw, gzip, brotli] =
                [size.raw, size.gzip, size.brotli].map(|bytes| bytes as f64 / 1024.0);
            writeln!(out, "  {name:18} {raw:9.1} {gzip:9.1} {brotli:9.1}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(client: u64, worker: u64, element: u64) -> Sizes {
        let size = |brotli| Size { raw: 3 * brotli, gzip: 2 * brotli, brotli };
        let file = |path: &str, part, brotli| File { path: path.into(), part, size: size(brotli) };
        let files = vec![
            file("index.js", Part::Client, client),
            file("wasm/tabloom_bg.wasm", Part::Worker, worker),
            file("element.js", Part::Element, element),
            file("calls/fetch.js", Part::OnDemand, LIMIT),
        ];
        Sizes { files, bundled: vec![size(client)] }
    }

    #[test]
    fn each_limit_is_kept_and_nothing_on_demand_counts() {
        assert!(sizes(CLIENT_LIMIT, LIMIT - CLIENT_LIMIT, ELEMENT_LIMIT).check().is_ok());
        assert!(sizes(CLIENT_LIMIT, LIMIT - CLIENT_LIMIT + 1, 1).check().is_err());
        assert!(sizes(CLIENT_LIMIT + 1, 1, 1).check().is_err());
        assert!(sizes(1, 1, ELEMENT_LIMIT + 1).check().is_err());
    }

    #[test]
    fn the_table_adds_up() {
        let table = sizes(1024, 2048, 1).to_string();
        let row = table.lines().find(|line| line.contains("client and worker")).unwrap();
        assert_eq!(row.split_whitespace().skip(3).collect::<Vec<_>>(), ["9.0", "6.0", "3.0"]);
    }

    #[test]
    fn programs_are_told_the_same() {
        let json = sizes(1, 2, 3).to_json();
        assert_eq!([&json["total_brotli_bytes"], &json["client_brotli_bytes"]], [3, 1]);
        let file = json!({"path": "calls/fetch.js", "part": "on demand", "raw": 3 * LIMIT,
            "gzip": 2 * LIMIT, "brotli": LIMIT});
        assert_eq!(json["files"][3], file);
    }

    #[test]
    fn files_belong_to_who_imports_them() {
        let folder = tempfile::tempdir().unwrap();
        let modules = [
            ("index.js", r#"import "./abort.js"; export const later = () => import("./b.js");"#),
            ("abort.js", "export const a = 1;"),
            ("b.js", r#"export * from "./abort.js";"#),
            ("worker.js", r#"import "./abort.js"; import("./wasm/tabloom.js");"#),
            ("element.js", r#"export * from "./index.js"; import "./wasm/c.js";"#),
            ("prompt-api.js", r#"export * from "./b.js";"#),
            ("wasm/c.js", ""),
            ("wasm/tabloom.js", ""),
            ("wasm/tabloom_bg.wasm", ""),
            ("README.md", ""),
        ];
        let files = modules.map(|(path, text)| {
            let file = folder.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
            file
        });
        let sizes = Sizes::measure(folder.path(), &files).unwrap();
        let of = |part| {
            let files = sizes.files.iter().filter(move |file| file.part == part);
            files.map(|file| file.path.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(Part::Client), ["index.js", "abort.js"]);
        assert_eq!(of(Part::Worker), ["worker.js", "wasm/tabloom.js", "wasm/tabloom_bg.wasm"]);
        assert_eq!(of(Part::Element), ["element.js", "wasm/c.js"]);
        assert_eq!(of(Part::OnDemand), ["b.js", "prompt-api.js"]);
        assert_eq!(sizes.files[1].size.raw, 19);
    }
}
