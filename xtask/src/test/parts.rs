//! The parts of `cargo xtask test`, and what each checks.

use super::check::Check;
use super::tally::Tally;
use super::{pages, rust};
use crate::tools::{self, SITE, Tool};
use crate::{docs, package, workspace};
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Part {
    /// cargo fmt --check
    Fmt,
    /// Lints, native and for WebAssembly; a warning is an error
    Clippy,
    /// JavaScript: lints, formatting, types, exports that nothing uses
    Js,
    /// The package as it is published: size, contents, types, apps made by Vite and webpack
    Package,
    /// Native tests
    Native,
    /// The API reference, which must know all that it names
    Docs,
    /// One engine for many tabs, driven by Playwright
    Tabs,
    /// Kernels and models on each software adapter
    Gpu,
    /// The demo page, the examples and the package, driven by Playwright
    E2e,
    /// The demo page and the element in Firefox
    Firefox,
    /// wasm-bindgen tests in headless Chromium, then in Firefox
    Browser,
    /// The native server, driven by the `openai` package, and the chat in the terminal
    Serve,
}

use Tool::{Chromium, Clippy, Firefox, Lavapipe, Node, NpmPackages, Rustfmt, TypeDoc, WasmTarget};

/// Native programs ask for an adapter, and xtask's own tests for esbuild.
const NATIVE: &[Tool] = &[Node, NpmPackages, Lavapipe];
const IN_CHROMIUM: &[Tool] = &[WasmTarget, Node, NpmPackages, Chromium];
const IN_FIREFOX: &[Tool] = &[WasmTarget, Node, NpmPackages, Firefox, Lavapipe];

/// Folders with a tsconfig.json: what is strict, the service worker, and tests and examples.
const PROJECTS: [&str; 3] = [".", "xtask/js/sw", "tests"];

type Program = fn(&str, &[&str]) -> Result<()>;

impl Part {
    /// What the part checks, in order.
    pub fn checks(self) -> Vec<Check> {
        match self {
            Self::Fmt => vec![Check::new("fmt", "formatting", &[Rustfmt], || done(rust::format()))],
            Self::Clippy => {
                vec![Check::new("clippy", "lints", &[Clippy, WasmTarget], || done(rust::clippy()))]
            }
            Self::Js => vec![
                in_node("lints and formatting of JavaScript", |node| {
                    node(
                        "@biomejs/biome/bin/biome",
                        &["ci", "--error-on-warnings", "--diagnostic-level=warn", "--colors=off"],
                    )
                }),
                in_node("types of JavaScript", |node| {
                    PROJECTS
                        .iter()
                        .try_for_each(|folder| node("typescript/bin/tsc", &["-p", folder]))
                }),
                in_node("exports that nothing uses", |node| node("knip/bin/knip.js", &[])),
            ],
            Self::Package => vec![
                Check::new("package", "the package's size", &SITE, || {
                    done(package::run(&Default::default()))
                }),
                Check::new("package", "tests of the package", IN_CHROMIUM, pages::of_package),
            ],
            Self::Native => vec![Check::new("native", "native tests", NATIVE, rust::native)],
            Self::Docs => {
                vec![Check::new("docs", "the API reference", &[Node, TypeDoc], || {
                    done(docs::write())
                })]
            }
            Self::Tabs => vec![in_chromium("tabs", "tests of many tabs", "tests/e2e/tabs")],
            Self::Gpu => vec![
                Check::new("gpu", "GPU tests on lavapipe", NATIVE, || {
                    rust::gpu(&tools::lavapipe()?)
                }),
                Check::new("gpu", "GPU tests on SwiftShader", &[Chromium, Lavapipe], || {
                    rust::gpu(&tools::swiftshader()?)
                }),
            ],
            Self::E2e => vec![in_chromium("e2e", "end-to-end tests", "tests/e2e")],
            Self::Firefox => {
                vec![Check::new(
                    "firefox",
                    "page and element in Firefox",
                    IN_FIREFOX,
                    pages::in_firefox,
                )]
            }
            Self::Browser => vec![
                Check::new("browser", "browser tests in Chromium", IN_CHROMIUM, rust::in_chromium),
                Check::new("browser", "browser tests in Firefox", IN_FIREFOX, rust::in_firefox),
            ],
            Self::Serve => {
                let title = "tests of the native examples";
                vec![Check::new("serve", title, NATIVE, pages::native_programs)]
            }
        }
    }
}

/// A check of JavaScript by npm packages' programs, which `work` is given a way to run.
fn in_node(title: &str, work: fn(Program) -> Result<()>) -> Check {
    Check::new("js", title, &[Node, NpmPackages], move || {
        done(work(|program, arguments| {
            tools::script(&format!("node_modules/{program}"))?.args(arguments).run()
        }))
    })
}

fn in_chromium(part: &'static str, title: &str, folder: &'static str) -> Check {
    Check::new(part, title, IN_CHROMIUM, move || pages::in_chromium(pages::files_in(folder)?))
}

/// A check that holds and counts no tests.
fn done(work: Result<()>) -> Result<Tally> {
    work.map(|()| Tally::default())
}

/// The most telling tenth of the tests: each layer once, with builds at hand a matter of minutes.
pub fn quick() -> Vec<Check> {
    let files = ["chat", "client-calls"].map(|name| format!("tests/e2e/{name}.test.mjs"));
    let files = files.map(|file| workspace::root().join(file)).to_vec();
    let checks = [
        Check::new("quick", "formatting", &[Rustfmt], || done(rust::format())),
        Check::new("quick", "chats end to end", IN_CHROMIUM, || pages::in_chromium(files)),
        Check::new("quick", "the order of files", NATIVE, || rust::target("architecture", &[])),
        Check::new("quick", "cache, scheduler, text", NATIVE, || {
            rust::target("native", &["cache::", "serving::", "text_goldens::", "completions::"])
        }),
        Check::new("quick", "models on lavapipe", NATIVE, || rust::target("gpu", &["models::"])),
    ];
    checks.into_iter().map(|check| check.again_by("--quick".into())).collect()
}

/// The tests of one file below `tests/`, by its name without its ending.
pub fn file(name: &str) -> Result<Check> {
    let folder = workspace::root().join("tests");
    let found = find(&folder, name).with_context(|| {
        format!(
            "no test is called {name}: no {name}.rs, {name}/main.rs or {name}.test.mjs below tests/"
        )
    })?;
    let check = if found.extension().is_some_and(|ending| ending == "mjs") {
        Check::new("file", name, IN_CHROMIUM, || pages::in_chromium(vec![found]))
    } else {
        // A target of its own, or a module of the target that its folder is.
        let own = found.parent() == Some(&folder) || found.ends_with("main.rs");
        let parent = found.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let target = if own { name.to_owned() } else { parent.into_owned() };
        let module = if own { String::new() } else { format!("{name}::") };
        Check::new("file", name, NATIVE, move || rust::target(&target, &[&module]))
    };
    Ok(check.again_by(format!("--file {name}")))
}

/// The file of a test, in `folder` or below.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let files = [format!("{name}.rs"), format!("{name}/main.rs"), format!("{name}.test.mjs")];
    let here = files.iter().map(|file| folder.join(file)).find(|file| file.is_file());
    here.or_else(|| {
        let folders = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        folders.filter(|path| path.is_dir()).find_map(|folder| find(&folder, name))
    })
}
