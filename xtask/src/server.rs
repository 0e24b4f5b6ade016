//! The static file server of the demo page and the end-to-end tests: `js/serve.mjs` in a process of
//! its own.

use crate::tools;
use crate::workspace;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running server; it ends once dropped, and with this program however that ends.
pub struct Server {
    process: Child,
    url: String,
}

impl Server {
    /// Serves the files below `folder` on `port`, or on the next port that is free; 0 is any.
    pub fn start(folder: &Path, port: u16) -> Result<Self> {
        Self::spawn(folder, port, false)
    }

    /// The same with the repository's own files in place of those built from them. Pages reload when
    /// one is saved.
    pub fn watch(folder: &Path, port: u16) -> Result<Self> {
        Self::spawn(folder, port, true)
    }

    fn spawn(folder: &Path, port: u16, watch: bool) -> Result<Self> {
        let mut process = Command::new(tools::node()?)
            .arg(workspace::root().join("xtask/js/serve.mjs"))
            .arg(folder)
            .arg(port.to_string())
            .args(watch.then_some("--watch"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the file server")?;
        let output = process.stdout.take().context("the file server has no output")?;
        let mut url = String::new();
        BufReader::new(output).read_line(&mut url)?;
        let server = Self { process, url: url.trim().to_owned() };
        anyhow::ensure!(!server.url.is_empty(), "the file server ended before it listened");
        Ok(server)
    }

    /// The address to open.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves until the process ends.
    pub fn wait(mut self) -> Result<()> {
        // The server ends with its input, which waiting would close.
        let _input = self.process.stdin.take();
        let status = self.process.wait()?;
        anyhow::bail!("the file server ended ({status})")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
