//! The demo page, assembled in target/www: what lies in `www/`, its modules and styles bundled, with the
//! package as `tabloom/` and the web examples as `examples/`. Any static host can serve the folder.

use crate::once::Once;
use crate::process::{Task, minutes};
use crate::workspace::{self, copy_tree, make_empty};
use crate::{package, tools};
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose files the service worker does not keep: the engine keeps models itself, and the
/// example pages are others.
const OTHERS: [&str; 2] = ["model", "examples"];
/// Endings of files that the page asks for, beside modules and styles.
const OF_THE_PAGE: [&str; 5] = ["html", "wasm", "svg", "png", "webmanifest"];

/// The page's folder; built, with the package, when it is first asked for.
pub fn build() -> Result<&'static Path> {
    static SITE: Once = Once::new();
    SITE.get(assemble)
}

fn assemble() -> Result<PathBuf> {
    let package = package::build()?;
    let site = workspace::target().join("www");
    make_empty(&site)?;
    copy_tree(&workspace::root().join("www"), &site, &|_| true)?;
    copy_tree(package, &site.join("tabloom"), &|_| true)?;
    add_examples(&site)?;
    list_files(&site, &bundle(&site)?)?;
    Ok(site)
}

/// Bundles the page; gives the paths of the modules and styles that it and its worker load.
fn bundle(site: &Path) -> Result<BTreeSet<String>> {
    let paths = tools::script("xtask/js/bundle.mjs")?.arg(site).output()?;
    serde_json::from_str(&paths).context("the paths of the bundle")
}

/// Adds the web examples, those that use npm packages as bundles.
fn add_examples(site: &Path) -> Result<()> {
    let script = workspace::root().join("examples/web/build.mjs");
    Task::new("bundling the examples", tools::node()?, minutes(5)).arg(script).arg(site).run()
}

/// Puts before the service worker which files the page has, by path, and the SHA-256 of each.
fn list_files(site: &Path, modules: &BTreeSet<String>) -> Result<()> {
    let mut files = BTreeMap::new();
    for file in workspace::files(site)? {
        let path = file.strip_prefix(site)?;
        let name = path.to_string_lossy().into_owned();
        let asked = OF_THE_PAGE.iter().any(|end| path.extension().is_some_and(|own| own == *end));
        let other = OTHERS.iter().any(|folder| path.starts_with(folder));
        if !other && (asked || modules.contains(&name)) {
            let digest = Sha256::digest(fs::read(&file)?);
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            files.insert(name, hex);
        }
    }
    let worker = site.join("sw.js");
    let script = fs::read_to_string(&worker).context("www/sw.js")?;
    let files = serde_json::to_string_pretty(&files)?;
    fs::write(&worker, format!("const FILES = {files};\n\n{script}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_worker_is_told_the_files_of_the_page_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        for other in ["model/config.html", "examples/page.html", "tabloom/index.d.ts", "chat.js"] {
            write(other, "other");
        }
        write("index.html", "abc");
        write("tabloom/wasm/glue.js", "");
        write("sw.js", "worker();");
        let modules = BTreeSet::from(["tabloom/wasm/glue.js".to_owned()]);
        list_files(folder.path(), &modules).unwrap();
        let script = fs::read_to_string(folder.path().join("sw.js")).unwrap();
        let (list, rest) = script.split_once(";\n\n").unwrap();
        assert_eq!(rest, "worker();");
        let list: BTreeMap<String, String> =
            serde_json::from_str(list.strip_prefix("const FILES = ").unwrap()).unwrap();
        let paths: Vec<&str> = list.keys().map(String::as_str).collect();
        assert_eq!(paths, ["index.html", "tabloom/wasm/glue.js"]);
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(list["index.html"], abc);
    }
}
