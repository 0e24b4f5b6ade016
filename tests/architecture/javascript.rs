//! JavaScript modules depend one way, and the demo page knows only what the package exports.
//!
//! Imports in comments and in `.d.ts` files are of types. They have no effect at run time and may point
//! anywhere, if that makes no cycle.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

use crate::cycles::{Graph, cycles};

/// Each folder, or module outside of folders, and what it may import besides itself and the leaves.
/// A module and the folder of its name are one, unless the module has a row of its own.
const IMPORTS: [(&str, &[&str]); 14] = [
    ("element", &["index", "models", "element/view", "element/prose"]),
    (
        "element/view",
        &[
            "element/prose",
            "element/dom",
            "element/fill",
            "element/icons",
            "element/language",
            "element/quotes",
            "element/texts",
        ],
    ),
    ("element/prose", &["element/dom", "element/icons", "element/texts"]),
    ("element/texts", &[]),
    ("index", &["calls", "host", "models", "probe", "prompt-api"]),
    ("worker", &["models", "wasm"]),
    ("host", &["host/rungs", "models"]),
    ("host/rungs", &["host/page"]),
    ("probe", &["host", "models", "calls/arguments"]),
    ("calls", &[]),
    ("models", &["calls/arguments"]),
    ("prompt-api", &[]),
    ("server-component", &[]),
    ("prompt-api.js", &["index", "calls/arguments"]),
];

/// What every module may import.
const LEAVES: [&str; 9] =
    ["abort", "error", "found", "iterable", "json", "locks", "memory", "types", "version"];

/// Paths from the root of the repository to sources.
type Sources = BTreeMap<String, String>;

/// What is wrong with the imports of `sources`; `exports` are the package's entries.
fn violations(sources: &Sources, exports: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut graph = Graph::new();
    for (path, source) in sources {
        let code = imports(path, &code(path, source));
        let forbidden = code.iter().filter(|target| !is_allowed(path, target, exports));
        found.extend(forbidden.map(|target| format!("{path} must not import {target}")));
        let edges = graph.entry(path.clone()).or_default();
        for target in imports(path, source) {
            let what = if code.contains(&target) { "code" } else { "types" };
            if let Some(file) = file(sources, &target) {
                edges.insert(file, BTreeSet::from([what.to_owned()]));
            }
        }
    }
    found.extend(cycles(&graph));
    found
}

/// The source that an import stands for; `a.js` may be declared in `a.d.ts`.
fn file(sources: &Sources, target: &str) -> Option<String> {
    let declared = target.replace(".js", ".d.ts");
    [target, &declared].into_iter().find(|path| sources.contains_key(*path)).map(str::to_owned)
}

fn is_allowed(path: &str, target: &str, exports: &BTreeSet<String>) -> bool {
    if path.starts_with("xtask/") {
        return true;
    }
    if let Some(file) = target.strip_prefix("www/tabloom/") {
        return path.starts_with("www/") && exports.iter().any(|entry| has(entry, file));
    }
    let (Some(from), Some(to)) = (module(path), module(target)) else {
        return path.starts_with("www/") && target.starts_with("www/");
    };
    let (from, folder) = (folder(from), folder(to));
    if LEAVES.contains(&from) {
        return LEAVES.contains(&to);
    }
    let row = |of| IMPORTS.iter().find(|(name, _)| Some(*name) == of);
    let row = row(path.strip_prefix("pkg-template/")).or(row(Some(from)));
    row.is_some_and(|(_, allowed)| {
        folder == from || LEAVES.contains(&to) || allowed.contains(&folder) || allowed.contains(&to)
    })
}

/// Whether an entry of the package, in which `*` stands for any name, leads to a file.
fn has(entry: &str, file: &str) -> bool {
    let Some((before, after)) = entry.split_once('*') else { return entry == file };
    file.starts_with(before) && file.ends_with(after)
}

/// A module of the package, by its path in it.
fn module(path: &str) -> Option<&str> {
    path.strip_prefix("pkg-template/")?.strip_suffix(".js")
}

fn folder(module: &str) -> &str {
    module.rsplit_once('/').map_or(module, |(folder, _)| folder)
}

/// What of a module has effects at run time.
fn code<'a>(path: &str, source: &'a str) -> Cow<'a, str> {
    if path.ends_with(".d.ts") {
        return "".into();
    }
    let comments = Regex::new(r"(?m)(^|[\s(])(//.*$|/\*(?s:.*?)\*/)").unwrap();
    comments.replace_all(source, " ")
}

