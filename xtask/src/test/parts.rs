//! The parts of `cargo xtask test`, and what each checks.

use super::check::Check;
use super::tally::Tally;
use super::{files, pages, rust};
use crate::cargo::REAL;
use crate::tools::{self, SITE, Tool};
use crate::{docs, package, workspace};
use anyhow::{Result, bail};
use clap::ValueEnum;

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
    /// Apps made with the package by bundlers and frameworks, whose npm packages it fetches
    Apps,
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
    /// In WebKitGTK, without WebGPU: wasm-bindgen tests, the package, the demo page and the element
    Webkit,
    /// Published models, tokenizers and templates, native and in Chromium
    Real,
    /// The native server, driven by the `openai` package, and the chat in the terminal
    Serve,
}

use Tool::{
    Chromium, Clippy, Firefox, Lavapipe, Node, NpmPackages, RealFiles, Rustfmt, TypeDoc,
    WasmTarget, Webkit,
};

/// Native programs ask for an adapter.
const ON_LAVAPIPE: &[Tool] = &[Lavapipe];
/// xtask's own tests ask for esbuild.
const NATIVE: &[Tool] = &[Node, NpmPackages, Lavapipe];
const IN_CHROMIUM: &[Tool] = &[WasmTarget, Node, NpmPackages, Chromium];
const REAL_FILES: &[Tool] = &[Node, NpmPackages, Lavapipe, RealFiles];
const REAL_IN_CHROMIUM: &[Tool] = &[WasmTarget, Node, NpmPackages, Chromium, RealFiles];
const IN_FIREFOX: &[Tool] = &[WasmTarget, Node, NpmPackages, Firefox, Lavapipe];
const IN_WEBKIT: &[Tool] = &[WasmTarget, Node, NpmPackages, Webkit];

/// Folders with a tsconfig.json; all are strict but the tests.
const PROJECTS: [&str; 4] = [".", "xtask/js/sw", "examples", "tests"];

type Program = fn(&str, &[&str]) -> Result<()>;

impl Part {
    /// What a run of all parts checks of it.
    pub fn checks_among_all(self) -> Vec<Check> {
        match self {
            Self::Apps => vec![usual_apps()],
            Self::Clippy => vec![lints(rust::clippy_beyond_tests)],
            part => part.checks(),
        }
    }

