//! Chromium and its WebDriver, Firefox, which needs none, and WebKitGTK's, which starts it.

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

/// WebKitGTK's driver. The browser itself, which comes with it, needs a display.
pub fn webkit_driver() -> Result<PathBuf> {
    find_program(&["Xvfb"]).context("no Xvfb")?;
    find_program(&["WebKitWebDriver"]).context("no WebKitWebDriver")
}

pub const WEBKIT: Source = Source::Apt(&["webkit2gtk-driver", "xvfb"]);

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