/// What a source imports, in whatever way, as paths from the root of the repository.
fn imports(path: &str, source: &str) -> Vec<String> {
    let import = Regex::new(r#"\b(?:from|import)\s*\(?\s*["']([^"']+)["']"#).unwrap();
    import.captures_iter(source).map(|found| join(path, &found[1])).collect()
}

/// `specifier` as seen from the module at `path`; of another package it stays as it is.
fn join(path: &str, specifier: &str) -> String {
    if !specifier.starts_with('.') {
        return specifier.to_owned();
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in specifier.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn read(root: &Path, folder: &Path, sources: &mut Sources) {
    for entry in fs::read_dir(folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            read(root, &path, sources);
        } else if ["js", "mjs", "ts"].map(OsStr::new).map(Some).contains(&path.extension()) {
            let names = path.strip_prefix(root).unwrap().iter();
            let names: Vec<&str> = names.map(|name| name.to_str().unwrap()).collect();
            sources.insert(names.join("/"), fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn modules_depend_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Sources::new();
    for folder in ["pkg-template", "www", "xtask/js"] {
        read(root, &root.join(folder), &mut sources);
    }
    let manifest = fs::read(root.join("pkg-template/package.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let entries = manifest["exports"].as_object().unwrap().values();
    let files = entries.filter_map(|entry| entry["default"].as_str()?.strip_prefix("./"));
    let exports = files.map(str::to_owned).collect();
    let found = violations(&sources, &exports);
    assert!(found.is_empty(), "{found:#?}");
    for path in ["www/main.js", "pkg-template/index.js", "pkg-template/host/rungs/leader.js"] {
        assert!(!imports(path, &sources[path]).is_empty(), "found no imports in {path}");
    }
}

#[test]
fn a_forbidden_import_is_found_however_it_is_written() {
    let exports = BTreeSet::from(["index.js", "element/texts/*.js"].map(str::to_owned));
    let check = |path: &str, source: &str| {
        violations(&Sources::from([(path.to_owned(), source.to_owned())]), &exports)
    };
    for (path, source) in [
        ("pkg-template/calls/a.js", r#"import { Session } from "../host/session.js";"#),
        ("pkg-template/calls/a.js", "import {\n  A,\n  B,\n} from '../host/session.js';"),
        ("pkg-template/calls/a.js", r#"export * from "../models/store.js";"#),
        ("pkg-template/calls/a.js", r#"const later = () => import("../models/store.js");"#),
        ("pkg-template/calls/a.js", "const later = () =>\n  import(\n    \"../index.js\"\n  );"),
        ("pkg-template/host/a.js", r#"import "../worker.js";"#),
        ("pkg-template/host/rungs/a.js", r#"import { Session } from "../session.js";"#),
        ("pkg-template/element/prose/a.js", r#"import { View } from "../view/view.js";"#),
        ("pkg-template/json.js", r#"import { Engine } from "./index.js";"#),
        ("pkg-template/prompt-api/a.js", r#"import { Engine } from "../index.js";"#),
        ("pkg-template/attic/a.js", r#"import { A } from "../error.js";"#),
        ("pkg-template/index.js", r#"import { A } from "a-package";"#),
        ("pkg-template/index.js", r#"import { A } from "../www/dom.js";"#),
        ("www/a.js", r#"import { TabloomError } from "./tabloom/error.js";"#),
        ("www/a.js", r#"import { TabloomError } from "../pkg-template/error.js";"#),
        ("www/a.js", r#"import { a } from "./a.js";"#),
        ("www/a.js", r#"import { TEXTS } from "./tabloom/element/texts.js";"#),
    ] {
        assert_eq!(check(path, source).len(), 1, "{path}: {source}");
    }
    for (path, source) in [
        ("pkg-template/calls/a.js", "/** @import { Port } from \"../host/messages.js\" */"),
        ("pkg-template/calls/a.js", "// import(\"../index.js\")\nimport \"./b.js\";"),
        ("pkg-template/host/rungs/a.js", r#"import { visible } from "../page.js";"#),
        ("pkg-template/prompt-api.js", r#"import { Engine } from "./index.js";"#),
        ("pkg-template/element.js", r#"import { View } from "./element/view/view.js";"#),
        ("www/a.js", r#"import { Engine } from "./tabloom/index.js"; import "./b.js";"#),
        ("www/a.js", r#"const german = () => import("./tabloom/element/texts/de.js");"#),
    ] {
        assert_eq!(check(path, source), [""; 0], "{path}: {source}");
    }
}

#[test]
fn cycles_are_found_once() {
    let module = |name: &str, target: &str| {
        (format!("www/{name}.js"), format!("const later = () => import(\"./{target}.js\");"))
    };
    let types = |name: &str, target: &str| {
        (format!("www/{name}"), format!("/** @import {{ A }} from \"./{target}\" */"))
    };
    let straight = [module("a", "b"), module("b", "c"), types("c.js", "d.js")];
    let round = [module("a", "b"), module("b", "c"), module("c", "b")];
    let by_types = [module("a", "b"), types("b.js", "c.js"), types("c.d.ts", "b.js")];
    let check = |modules: [(String, String); 3]| violations(&modules.into(), &BTreeSet::new());
    assert_eq!(check(straight), [""; 0]);
    assert_eq!(check(round), ["www/b.js -> www/c.js (code) -> www/b.js (code)"]);
    assert_eq!(check(by_types), ["www/b.js -> www/c.d.ts (types) -> www/b.js (types)"]);
}
