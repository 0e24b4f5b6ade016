//! Chromium and its WebDriver, and Firefox, which needs none.

use super::find::find_program;
use super::source::Source;
use anyhow::{Context, Result};
use std::path::PathBuf;

pub fn chromium() -> Result<PathBuf> {
    find_program(&["chromium", "chromium-browser", "google-chrome"]).context("no Chromium")
}

pub fn chromedriver() -> Result<PathBuf> {
    find_program(&["chromedriver", "chromium.chromedriver"]).context("no chromedriver")
}

pub fn firefox() -> Result<PathBuf> {
    find_program(&["firefox-esr", "firefox"]).context("no Firefox")
}

pub fn chromium_source() -> Source {
    Source::Apt(match is_ubuntu() {
        true => &["chromium-browser", "chromium-chromedriver"],
        false => &["chromium", "chromium-driver"],
    })
}

pub fn firefox_source() -> Source {
    Source::Apt(if is_ubuntu() { &["firefox"] } else { &["firefox-esr"] })
}

fn is_ubuntu() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    release.lines().any(|line| line == "ID=ubuntu")
}
