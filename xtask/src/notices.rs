//! The notices of the crates whose code is in the package's WebAssembly: copyright and licence of each.

use crate::cargo::{self, WASM};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that become the package's modules.
const MODULES: [&str; 2] = ["tabloom-wasm", "tabloom-grammar-wasm"];

const HEAD: &str = "# Notices of third parties

The WebAssembly of this package holds code of the crates below, under these licences. Those that name no text of
their own are under the Apache License 2.0, which is in LICENSE-APACHE.
";

/// Writes the notices of all crates in the package, each text once.
///
/// # Errors
/// A crate's licence cannot be read, or asks for a text that the crate does not have.
pub fn write(file: &Path) -> Result<()> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", WASM];
    let text = cargo::task("cargo metadata").args(arguments).output()?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata")?;
    // Crates by the text of their notice.
    let mut notices: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in dependencies(&metadata).context("cargo metadata")? {
        let name = format!("{} {}", text_of(package, "name")?, text_of(package, "version")?);
        let notice = notice(package).with_context(|| format!("the licence of {name}"))?;
        notices.entry(notice).or_default().insert(name);
    }
    let mut sections: Vec<_> = notices.into_iter().map(|(notice, names)| (names, notice)).collect();
    sections.sort();
    let sections = sections.into_iter().map(|(names, notice)| {
        let names: Vec<_> = names.into_iter().collect();
        format!("\n## {}\n\n{notice}\n", names.join(", "))
    });
    let text = HEAD.to_owned() + &sections.collect::<String>();
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// The packages of others that are compiled into the modules.
fn dependencies(metadata: &Value) -> Option<Vec<&Value>> {
    let packages: BTreeMap<&str, &Value> = by_id(&metadata["packages"])?
        .into_iter()
        .filter(|(_, package)| !is_macro(package))
        .collect();
    let nodes = by_id(&metadata["resolve"]["nodes"])?;
    let is_module = |id: &&str| MODULES.iter().any(|name| packages[id]["name"] == *name);
    let mut open: Vec<&str> = packages.keys().copied().filter(is_module).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !packages.contains_key(id) || !found.insert(id) {
            continue;
        }
        for dependency in nodes.get(id)?["deps"].as_array()? {
            // Others run when it is built or tested.
            if dependency["dep_kinds"].as_array()?.iter().any(|kind| kind["kind"].is_null()) {
                open.push(dependency["pkg"].as_str()?);
            }
        }
    }
    let of_others = found.into_iter().map(|id| packages[id]).filter(|it| !it["source"].is_null());
    Some(of_others.collect())
}

fn by_id(list: &Value) -> Option<BTreeMap<&str, &Value>> {
    list.as_array()?.iter().map(|entry| Some((entry["id"].as_str()?, entry))).collect()
}

fn is_macro(package: &Value) -> bool {
    let targets = package["targets"].as_array().into_iter().flatten();
    let mut kinds = targets.flat_map(|target| target["kind"].as_array()).flatten();
    kinds.any(|kind| kind == "proc-macro")
}

/// The licence of a crate that is under one of several, and what it asks to be passed on.
fn notice(package: &Value) -> Result<String> {
    let licence = text_of(package, "license")?;
    let folder = Path::new(text_of(package, "manifest_path")?).parent().context("no folder")?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() && is_notice(&name_of(&path)) {
            files.push(path);
        }
    }
    files.sort();
    let is_mit = |path: &&PathBuf| name_of(path).contains("MIT");
    if !licence.contains(" AND ") && files.iter().any(|path| is_mit(&path)) {
        files.retain(|path| is_mit(&path) || name_of(path).starts_with("NOTICE"));
    }
    ensure!(!files.is_empty() || licence.contains("Apache-2.0"), "{licence} without a text");
    let texts = files.iter().map(|path| Ok(fs::read_to_string(path)?.trim().to_owned()));
    let texts = texts.collect::<Result<Vec<_>>>()?;
    Ok([vec![licence.to_owned()], texts].concat().join("\n\n"))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().to_uppercase()
}

fn is_notice(name: &str) -> bool {
    ["LICENSE", "LICENCE", "UNLICENSE", "COPYING", "NOTICE"].iter().any(|it| name.starts_with(it))
}

fn text_of<'a>(package: &'a Value, field: &str) -> Result<&'a str> {
    package[field].as_str().with_context(|| format!("no {field}"))
}
