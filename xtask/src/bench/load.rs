//! `cargo xtask bench load`: how fast a model comes from a server and from the browser's store, what
//! each stage costs, and how much memory it takes.

use super::native;
use super::rows::{Row, table};
use crate::process::{Task, minutes};
use crate::server::Server;
use crate::{site, tools, workspace};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Prints the figures of the browser for a model of `mib` MiB, and those of native kernels and digests.
pub fn run(mib: u64, json: bool, arguments: &[String]) -> Result<()> {
    let mut figures = browser(mib)?;
    let native: Value = serde_json::from_str(&native::output(&["stages", "--json"], arguments)?)
        .context("examples/bench stages printed something else than figures")?;
    let hash = json!({ "wasm": figures["hash_mb_s"].take(), "native": native["hash_mb_s"] });
    figures["hash_mb_s"] = hash;
    for name in ["native_adapter", "copy_gb_s", "repack_gb_s", "repack_share_of_copy"] {
        figures[name] = native[name].clone();
    }
    match json {
        true => println!("{}", serde_json::to_string_pretty(&figures)?),
        false => print!("\n{}", table(&rows(&figures))),
    }
    Ok(())
}

/// What tests/e2e/bench-load.mjs measures in headless Chromium of a model of `mib` MiB.
fn browser(mib: u64) -> Result<Value> {
    let chromium = tools::chromium()?;
    let root = site::build()?;
    let folder = Generated(root.join("generated"));
    eprintln!("writing two models of {mib} MiB");
    let (to, text) = (folder.0.display().to_string(), root.join("model").display().to_string());
    native::output(&["checkpoint", &to, "--text", &text, "--mib", &mib.to_string()], &[])?;
    let server = Server::start(root, 0)?;
    let text = Task::new("loads in the browser", tools::node()?, minutes(60))
        // Node 20 has it behind a switch.
        .args(["--experimental-websocket", "tests/e2e/bench-load.mjs"])
        .dir(workspace::root())
        .env("TABLOOM_URL", server.url())
        .env("TABLOOM_CHROMIUM", chromium)
        .output()?;
    serde_json::from_str(&text).context("bench-load.mjs printed something else than figures")
}

/// A folder that is deleted in the end.
struct Generated(std::path::PathBuf);

impl Drop for Generated {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new(&self.0));
    }
}

/// One row per number, named by its path.
fn rows(figures: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    add(&mut rows, "", figures, figures["adapter"].as_str().unwrap_or("load"));
    rows
}

fn add(rows: &mut Vec<Row>, path: &str, value: &Value, on: &str) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name } else { &format!("{path}.{name}") };
                add(rows, path, value, on);
            }
        }
        Value::Number(number) => {
            rows.push(Row::new(on, path, number.as_f64().unwrap_or(f64::NAN), ""));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_named_by_their_paths() {
        let figures = json!({ "adapter": "A", "cold_mb_s": 3.5, "stages": { "network": 10 } });
        let expected = [("cold_mb_s", 3.5), ("stages.network", 10.0)];
        assert_eq!(rows(&figures), expected.map(|(name, value)| Row::new("A", name, value, "")));
    }
}
