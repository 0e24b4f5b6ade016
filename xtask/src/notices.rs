//! The notices of the crates whose code is in the package's WebAssembly: copyright and licence of each.

use crate::crates::{self, text_of};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use spdx::{Expression, ParseMode};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The licences under which code may be in the package: they ask for their text and a notice at most.
const ACCEPTED: [&str; 10] = [
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

const HEAD: &str = "# Notices of third parties

The WebAssembly of this package holds code of the crates below, under these licences. Those that name no text of
their own are under the Apache License 2.0, which is in LICENSE-APACHE.
";

/// Writes the notices of all crates in the package, each text once.
///
/// # Errors
/// A crate's licence cannot be read, is not accepted, or asks for a text that the crate does not have.
pub fn write(file: &Path) -> Result<()> {
    // Crates by the text of their notice.
    let mut notices: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in &crates::in_package()? {
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

/// The licence of a crate that is under one of several, and what it asks to be passed on.
fn notice(package: &Value) -> Result<String> {
    let licence = text_of(package, "license")?;
    ensure!(is_accepted(licence)?, "{licence} is not accepted");
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

/// Whether what an SPDX expression asks for can be met by accepted licences.
fn is_accepted(licence: &str) -> Result<bool> {
    // Old manifests separate licences by a slash.
    let expression = Expression::parse_mode(licence, ParseMode::LAX)
        .with_context(|| format!("{licence} is no SPDX expression"))?;
    Ok(expression.evaluate(|asked| {
        asked.license.id().is_some_and(|licence| ACCEPTED.contains(&licence.name))
    }))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().to_uppercase()
}

fn is_notice(name: &str) -> bool {
    ["LICENSE", "LICENCE", "UNLICENSE", "COPYING", "NOTICE"].iter().any(|it| name.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_that_ask_for_more_than_a_notice_are_refused() {
        let accepted =
            ["MIT", "MIT/Apache-2.0", "MIT OR GPL-3.0-only", "(MIT OR Apache-2.0) AND Unicode-3.0"];
        assert!(accepted.iter().all(|licence| is_accepted(licence).unwrap()));
        for refused in ["GPL-3.0-only", "MIT AND LGPL-2.1-or-later", "MPL-2.0"] {
            assert!(!is_accepted(refused).unwrap(), "{refused}");
        }
        assert!(is_accepted("as you like").is_err());
    }
}
