//! The software Vulkan adapters that native GPU tests run on.

use super::browser::chromium;
use super::source::Source;
use crate::process::Task;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

pub const LAVAPIPE: Source = Source::Apt(&["libvulkan1", "mesa-vulkan-drivers"]);

/// A Vulkan driver that runs on the CPU.
pub struct Adapter {
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

/// SwiftShader, which comes with Chromium: no f16, subgroups of 4.
pub fn swiftshader() -> Result<Adapter> {
    let program = fs::canonicalize(chromium()?)?;
    let folders = [
        program.parent().unwrap_or(Path::new("/")),
        Path::new("/usr/lib/chromium"),
        Path::new("/usr/lib/chromium-browser"),
        Path::new("/snap/chromium/current/usr/lib/chromium-browser"),
        Path::new("/opt/google/chrome"),
    ];
    let manifests = folders.map(|folder| folder.join("vk_swiftshader_icd.json"));
    let driver = manifests
        .into_iter()
        .find(|file| file.is_file())
        .with_context(|| format!("no vk_swiftshader_icd.json beside {}", program.display()))?;
    Ok(Adapter { device: "SwiftShader", driver })
}

/// Mesa's lavapipe: f16, subgroups of 8.
pub fn lavapipe() -> Result<Adapter> {
    anyhow::ensure!(has_loader(), "no libvulkan.so.1");
    let is_lavapipe = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("lvp_icd")
    };
    let driver = manifests().find(is_lavapipe).context("no lavapipe")?;
    Ok(Adapter { device: "llvmpipe", driver })
}

/// Whether native programs may find an adapter. Linux needs a driver for that; other systems bring one.
pub fn has_driver() -> bool {
    !cfg!(target_os = "linux") || has_loader() && manifests().next().is_some()
}

/// What drivers tell the Vulkan loader.
fn manifests() -> impl Iterator<Item = PathBuf> {
    let folders = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    let files = folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok());
    files.flatten().flatten().map(|entry| entry.path())
}

fn has_loader() -> bool {
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    [&multiarch, "/usr/lib64", "/usr/lib", "/usr/local/lib"]
        .iter()
        .any(|folder| Path::new(folder).join("libvulkan.so.1").exists())
}
