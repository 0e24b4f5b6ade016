//! Metrics and state of the host, as a tab may see them.

use serde::Serialize;

use crate::metrics::Metrics;

/// Counters and gauges of a model's engine, and of the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostMetrics {
    #[serde(flatten)]
    pub engine: Metrics,
    /// Size of the WebAssembly memory in bytes; it never shrinks, so this is the peak.
    pub wasm_heap_bytes: usize,
    pub host: HostState,
}

/// Tabs, models and memory of a host, limited to what the asking tab may see.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostState {
    /// The Web Lock that the host holds while it lives.
    pub name: Option<String>,
    /// Tabs whose prefix cache the asking tab may share.
    pub tabs: Vec<TabState>,
    /// Models of these tabs, and models that no tab uses.
    pub models: Vec<ModelState>,
    /// Memory limit for weights and KV caches of all models.
    pub budget_bytes: u64,
    pub used_bytes: u64,
}

/// A tab, as other tabs see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TabState {
    pub id: u64,
    pub visible: bool,
    /// URL of its model.
    pub model: Option<String>,
    /// Whether it is the asking tab.
    pub you: bool,
}

/// A loaded model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelState {
    pub url: String,
    /// Weights and KV cache.
    pub bytes: u64,
    /// Number of tabs that use it.
    pub tabs: usize,
    /// Requests that run or wait.
    pub requests: usize,
}
