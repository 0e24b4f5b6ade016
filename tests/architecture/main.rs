//! Modules and files depend one way, and the serving core knows neither GPU nor browser.

mod cycles;
mod javascript;
mod rust;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use cycles::{Graph, cycles};

/// Each module and what it may import besides itself and the leaves.
const IMPORTS: [(&str, &[&str]); 17] = [
    ("web", &["host", "prefixes", "service", "load", "engine", "executor", "weights", "sampling"]),
    ("host", &["service", "engine", "prefixes"]),
    ("prefixes", &["weights"]),
    ("service", &["engine", "sampling", "speculate", "text"]),
    ("load", &["executor", "weights", "model", "text", "gpu"]),
    ("engine", &["scheduler", "sampling", "speculate", "executor", "weights"]),
    ("scheduler", &["cache", "sampling", "speculate", "text"]),
    ("executor", &["model", "kernels", "weights", "gpu"]),
    ("weights", &["model", "kernels", "gpu"]),
    ("kernels", &["gpu", "model"]),
    ("text", &["regex"]),
    ("regex", &[]),
    ("cache", &[]),
    ("sampling", &[]),
    ("speculate", &[]),
    ("model", &[]),
    ("gpu", &[]),
];

/// What every module may import.
const LEAVES: [&str; 8] =
    ["step", "layout", "manifest", "metrics", "api", "error", "sniff", "timer"];

/// The only modules that may know a GPU or a browser; the others run under plain `cargo test`.
const OUTER: [&str; 7] = ["web", "executor", "weights", "kernels", "gpu", "regex", "timer"];
const PLATFORM: [&str; 4] = ["wgpu", "web_sys", "js_sys", "wasm_bindgen"];

/// What is wrong with one source file of `module`.
fn violations(module: &str, source: &str) -> Vec<String> {
    let allowed = IMPORTS.iter().find(|(name, _)| *name == module).map(|(_, allowed)| *allowed);
    let Some(allowed) = allowed.or(LEAVES.contains(&module).then_some(&[])) else {
        return vec![format!("module {module} has no row in the table")];
    };
    let named = imports(source);
    let edges = named.iter().filter(|name| {
        *name != module && !LEAVES.contains(&name.as_str()) && !allowed.contains(&name.as_str())
    });
    let mut found: Vec<String> =
        edges.map(|name| format!("{module} must not import {name}")).collect();
    if !OUTER.contains(&module) {
        let platform = PLATFORM.iter().filter(|name| words(source).any(|word| word == **name));
        found.extend(platform.map(|name| format!("{module} must not name {name}")));
    }
    found
}

/// The modules that a source names after `crate::`, alone or in a group. The types that the crate
/// root exports live in `error`.
fn imports(source: &str) -> BTreeSet<String> {
    let paths = source.match_indices("crate::").flat_map(|(at, path)| {
        let rest = &source[at + path.len()..];
        if rest.starts_with('{') { group(rest) } else { vec![rest] }
    });
    let module = |path: &str| match words(path).next() {
        Some("Error" | "Result") | None => "error".to_owned(),
        Some(name) => name.to_owned(),
    };
    paths.map(module).collect()
}

/// The paths of a group `{a::b, c::{d, e}, f}`, each up to the end of the source.
fn group(source: &str) -> Vec<&str> {
    let mut paths = Vec::new();
    let mut depth = 0;
    for (at, c) in source.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 1 && (c == '{' && at == 0 || c == ',') {
            paths.push(source[at + 1..].trim_start());
        } else if depth == 0 {
            break;
        }
    }
    paths.retain(|path| !path.starts_with('}')); // after a trailing comma
    paths
}

fn words(source: &str) -> impl Iterator<Item = &str> {
    source.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect()
}

#[test]
fn modules_depend_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut modules = BTreeSet::new();
    for file in rust_files(&src).into_iter().filter(|file| *file != src.join("lib.rs")) {
        let path = file.strip_prefix(&src).unwrap();
        let module = path.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let source = fs::read_to_string(&file).unwrap();
        found.extend(
            violations(module, &source).iter().map(|what| format!("{}: {what}", path.display())),
        );
        modules.insert(module.to_owned());
    }
    assert!(found.is_empty(), "{found:#?}");
    for module in ["cache", "engine", "scheduler", "step"] {
        assert!(modules.contains(module), "no source of {module} was read");
    }
}

#[test]
fn a_forbidden_edge_is_found_however_it_is_written() {
    let forbidden = [
        ("cache", "use crate::scheduler::Scheduler;"),
        ("cache", "fn f() { crate::scheduler::f() }"),
        (
            "cache",
            "use crate::{\n    Error, step::{BLOCK_SIZE, StepPlan},\n    scheduler::{A, B},\n};",
        ),
        ("kernels", "use crate::executor::Gpu;"),
        ("step", "use crate::engine::Engine;"),
        ("scheduler", "fn f(device: &wgpu::Device) {}"),
        ("text", "use js_sys::Array;"),
        ("attic", "fn f() {}"),
    ];
    for (module, source) in forbidden {
        assert_eq!(violations(module, source).len(), 1, "{module}: {source}");
    }
    let allowed = [
        ("scheduler", "use crate::{Error, Result, cache::KvCache, step::{Capacity, StepPlan,},};"),
        ("scheduler", "use crate::scheduler::Request; // not a queue_of_wgpu"),
        ("gpu", "use crate::{Error, Result};\nfn f(device: &wgpu::Device) {}"),
    ];
    for (module, source) in allowed {
        assert_eq!(violations(module, source), [""; 0], "{module}: {source}");
    }
}

/// The root of each crate.
const CRATES: [&str; 10] = [
    "src/lib.rs",
    "examples/bench/main.rs",
    "examples/quantize/main.rs",
    "examples/serve/main.rs",
    "fuzz/src/lib.rs",
    "grammar/src/lib.rs",
    "xtask/src/main.rs",
    "xtask/bindgen/src/main.rs",
    "wasm/engine/src/lib.rs",
    "wasm/grammar/src/lib.rs",
];

/// Who names what of whom in the crate with this root.
fn read_crate(root: &str) -> Graph {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = rust_files(repository.join(root).parent().unwrap());
    let read = |file: PathBuf| {
        let path = file.strip_prefix(repository).unwrap().to_str().unwrap().replace('\\', "/");
        (path, fs::read_to_string(file).unwrap())
    };
    rust::read(root, &files.into_iter().map(read).collect())
}

#[test]
fn files_depend_one_way() {
    let graphs = CRATES.map(read_crate);
    let found: Vec<String> = graphs.iter().flat_map(cycles).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert!(graphs[0]["src/engine.rs"]["src/scheduler/state.rs"].contains("Scheduler"));
}
