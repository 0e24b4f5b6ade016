//! What the serving core counts, under the names that vLLM gives it.

use serde::Serialize;

/// The state of an engine at one moment, and its counters since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Requests that hold KV blocks and are being computed.
    pub num_requests_running: usize,
    /// Requests that wait to be admitted, for the first time or after a preemption.
    pub num_requests_waiting: usize,
    /// The share of KV blocks that are held, from 0 to 1.
    pub kv_cache_usage_perc: f64,
    /// How often a request gave up its blocks, to be computed again.
    pub num_preemptions: u64,
    /// Tokens of the prompts that have been computed.
    pub prompt_tokens: u64,
    /// Tokens sampled and accepted.
    pub generation_tokens: u64,
    /// Requests that ended, by reason.
    pub request_success: RequestSuccess,
}

/// Ended requests by reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RequestSuccess {
    /// An end token or a stop string.
    pub stop: u64,
    /// The token limit or the context length.
    pub length: u64,
    /// Cancelled by the caller.
    pub abort: u64,
    pub error: u64,
}
