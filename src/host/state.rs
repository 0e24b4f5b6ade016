//! What a host tells about itself.

use serde::Serialize;

use crate::metrics::Metrics;

/// Counters and gauges of a model's engine, and of the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostMetrics {
    #[serde(flatten)]
    pub engine: Metrics,
    /// Size of the WebAssembly memory, which never shrinks: the peak so far.
    pub wasm_heap_bytes: usize,
    pub host: HostState,
}

/// What a host has, as far as the tab that asks may know.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostState {
    /// The Web Lock that it holds as long as it lives.
    pub name: Option<String>,
    /// The tabs whose prefixes the asking one may share.
    pub tabs: Vec<TabState>,
    /// Their models, and those that nobody has.
    pub models: Vec<ModelState>,
    /// Memory for weights, keys and values of all models.
    pub budget_bytes: u64,
    pub used_bytes: u64,
}

/// A tab as others see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TabState {
    pub id: u64,
    pub visible: bool,
    /// The address of its model.
    pub model: Option<String>,
    /// Whether it is the one that asks.
    pub you: bool,
}

/// A loaded model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelState {
    pub url: String,
    /// Weights, keys and values.
    pub bytes: u64,
    /// How many tabs have it.
    pub tabs: usize,
    /// Requests that are being answered or wait.
    pub requests: usize,
}
