//! Chromium and its WebDriver.

use super::apt;
use crate::workspace::find_program;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// A browser to test in, and the driver that steers it.
pub struct Browser {
    pub chromium: PathBuf,
    pub driver: PathBuf,
}

/// Finds Chromium and chromedriver, or installs them.
pub fn browser() -> Result<Browser> {
    if let Some(browser) = find() {
        return Ok(browser);
    }
    let packages = if is_ubuntu() {
        ["chromium-browser", "chromium-chromedriver"]
    } else {
        ["chromium", "chromium-driver"]
    };
    apt::install("Chromium and its driver", &packages)?;
    find().context("Chromium or chromedriver is still not on the search path after installing it")
}

fn is_ubuntu() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    release.lines().any(|line| line == "ID=ubuntu")
}

fn find() -> Option<Browser> {
    let chromium = find_program(&["chromium", "chromium-browser", "google-chrome"])?;
    let driver = find_program(&["chromedriver", "chromium.chromedriver"])?;
    Some(Browser { chromium, driver })
}
