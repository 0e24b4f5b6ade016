//! Debian and Ubuntu packages.

use super::announce;
use crate::process::{Task, minutes};
use crate::workspace::find_program;
use anyhow::{Context, Result, bail};
use std::sync::Once;

/// Installs `packages`, which hold `what`; fails with the command to run where it may not.
pub fn install(what: &str, packages: &[&str]) -> Result<()> {
    let by_hand = format!("sudo apt-get update && sudo apt-get install -y {}", packages.join(" "));
    if find_program(&["apt-get"]).is_none() {
        bail!("{what} is missing, and there is no apt-get here; on Debian or Ubuntu: {by_hand}");
    }
    let Some(rights) = rights() else {
        bail!("{what} is missing, and installing it needs root; run: {by_hand}");
    };
    let install = ["install", "-y", "--no-install-recommends"];
    announce(what, &format!("apt-get {} {}", install.join(" "), packages.join(" ")));
    static UPDATE: Once = Once::new();
    let mut updated = Ok(());
    UPDATE.call_once(|| updated = apt_get(rights).arg("update").run());
    updated
        .and_then(|()| apt_get(rights).args(install).args(packages).run())
        .with_context(|| format!("cannot install {what}; run it yourself: {by_hand}"))
}

/// True where apt knows a package of this name.
pub fn knows(package: &str) -> bool {
    Task::new("apt-cache", "apt-cache", minutes(1)).args(["show", package]).succeeds()
}

/// The words that give a command root's rights without asking: none for root itself.
fn rights() -> Option<&'static [&'static str]> {
    let id = Task::new("id", "id", minutes(1)).arg("-u").output().ok()?;
    if id.trim() == "0" {
        return Some(&[]);
    }
    let sudo = Task::new("sudo", "sudo", minutes(1)).args(["-n", "true"]).succeeds();
    sudo.then_some(&["sudo", "-n"])
}

fn apt_get(rights: &[&str]) -> Task {
    let words = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"];
    let lock = ["-o", "DPkg::Lock::Timeout=300"];
    let mut words = rights.iter().copied().chain(words).chain(lock);
    let program = words.next().unwrap_or("apt-get");
    Task::new("apt-get", program, minutes(15)).args(words)
}
