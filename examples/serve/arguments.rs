//! The command line.

use std::{net::IpAddr, path::PathBuf};

use axum::http::HeaderValue;
use clap::Parser;

/// Serves one model over HTTP with OpenAI's API.
#[derive(Clone, Parser)]
pub struct Arguments {
    /// A folder in Hugging Face's layout, or a GGUF file.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/www/model"))]
    pub model: PathBuf,
    /// The model's name in requests; by default the name of its folder or file.
    #[arg(long)]
    pub name: Option<String>,
    #[arg(long, value_parser = ["cpu", "gpu"], default_value = "gpu")]
    pub device: String,
    /// Context length in tokens; by default the model's.
    #[arg(long)]
    pub context: Option<usize>,
    /// Size of the queue; further requests get status 429.
    #[arg(long, default_value_t = 512)]
    pub max_queue: usize,
    #[arg(long, default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// A name in the header `Host` that is accepted on a loopback address, beside the loopback's own. May
    /// be repeated.
    #[arg(long)]
    pub allow_host: Vec<String>,
    /// 0 chooses a free one.
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// API key that requests must send (`Authorization: Bearer KEY`).
    #[arg(long)]
    pub api_key: Option<String>,
    /// Origin whose pages may send requests, or `*` for any.
    #[arg(long)]
    pub cors: Option<HeaderValue>,
}

impl Arguments {
    /// The model's name in requests.
    pub fn name(&self) -> String {
        let own = || self.model.file_name().map(|name| name.to_string_lossy().into_owned());
        self.name.clone().or_else(own).unwrap_or_else(|| "model".into())
    }
}
