//! Metrics and state of the host, as a tab may see them.

use serde::Serialize;

use super::{Host, models::State};
use crate::{Error, Result, engine::TabId, metrics::Metrics, step::Executor};

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

impl<E: Executor> Host<E> {
    /// The metrics for a tab, without those of tabs whose prefix cache it does not share.
    pub(super) fn metrics(&mut self, tab: TabId) -> Result<HostMetrics> {
        let (asking, heap_bytes) = (tab, self.identity.heap_bytes);
        let known = self.tabs.get(&tab).ok_or(Error::Handshake)?;
        let (model, salt) = (known.model.ok_or(Error::Closed)?, known.salt);
        let ready = self.models.ready(model).ok_or(Error::Closed)?;
        let mut engine = ready.service.metrics();
        let related = |tab: u64| self.tabs.get(&TabId(tab)).is_some_and(|tab| tab.salt == salt);
        if !self.all_share {
            engine.restrict_to(related);
        }
        let tabs = self.tabs.iter().filter(|(_, tab)| tab.salt == salt);
        let url = |model| self.models.get(model).map(|model| model.url.clone());
        let tabs = tabs.map(|(id, tab)| TabState {
            id: id.0,
            visible: tab.visible,
            model: tab.model.and_then(url),
            you: *id == asking,
        });
        let models = self.models.iter().filter_map(|(_, model)| match &model.state {
            State::Ready(ready) => Some((model, ready)),
            State::Loading(_) => None,
        });
        let visible = models.filter(|(_, ready)| {
            ready.tabs.is_empty() || ready.tabs.iter().any(|tab| related(tab.0))
        });
        let models = visible.map(|(model, ready)| ModelState {
            url: model.url.clone(),
            bytes: model.bytes,
            tabs: ready.tabs.len(),
            requests: ready.requests(),
        });
        let (budget_bytes, used_bytes) = self.models.memory();
        let host = HostState {
            name: self.identity.lock.clone(),
            tabs: tabs.collect(),
            models: models.collect(),
            budget_bytes,
            used_bytes,
        };
        Ok(HostMetrics { engine, wasm_heap_bytes: heap_bytes(), host })
    }
}
