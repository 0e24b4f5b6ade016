//! The documents say what is there: links lead somewhere, files that are named exist, functions are in
//! the files they are looked for in, every module and every parameter of a request has its row, and every
//! code of an error has its heading in `docs/reference/errors.md`, which has no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Lines of the README.
const MOST_LINES: usize = 150;
/// What is built or fetched, and not the project's to write.
const FOREIGN: [&str; 3] = ["target", "node_modules", ".git"];
/// Where files are that the documents name from the repository's root.
const NAMED: [&str; 9] = [
    "src/",
    "shaders/",
    "pkg-template/",
    "wasm/",
    "tests/",
    "examples/",
    "training/",
    "www/",
    "docs/",
];
/// Named, but made on each machine.
const MADE: &str = "training/build/";
const README: &str = include_str!("../README.md");
const ARCHITECTURE: &str = include_str!("../docs/architecture.md");
const ERRORS: &str = include_str!("../docs/reference/errors.md");
const REQUESTS: &str = include_str!("../docs/reference/requests.md");
const CHATS: &str = include_str!("../src/api/request.rs");
const COMPLETIONS: &str = include_str!("../src/api/completion.rs");
const EMBEDDINGS: &str = include_str!("../src/api/embeddings.rs");
const VARIANTS: &str = include_str!("../src/error.rs");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files below a folder with one of these endings.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !FOREIGN.contains(&name.as_str()) {
            found.extend(files(&path, endings));
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    found
}

fn is_code(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase())
}

/// The codes that stand in quotes, the first behind each place where `source` has `before`.
fn quoted<'a>(source: &'a str, before: &str) -> impl Iterator<Item = &'a str> {
    let behind = source.split(before).skip(1).map(str::trim_start);
    behind.filter_map(|rest| rest.strip_prefix('"')?.split('"').next()).filter(|code| is_code(code))
}

