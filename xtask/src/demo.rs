//! `cargo xtask demo`: the page, built and served.

use crate::server::Server;
use crate::site;
use crate::tools;
use anyhow::Result;

#[derive(clap::Args)]
pub struct Options {
    /// The port to serve on; where it is taken, the next free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Do not open a browser.
    #[arg(long)]
    no_open: bool,
    /// Serve www/ and pkg-template/ as they are, and reload pages when a file there is saved.
    #[arg(long)]
    watch: bool,
}

pub fn run(options: &Options) -> Result<()> {
    tools::provide(tools::SITE)?;
    let folder = site::build()?;
    let start = if options.watch { Server::watch } else { Server::start };
    let server = start(folder, options.port)?;
    println!("\nThe demo is at {} (Ctrl-C ends it)", server.url());
    if !options.no_open && !open(server.url()) {
        println!("Open this address in a browser with WebGPU: Chrome, Edge, Firefox or Safari 26");
    }
    server.wait()
}

/// Opens the address in the visitor's browser; false where there is none to open.
fn open(url: &str) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_display = cfg!(any(target_os = "macos", windows))
        || ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(is_set);
    has_display && open::that_detached(url).is_ok()
}
