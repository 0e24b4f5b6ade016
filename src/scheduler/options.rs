//! Options of a scheduler.

use crate::step::MAX_DRAFTS;

/// The rules of a scheduler. The defaults suit a site whose tabs chat.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub policy: Policy,
    /// Most running sequences; the executor's own limit holds too.
    pub max_running: usize,
    /// Most waiting requests, of all tabs and of one.
    pub max_queue: usize,
    pub max_queue_per_tab: usize,
    /// Rows of a step that one prompt may take while others have rows to compute.
    pub long_prefill_threshold: usize,
    /// Raises the threshold to an equal share of the step's rows.
    pub adaptive_threshold: bool,
    /// Target for the longest step, in seconds. Prefill is cut into chunks accordingly, from measured
    /// step times: a driver's watchdog kills work that runs for seconds. Infinity: no limit.
    pub step_seconds: f64,
    /// The share of KV blocks that admission leaves free for running sequences.
    pub watermark: f64,
    /// If a tab has more than this share of the KV blocks, in use or cached, it evicts its own oldest
    /// cached blocks first, and not the oldest of all.
    pub tab_share: f64,
    /// Whether computed prefixes are reused.
    pub prefix_caching: bool,
    /// Serves requests with a long cached prefix before others of their tab.
    pub cache_aware: bool,
    /// Most draft tokens per sequence and step, at most [`MAX_DRAFTS`]; 0: no speculative decoding.
    pub max_drafts: usize,
    /// Chooses the number of drafts by acceptance rate and step times; otherwise it is always the
    /// maximum.
    pub adaptive_drafts: bool,
    /// Makes the hashes of cached blocks unpredictable to whoever chooses the prompts.
    pub seed: u64,
}

/// Which of a tab's waiting requests is next, and which running one is preempted when memory is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served; the last admitted is preempted.
    #[default]
    Fcfs,
    /// The lowest [`super::Request::priority`] first, then the first come; the last in this order is
    /// preempted.
    Priority,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            policy: Policy::Fcfs,
            max_running: usize::MAX,
            max_queue: 512,
            max_queue_per_tab: 128,
            long_prefill_threshold: 128,
            adaptive_threshold: true,
            step_seconds: 0.1,
            watermark: 0.01,
            tab_share: 0.5,
            prefix_caching: true,
            cache_aware: true,
            max_drafts: MAX_DRAFTS,
            adaptive_drafts: true,
            seed: 0,
        }
    }
}
