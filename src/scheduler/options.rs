//! How a scheduler is set up.

use crate::step::MAX_DRAFTS;

/// The rules of a scheduler. The defaults suit a site whose tabs chat.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub policy: Policy,
    /// Most sequences that run at once; the executor's own limit holds too.
    pub max_running: usize,
    /// Most requests that wait, of all tabs and of one.
    pub max_queue: usize,
    pub max_queue_per_tab: usize,
    /// Rows of a step that one prompt may take while others have rows to compute.
    pub long_prefill_threshold: usize,
    /// Raises the threshold to an equal share of the step's rows.
    pub adaptive_threshold: bool,
    /// How long a step should take at most, in seconds. Prompts are cut into chunks accordingly, as
    /// measured steps tell: a driver's watchdog kills what runs for seconds. Infinity: no limit.
    pub step_seconds: f64,
    /// The share of KV blocks that admission leaves free for those that run.
    pub watermark: f64,
    /// The share of KV blocks, in use or findable, from which on a tab that needs more takes the
    /// oldest of its own findable blocks, and not the oldest of all.
    pub tab_share: f64,
    /// Whether computed prefixes are found again.
    pub prefix_caching: bool,
    /// Serves requests with a long cached prefix before others of their tab.
    pub cache_aware: bool,
    /// Most tokens that are drafted for a sequence and verified in one step, at most
    /// [`MAX_DRAFTS`]; 0: none ever is.
    pub max_drafts: usize,
    /// Drafts as many as pay, by how often they are right and how long steps take; otherwise as many
    /// as it may.
    pub adaptive_drafts: bool,
    /// Makes the hashes of cached blocks unpredictable to those who choose the prompts.
    pub seed: u64,
}

/// Who of a tab's waiting requests is next, and who gives way when memory is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served; the last admitted gives way.
    #[default]
    Fcfs,
    /// The lowest [`super::Request::priority`] first, then the first come; the last of this order
    /// gives way.
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
