//! Packages of Debian and Ubuntu.

use super::find::find_program;
use crate::process::{Task, minutes};
use anyhow::{Context, Result};

const INSTALL: [&str; 3] = ["install", "-y", "--no-install-recommends"];

/// The command that installs `packages`, for a person.
pub fn by_hand(packages: &[&str]) -> String {
    let install = [&INSTALL, packages].concat().join(" ");
    format!("sudo apt-get update && sudo apt-get {install}")
}

/// Why `install` cannot do its work here, and what to do about the command that would.
pub fn obstacle() -> Option<&'static str> {
    match (find_program(&["apt-get"]), rights()) {
        (None, _) => Some("There is no apt-get; install by other means what this would"),
        (_, None) => Some("Installing needs root; run"),
        _ => None,
    }
}

/// Installs `packages`.
pub fn install(packages: &[&str]) -> Result<()> {
    let rights = rights().context("installing packages needs root")?;
    // One broken source does not matter if the packages come from another.
    if let Err(error) = apt_get(rights).arg("update").run() {
        eprintln!("  {error:#}; going on with the package lists at hand");
    }
    apt_get(rights).args(INSTALL).args(packages).run()
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
