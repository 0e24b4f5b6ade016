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
        bail!(
            "missing: {what}. There is no apt-get here; on Debian or Ubuntu it would be: {by_hand}"
        );
    }
    let Some(rights) = rights() else {
        bail!("missing: {what}. Installing needs root; run: {by_hand}");
    };
    let install = ["install", "-y", "--no-install-recommends"];
    announce(what, &format!("apt-get {} {}", install.join(" "), packages.join(" ")));
    static UPDATE: Once = Once::new();
    UPDATE.call_once(|| {
        // One broken source does not matter if the packages come from another.
        if let Err(error) = apt_get(rights).arg("update").run() {
            eprintln!("  {error:#}; going on with the package lists at hand");
        }
    });
    apt_get(rights)
        .args(install)
        .args(packages)
        .run()
        .with_context(|| format!("cannot install {what}; run it yourself: {by_hand}"))
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
    let options = ["-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0"];
    let mut words = rights.iter().copied().chain(words).chain(options);
    let program = words.next().unwrap_or("apt-get");
    Task::new("apt-get", program, minutes(15)).args(words)
}
