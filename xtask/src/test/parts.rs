//! The parts of `cargo xtask test`, and what each checks.

use super::check::Check;
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

const IN_CHROMIUM: &[Tool] = &[WasmTarget, Node, NpmPackages, Chromium];
const IN_FIREFOX: &[Tool] = &[WasmTarget, Node, NpmPackages, Firefox, Lavapipe];

impl Part {
    /// What the part checks, in order.
    pub fn checks(self) -> Vec<Check> {
        match self {
            Self::Fmt => vec![Check::new("fmt", "formatting", &[Rustfmt], rust::format)],
            Self::Clippy => {
                vec![Check::new("clippy", "clippy", &[Clippy, WasmTarget], rust::clippy)]
            }
            Self::Native => {
                vec![Check::tests(
                    "native",
                    "native tests",
                    &[Lavapipe, Node, NpmPackages],
                    rust::native,
                )]
            }
            Self::Gpu => vec![
                Check::tests("gpu", "GPU tests on lavapipe", &[Lavapipe], || {
                    rust::gpu(&tools::lavapipe()?)
                }),
                Check::tests("gpu", "GPU tests on SwiftShader", &[Lavapipe, Chromium], || {
                    rust::gpu(&tools::swiftshader()?)
                }),
            ],
            Self::Browser => vec![
                Check::tests(
                    "browser",
                    "browser tests in Chromium",
                    IN_CHROMIUM,
                    rust::in_chromium,
                ),
                Check::tests("browser", "browser tests in Firefox", IN_FIREFOX, rust::in_firefox),
            ],
            Self::Serve => {
                let needs = &[Lavapipe, Node, NpmPackages];
                let work = pages::native_programs;
                vec![Check::tests("serve", "tests of the native examples", needs, work)]
            }
            Self::Package => vec![
                Check::new("package", "the package's size", &SITE, || {
                    package::run(&Default::default())
                }),
                Check::tests("package", "tests of the package", IN_CHROMIUM, pages::of_package),
            ],
            Self::Docs => {
                vec![Check::new("docs", "the API reference", &[Node, TypeDoc], docs::write)]
            }
            Self::E2e => vec![in_chromium("e2e", "end-to-end tests", "tests/e2e")],
            Self::Tabs => vec![in_chromium("tabs", "tests of many tabs", "tests/e2e/tabs")],
            Self::Firefox => {
                let title = "the demo page and the element in Firefox";
                vec![Check::tests("firefox", title, IN_FIREFOX, pages::in_firefox)]
            }
        }
    }
}

fn in_chromium(part: &'static str, title: &str, folder: &'static str) -> Check {
    Check::tests(part, title, IN_CHROMIUM, move || pages::in_chromium(pages::files_in(folder)?))
}

/// The tests of one file below `tests/`, by its name without its ending.
pub fn file(name: &str) -> Result<Check> {
    let folder = workspace::root().join("tests");
    let found = find(&folder, name).with_context(|| {
        format!(
            "no test is called {name}: no {name}.rs, {name}/main.rs or {name}.test.mjs below tests/"
        )
    })?;
    let again = format!("--file {name}");
    let parent = found.parent().unwrap_or(&folder).to_owned();
    let check = if found.extension().is_some_and(|ending| ending == "mjs") {
        Check::tests("file", name, IN_CHROMIUM, || pages::in_chromium(vec![found]))
    } else if parent == folder || found.ends_with("main.rs") {
        let target = name.to_owned();
        Check::tests("file", name, &[Lavapipe], move || rust::target(&target, None))
    } else {
        let module = name.to_owned();
        let target = parent.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Check::tests("file", name, &[Lavapipe], move || rust::target(&target, Some(&module)))
    };
    Ok(check.again_by(again))
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
