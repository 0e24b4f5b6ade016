//! The crates of others whose code is in the package's WebAssembly.

use crate::cargo::{self, WASM};
use crate::wasm;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What cargo knows of each.
pub fn in_package() -> Result<Vec<Value>> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", WASM];
    let text = cargo::task("cargo metadata").args(arguments).output()?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata")?;
    Ok(others(&metadata).context("cargo metadata")?.into_iter().cloned().collect())
}

/// Their names and versions.
pub fn names() -> Result<Value> {
    let name = |package: &Value| json!({ "name": package["name"], "version": package["version"] });
    Ok(in_package()?.iter().map(name).collect())
}

/// A field of what cargo knows of a crate.
pub fn text_of<'a>(package: &'a Value, field: &str) -> Result<&'a str> {
    package[field].as_str().with_context(|| format!("no {field}"))
}

/// The packages of others that are compiled into the modules.
fn others(metadata: &Value) -> Option<Vec<&Value>> {
    let packages: BTreeMap<&str, &Value> = by_id(&metadata["packages"])?
        .into_iter()
        .filter(|(_, package)| !is_macro(package))
        .collect();
    let nodes = by_id(&metadata["resolve"]["nodes"])?;
    let is_module = |id: &&str| wasm::packages().any(|name| packages[id]["name"] == name);
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