    /// What the part checks, in order.
    pub fn checks(self) -> Vec<Check> {
        match self {
            Self::Fmt => vec![Check::new("fmt", "formatting", &[Rustfmt], || done(rust::format()))],
            Self::Clippy => vec![lints(rust::clippy)],
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
                Check::new("package", "tests of the package", IN_CHROMIUM, || {
                    pages::of_package(files::in_folder("tests/package")?)
                })
                .by_file(path),
            ],
            Self::Apps => vec![apps(pages::Apps::All)],
            Self::Native => vec![
                Check::new("native", "native tests", NATIVE, rust::native)
                    .by_file(|test| files::of_test("tests/native", test)),
            ],
            Self::Docs => {
                vec![Check::new("docs", "the API reference", &[Node, TypeDoc], || {
                    done(docs::write())
                })]
            }
            Self::Tabs => vec![in_chromium("tabs", "tests of many tabs", "tests/e2e/tabs")],
            Self::Gpu => vec![
                Check::new("gpu", "GPU tests on lavapipe", ON_LAVAPIPE, || {
                    rust::gpu(&tools::lavapipe()?, &[])
                })
                .by_file(|test| files::of_test("tests/gpu", test)),
                Check::new("gpu", "GPU tests on SwiftShader", &[Chromium, Lavapipe], || {
                    rust::gpu(&tools::swiftshader()?, &rust::ON_ONE_ADAPTER)
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
                Check::new("browser", "browser tests in Chromium", IN_CHROMIUM, || {
                    rust::in_chromium("browser")
                }),
                Check::new("browser", "browser tests in Firefox", IN_FIREFOX, rust::in_firefox),
            ],
            Self::Webkit => vec![
                Check::new("webkit", "browser tests in WebKitGTK", IN_WEBKIT, rust::in_webkit),
                Check::new("webkit", "pages in WebKitGTK", IN_WEBKIT, || {
                    pages::in_webkit(files::in_webkit()?)
                }),
            ],
            Self::Real => vec![
                Check::new("real", "published files, native", REAL_FILES, || {
                    rust::target(REAL, &[])
                }),
                Check::new("real", "published models in Chromium", REAL_IN_CHROMIUM, || {
                    pages::in_chromium(files::in_folder("tests/e2e/real")?)
                })
                .by_file(path),
            ],
            Self::Serve => {
                let title = "tests of the native examples";
                vec![
                    Check::new("serve", title, NATIVE, || {
                        pages::native_programs(files::in_folder("tests/serve")?)
                    })
                    .by_file(path),
                ]
            }
        }
    }
}

fn lints(work: fn() -> Result<()>) -> Check {
    Check::new("clippy", "lints", &[Clippy, WasmTarget], move || done(work()))
}

fn apps(which: pages::Apps) -> Check {
    Check::new("apps", "apps of bundlers and frameworks", IN_CHROMIUM, move || {
        pages::of_apps(files::in_folder("tests/apps")?, which)
    })
}

/// Run again by `--file`, as `--only` builds all.
fn usual_apps() -> Check {
    apps(pages::Apps::Usual).again_by("--file tests/apps/apps.test.mjs".into())
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
    Check::new(part, title, IN_CHROMIUM, move || pages::in_chromium(files::in_folder(folder)?))
        .by_file(path)
}

/// The file of a test that Node ran, which it names so.
fn path(test: &str) -> Option<String> {
    Some(test.to_owned())
}

/// A check that holds and counts no tests.
fn done(work: Result<()>) -> Result<Tally> {
    work.map(|()| Tally::default())
}

/// The most telling tenth of the tests: each layer once, with builds at hand a matter of minutes.
pub fn quick() -> Result<Vec<Check>> {
    let files = [
        "tests/e2e/chat.test.mjs",
        "tests/e2e/client-calls.test.mjs",
        "tests/architecture/main.rs",
        "tests/native/cache.rs",
        "tests/native/serving/mod.rs",
        "tests/native/text_goldens.rs",
        "tests/native/completions.rs",
        "tests/gpu/models.rs",
    ];
    Part::Fmt.checks().into_iter().map(Ok).chain(files.map(file)).collect()
}

/// The tests of one file below `tests/`: its path, or its name without its ending.
pub fn file(name: &str) -> Result<Check> {
    let path = files::find(name)?;
    let file = workspace::root().join(&path);
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').skip(1).collect();
    let check = match parts.as_slice() {
        ["serve", ..] if path.ends_with(".mjs") => {
            Check::new("file", name, NATIVE, || pages::native_programs(vec![file]))
        }
        ["e2e", "real", _] => {
            Check::new("file", name, REAL_IN_CHROMIUM, || pages::in_chromium(vec![file]))
        }
        ["e2e", "webkit", _] => {
            Check::new("file", name, IN_WEBKIT, || pages::in_webkit(vec![file]))
        }
        ["apps", ..] => usual_apps(),
        ["package", ..] => Check::new("file", name, IN_CHROMIUM, || pages::of_package(vec![file])),
        _ if path.ends_with(".mjs") => {
            Check::new("file", name, IN_CHROMIUM, || pages::in_chromium(vec![file]))
        }
        [target] if target.starts_with("browser") => {
            let target = (*target).to_owned();
            Check::new("file", name, IN_CHROMIUM, move || rust::in_chromium(&target))
        }
        [target, modules @ ..] => {
            let modules = modules.iter().filter(|module| !["main", "mod"].contains(module));
            let filter: String = modules.map(|module| format!("{module}::")).collect();
            let target = (*target).to_owned();
            let tools = if target == REAL { REAL_FILES } else { ON_LAVAPIPE };
            Check::new("file", name, tools, move || rust::target(&target, &[&filter]))
        }
        [] => bail!("{path} is no test"),
    };
    Ok(check.again_by(format!("--file {path}")))
}
