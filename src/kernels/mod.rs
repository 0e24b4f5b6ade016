//! One file per shader: its parameters, its launch shape, and the same computation in plain Rust.
//!
//! The plain versions are the oracle of the kernel tests and, put together, the CPU executor.

pub mod attention;
pub mod batch;
pub mod kv;
pub mod noise;
pub mod rope_kv;
pub mod sample;

pub use attention::{Attention, AttentionMerge};
pub use batch::Batch;
pub use kv::KvLayout;
pub use rope_kv::{RopeKv, rope_table};
pub use sample::Sample;

use crate::gpu::{AdapterReport, Shader};

/// What a variant may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuning {
    /// Subgroup operations may be used (any size from 4 to 128).
    pub subgroups: bool,
    /// Barriers are cheap. On software adapters they are not: one thread per result is faster.
    pub barriers: bool,
}

impl Tuning {
    /// The variant that suits an adapter.
    pub fn of(adapter: &AdapterReport) -> Tuning {
        Tuning { subgroups: adapter.subgroups && !adapter.software, barriers: !adapter.software }
    }
}

/// A computation on the GPU.
pub trait Kernel {
    /// Renders the shader. Binding 0 is the step's [`Batch`] unless the kernel says otherwise.
    fn shader(&self, tuning: Tuning) -> Shader;

    /// Workgroups for a step.
    fn grid(&self, tuning: Tuning, batch: &Batch) -> [u32; 3];
}
