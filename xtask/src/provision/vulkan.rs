//! The software Vulkan adapters that native GPU tests run on.

use super::{apt, browser};
use crate::process::Task;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A Vulkan driver that runs on the CPU.
pub struct Adapter {
    /// What people call it.
    pub name: &'static str,
    /// A part of the name the adapter gives itself.
    pub device: &'static str,
    /// Its manifest for the Vulkan loader.
    pub driver: PathBuf,
}

impl Adapter {
    /// Makes `task` see this adapter and no other.
    pub fn select(&self, task: Task) -> Task {
        task.env("VK_DRIVER_FILES", &self.driver)
            .env("VK_ICD_FILENAMES", &self.driver)
            .env("TABLOOM_ADAPTER_NAME", self.device)
            // Mesa's layer that reorders adapters looks for a display and complains without.
            .env("NODEVICE_SELECT", "1")
    }
}

/// Finds lavapipe and SwiftShader, or installs them. They differ in what matters to kernels:
/// lavapipe has f16 and subgroups of 8, SwiftShader no f16 and subgroups of 4.
pub fn adapters() -> Result<[Adapter; 2]> {
    // SwiftShader comes with Chromium.
    let chromium = browser()?.chromium;
    let swiftshader = swiftshader(&chromium).with_context(|| {
        format!("no vk_swiftshader_icd.json was found beside {}", chromium.display())
    })?;
    let swiftshader = Adapter { name: "SwiftShader", device: "SwiftShader", driver: swiftshader };
    Ok([lavapipe()?, swiftshader])
}

/// Finds lavapipe, or installs it.
pub fn lavapipe() -> Result<Adapter> {
    let driver = match lavapipe_driver() {
        Some(driver) if has_loader() => driver,
        _ => {
            let packages = ["libvulkan1", "mesa-vulkan-drivers"];
            apt::install("Vulkan and the software driver lavapipe", &packages)?;
            lavapipe_driver().context("mesa-vulkan-drivers is installed but holds no lavapipe")?
        }
    };
    Ok(Adapter { name: "lavapipe", device: "llvmpipe", driver })
}

fn lavapipe_driver() -> Option<PathBuf> {
    let folders = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    files.map(|entry| entry.path()).find(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("lvp_icd")
    })
}

fn has_loader() -> bool {
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    [&multiarch, "/usr/lib64", "/usr/lib", "/usr/local/lib"]
        .iter()
        .any(|folder| Path::new(folder).join("libvulkan.so.1").exists())
}

fn swiftshader(chromium: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(chromium).ok()?;
    let beside = real.parent()?.to_owned();
    let folders = [
        beside.as_path(),
        Path::new("/usr/lib/chromium"),
        Path::new("/usr/lib/chromium-browser"),
        Path::new("/snap/chromium/current/usr/lib/chromium-browser"),
        Path::new("/opt/google/chrome"),
    ];
    folders.iter().map(|folder| folder.join("vk_swiftshader_icd.json")).find(|file| file.is_file())
}
