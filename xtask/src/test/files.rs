//! The files of tests.

use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::PathBuf;

/// The ending of the tests that Node runs.
const NODE: &str = ".test.mjs";

/// The tests that Node runs in a folder itself, not in folders below.
pub fn in_folder(folder: &str) -> Result<Vec<PathBuf>> {
    let folder = workspace::root().join(folder);
    let entries = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(NODE));
    files.sort();
    ensure!(!files.is_empty(), "{} holds no *{NODE}", folder.display());
    Ok(files)
}

/// The tests that run in WebKitGTK: those of its own, and of the others some that ask for no GPU.
pub fn in_webkit() -> Result<Vec<PathBuf>> {
    let shared = ["embeddings", "engines", "package", "store", "tabs/closing"];
    let paths = shared.map(|name| workspace::root().join(format!("tests/e2e/{name}{NODE}")));
    Ok(in_folder("tests/e2e/webkit")?.into_iter().chain(paths).collect())
}

/// The path from the repository's root of the test that is called `name`, or lies there or below tests/.
pub fn find(name: &str) -> Result<String> {
    let root = workspace::root();
    let below = |file: &PathBuf| Some(file.strip_prefix(root).ok()?.to_string_lossy().into_owned());
    let files = workspace::files(&root.join("tests"))?;
    let mut paths: Vec<String> = files.iter().filter_map(below).collect();
    paths.retain(|path| {
        [Some(path.as_str()), path.strip_prefix("tests/"), called(path)].contains(&Some(name))
    });
    match paths.as_slice() {
        [path] => Ok(path.clone()),
        [] => bail!("no test below tests/ is called {name}"),
        several => bail!("several tests are called {name}; name one of {}", several.join(", ")),
    }
}

/// The file in `folder`, whose files are modules of one target, that has the test `name`.
pub fn of_test(folder: &str, name: &str) -> Option<String> {
    let (module, rest) = name.split_once("::")?;
    let paths = [format!("{folder}/{module}.rs"), format!("{folder}/{module}/mod.rs")];
    let is_unit_test = rest.starts_with("tests::") || rest.contains("::tests::");
    paths.into_iter().find(|path| !is_unit_test && workspace::root().join(path).is_file())
}

/// What people call the test at `path`; `None` for other files.
fn called(path: &str) -> Option<&str> {
    let (folder, file) = path.rsplit_once('/')?;
    match file.strip_suffix(NODE).or_else(|| file.strip_suffix(".rs"))? {
        "main" | "mod" => Some(folder.rsplit('/').next().unwrap_or(folder)),
        name => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_found_by_its_name_or_its_path() {
        assert_eq!(find("tokens_per_step").unwrap(), "tests/native/tokens_per_step.rs");
        assert_eq!(find("host").unwrap(), "tests/native/host/mod.rs");
        for path in ["tests/gpu/models.rs", "gpu/models.rs"] {
            assert_eq!(find(path).unwrap(), "tests/gpu/models.rs");
        }
        let several = find("models").unwrap_err().to_string();
        assert!(several.contains("tests/gpu/models.rs") && several.contains("host"), "{several}");
        assert!(find("models.rs").is_err());
    }

    #[test]
    fn a_test_that_failed_leads_to_its_file() {
        let of = |name| of_test("tests/native", name);
        assert_eq!(of("cache::a_model").unwrap(), "tests/native/cache.rs");
        assert_eq!(of("host::streams::held").unwrap(), "tests/native/host/mod.rs");
        for other in ["cache::tests::a", "no_such::test", "src/lib.rs - a::b (line 3)", "a"] {
            assert_eq!(of(other), None);
        }
    }
}
