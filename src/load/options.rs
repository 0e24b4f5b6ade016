//! How a model is to be loaded.

use crate::{executor::KvKind, step::Window, weights::Quantise};

/// How to load a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadOptions {
    pub device: Device,
    pub quantise: Quantise,
    /// Context length in tokens; by default the model's, or 1,048,576 with sinks.
    pub context: Option<usize>,
    /// Attention window for models with full attention. With sinks, a conversation may exceed the model's
    /// context (StreamingLLM): tokens between the sinks and the last tokens are dropped.
    pub window: Option<Window>,
    /// Data type of the KV cache; layers for which int8 is unsafe stay in f16.
    pub kv: KvKind,
    /// The drafter of speculative decoding, besides prompt lookup.
    pub draft: DraftWith,
    /// Bytes for the KV cache; by default a sixteenth of the budget and at most 1 GiB, 256 MiB if there is no
    /// budget, or what 4096 tokens need if that is more.
    pub kv_bytes: Option<u64>,
    /// Memory budget for weights and KV caches of all models.
    pub budget: Option<u64>,
    /// Bytes of host memory for cached blocks that the KV cache has no room for.
    pub host_bytes: u64,
    /// Whether cached blocks are read to be stored; they come back through host memory.
    pub stores: bool,
    /// Gives KV cache and steps a quarter of their size: the device was lost, perhaps for want of memory.
    pub sparing: bool,
    pub features: Features,
}

/// Optional features of the GPU that are used where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    pub subgroups: bool,
}

impl Default for Features {
    fn default() -> Features {
        Features { subgroups: true }
    }
}

/// Where the drafter of speculative decoding comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftWith {
    /// The draft head, or draft model with the same vocabulary, in the model's subfolder `draft`, if there
    /// is one. If it cannot be used, the model runs without it.
    #[default]
    Bundled,
    /// The same in a separate folder. If it is missing or cannot be used, the model runs without it.
    Separate,
    Nothing,
    /// The model's first layers: this many.
    EarlyExit(usize),
}

/// The device that a model runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    #[default]
    Gpu,
    /// Plain Rust on the CPU: slow, but without requirements.
    Cpu,
}
