//! Chromium and its WebDriver, and Firefox, which needs none.

use super::{Adapter, apt, vulkan::lavapipe};
use crate::process::Task;
use crate::workspace::find_program;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// A browser to test in, and the driver that steers it.
pub struct Browser {
    pub chromium: PathBuf,
    pub driver: PathBuf,
}

/// Firefox, and the adapter that it is to use: it has none of its own.
pub struct Firefox {
    program: PathBuf,
    adapter: Adapter,
}

impl Firefox {
    /// Finds Firefox and lavapipe, or installs them.
    pub fn provide() -> Result<Self> {
        Ok(Self { program: firefox()?, adapter: lavapipe()? })
    }

    /// Makes `task` run its tests in Firefox.
    pub fn select(&self, task: Task) -> Task {
        self.adapter.select(task).env("TABLOOM_FIREFOX", &self.program)
    }
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

/// Finds Firefox, or installs it.
fn firefox() -> Result<PathBuf> {
    let find = || find_program(&["firefox-esr", "firefox"]);
    if let Some(firefox) = find() {
        return Ok(firefox);
    }
    apt::install("Firefox", &[if is_ubuntu() { "firefox" } else { "firefox-esr" }])?;
    find().context("Firefox is still not on the search path after installing it")
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