/// The variants of the error enum, as codes.
fn variants() -> BTreeSet<String> {
    let body = VARIANTS.split("pub enum Error {").nth(1).unwrap().split("\n}").next().unwrap();
    let named = |line: &str| {
        let line = line.strip_prefix("    ")?;
        let name = line.split([' ', ',', '(']).next()?;
        name.starts_with(|c: char| c.is_ascii_uppercase()).then(|| snake(name))
    };
    body.lines().filter_map(named).collect()
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && i > 0 {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[test]
fn every_error_has_a_heading_and_every_heading_an_error() {
    let mut codes = variants();
    assert!(codes.len() > 20 && codes.contains("no_gpu") && codes.contains("closed"));
    let mut sources = String::new();
    for path in files(&root().join("pkg-template"), &[".js"]) {
        let source = read(&path);
        for before in ["code:", "refused(", "failed("] {
            codes.extend(quoted(&source, before).map(String::from));
        }
        sources += &source;
    }
    assert!(codes.contains("engine_crashed") && codes.contains("model_not_found"));
    for path in files(&root().join("examples/serve"), &[".rs"]) {
        let source = read(&path);
        for call in source.split("Failure::new(").skip(1) {
            codes.extend(quoted(call.split(");").next().unwrap(), ", ").map(String::from));
        }
        sources += &source;
    }
    assert!(codes.contains("invalid_api_key"));
    let headings = ERRORS.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    let headings: BTreeSet<String> = headings.map(String::from).collect();
    let unknown: Vec<_> = headings
        .iter()
        .filter(|&it| !codes.contains(it) && !sources.contains(&format!("\"{it}\"")))
        .collect();
    assert!(unknown.is_empty(), "docs/reference/errors.md has headings of no error: {unknown:?}");
    let missing: Vec<_> = codes.difference(&headings).collect();
    assert!(missing.is_empty(), "docs/reference/errors.md has no heading for {missing:?}");
}

#[test]
fn every_parameter_has_a_row_and_every_row_a_parameter() {
    let chat = CHATS.split("Ok(request! {").nth(1).unwrap().split('}').next().unwrap();
    let taken = |source| quoted(source, "fields.take(").collect();
    let expected: [(_, BTreeSet<&str>); 3] = [
        ("Chats", chat.split_whitespace().chain(["messages", "model"]).collect()),
        ("Text completions", taken(COMPLETIONS)),
        ("Embeddings", taken(EMBEDDINGS)),
    ];
    for (heading, parameters) in expected {
        let section = REQUESTS.split(&format!("\n## {heading}\n")).nth(1).unwrap();
        let lines = section.split("\n## ").next().unwrap().lines();
        let rows = lines.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let rows: BTreeSet<&str> = rows.chain(["model"]).collect();
        assert!(parameters.len() > 3 && rows == parameters, "{heading}: {rows:?}, {parameters:?}");
    }
}

#[test]
fn the_readme_is_short() {
    let lines = README.lines().count();
    assert!(lines <= MOST_LINES, "README.md has {lines} lines, expected at most {MOST_LINES}");
}

#[test]
fn links_of_the_documents_lead_somewhere() {
    let documents = files(root(), &[".md"]);
    assert!(documents.len() > 30);
    let mut wrong = Vec::new();
    for document in &documents {
        let text = read(document);
        let prose = prose(&text);
        let targets = links(&prose);
        for target in targets.iter().filter(|target| !is_elsewhere(target)) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let found = match path {
                "" => document.clone(),
                path => document.parent().unwrap().join(path),
            };
            let is_there = found.exists();
            let has_anchor = || anchors(&read(&found)).contains(anchor);
            if !is_there || !anchor.is_empty() && !has_anchor() {
                wrong.push(format!(
                    "{}: {target}",
                    document.strip_prefix(root()).unwrap().display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "links lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn files_that_are_named_exist() {
    let mut count = 0;
    let mut missing = Vec::new();
    for document in files(root(), &[".md"]) {
        let text = read(&document);
        let prose = prose(&text);
        let paths =
            spans(&prose).filter(|span| NAMED.iter().any(|folder| span.starts_with(folder)));
        for path in paths.filter(|path| !path.contains(char::is_whitespace) && *path != MADE) {
            count += 1;
            if !is_there(path) {
                missing.push(format!("{}: {path}", document.display()));
            }
        }
    }
    assert!(count > 50, "found {count} paths");
    assert!(missing.is_empty(), "named, and not there:\n{}", missing.join("\n"));
}

#[test]
fn functions_are_in_the_files_of_their_row() {
    let section = ARCHITECTURE.split("## Where to find what").nth(1).unwrap();
    let rows = section.split("\n\n").nth(1).unwrap().lines().skip(2);
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        let named = |cell: usize| spans(cells[cell]);
        let paths: Vec<&str> = named(2).filter(|span| span.contains('/')).collect();
        assert!(!paths.is_empty() && named(3).count() >= paths.len(), "no file or function: {row}");
        for (path, function) in paths.iter().zip(named(3)) {
            assert!(defines(&read(&root().join(path)), function), "{path} has no {function}");
        }
        count += 1;
    }
    assert!(count > 10, "found {count} rows");
}

#[test]
fn every_module_has_its_row() {
    let (rows, leaves) = table("## Modules");
    let named = rows.into_iter().chain([leaves]).flat_map(spans).map(String::from);
    let entries = fs::read_dir(root().join("src")).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let modules = names.map(|name| name.trim_end_matches(".rs").to_owned());
    let modules: BTreeSet<_> = modules.filter(|module| module != "lib").collect();
    assert_eq!(named.collect::<BTreeSet<_>>(), modules);

    let package = root().join("pkg-template");
    let sources = files(&package, &[".js"]);
    let paths = sources.iter().map(|file| file.strip_prefix(&package).unwrap().with_extension(""));
    let mut missing: Vec<String> = paths.map(|path| path.to_str().unwrap().to_owned()).collect();
    for row in table("The page's side:").0 {
        let (folder, names) = row.split_once(':').unwrap_or(("", row));
        for name in spans(names) {
            let path = format!("{}{name}", folder.trim_matches([' ', '`']));
            let has_types =
                ["", ".d.ts"].iter().any(|end| package.join(path.clone() + end).exists());
            let count = missing.len();
            missing.retain(|it| *it != path && !(path.ends_with('/') && it.starts_with(&path)));
            assert!(missing.len() < count || has_types, "no {path}, or it has two rows");
        }
    }
    assert!(missing.is_empty(), "no row has {missing:?}");
}

/// The first cells of the table that follows a line of the architecture, and the paragraph behind it.
fn table(line: &str) -> (Vec<&'static str>, &'static str) {
    let behind = ARCHITECTURE.split(&format!("\n{line}\n")).nth(1).unwrap();
    let mut paragraphs = behind.split("\n\n").skip_while(|it| !it.trim_start().starts_with('|'));
    let rows = paragraphs.next().unwrap().trim_start().lines().skip(2);
    (rows.map(|row| row.split('|').nth(1).unwrap()).collect(), paragraphs.next().unwrap())
}

/// What stands between backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a source has a function or, as `Owner::name` or `Owner.name`, a method.
fn defines(source: &str, function: &str) -> bool {
    let (owner, name) = function.rsplit_once(['.', ':']).unwrap_or(("", function));
    let has = |pattern: String| Regex::new(&pattern).unwrap().is_match(source);
    let (owner, name) = (owner.trim_end_matches(':'), regex::escape(name));
    has(format!(r"\b(fn|function) {name}\b|(?m)^  (async )?{name}\(.*\{{$"))
        && (owner.is_empty() || has(format!(r"(?m)^(impl|(export )?class)\b.*\b{owner}\b")))
}

/// Whether there is a file, or one that begins like this where the rest is left open.
fn is_there(path: &str) -> bool {
    let Some((before, _)) = path.split_once('*') else { return root().join(path).exists() };
    let (folder, start) = before.rsplit_once('/').unwrap();
    let begins = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with(start);
    fs::read_dir(root().join(folder)).is_ok_and(|entries| entries.flatten().any(begins))
}

/// A document without its blocks of code.
fn prose(text: &str) -> String {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if !inside {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// What links and pictures name.
fn links(prose: &str) -> Vec<&str> {
    let named =
        |before, end: char| prose.split(before).skip(1).filter_map(move |it| it.split(end).next());
    let all = named("](", ')').chain(named("src=\"", '"')).chain(named("srcset=\"", '"'));
    all.filter(|target| !target.contains(char::is_whitespace)).collect()
}

/// Whether a link has a scheme, or is an address on a site.
fn is_elsewhere(target: &str) -> bool {
    let scheme = target.split(':').next().unwrap_or_default();
    target.starts_with('/')
        || target.contains(':') && scheme.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// What the headings of a document are called in links.
fn anchors(document: &str) -> BTreeSet<String> {
    let prose = prose(document);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let texts = headings.map(|line| line.trim_start_matches('#').trim());
    texts.map(anchor).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || "_- ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
