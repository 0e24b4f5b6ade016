//! Executors, which run steps: on the GPU, or on the CPU with the kernels' references.

mod buffers;
mod cpu;
mod drafting;
mod gpu;
mod host_blocks;
mod kinds;
mod kv_places;
mod lower;
mod outcome;
mod profile;
mod recording;
mod shapes;

pub use cpu::CpuExecutor;
pub use drafting::Drafter;
pub use gpu::{GpuExecutor, HostWork};
pub use kinds::{gpu_kv_kinds, host_kv_kinds};
pub use kv_places::kv_groups;

use crate::{
    Result,
    step::{BlockRead, Capacity, Executor, StepPlan, StepResult},
};

pub use crate::kernels::KvKind;
pub use shapes::{block_bytes, layer_block_bytes};

/// Either executor, chosen when a model is loaded.
pub enum AnyExecutor {
    Gpu(Box<GpuExecutor>),
    Cpu(Box<CpuExecutor>),
}

impl Executor for AnyExecutor {
    fn capacity(&self) -> Capacity {
        match self {
            AnyExecutor::Gpu(executor) => executor.capacity(),
            AnyExecutor::Cpu(executor) => executor.capacity(),
        }
    }

    fn depth(&self) -> usize {
        match self {
            AnyExecutor::Gpu(executor) => executor.depth(),
            AnyExecutor::Cpu(executor) => executor.depth(),
        }
    }

    fn drafts(&self) -> usize {
        match self {
            AnyExecutor::Gpu(executor) => executor.drafts(),
            AnyExecutor::Cpu(executor) => executor.drafts(),
        }
    }

    fn lookahead(&self) -> usize {
        match self {
            AnyExecutor::Gpu(executor) => executor.lookahead(),
            AnyExecutor::Cpu(executor) => executor.lookahead(),
        }
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        match self {
            AnyExecutor::Gpu(executor) => executor.submit(plan),
            AnyExecutor::Cpu(executor) => executor.submit(plan),
        }
    }

    async fn result(&mut self, turn: impl AsyncFn()) -> Result<StepResult> {
        match self {
            AnyExecutor::Gpu(executor) => executor.result(turn).await,
            AnyExecutor::Cpu(executor) => executor.result(turn).await,
        }
    }

    fn read_blocks(&mut self, blocks: &[u32]) -> Option<BlockRead> {
        match self {
            AnyExecutor::Gpu(executor) => executor.read_blocks(blocks),
            AnyExecutor::Cpu(executor) => executor.read_blocks(blocks),
        }
    }

    fn set_host_block(&mut self, block: u32, words: &[u32]) -> bool {
        match self {
            AnyExecutor::Gpu(executor) => executor.set_host_block(block, words),
            AnyExecutor::Cpu(executor) => executor.set_host_block(block, words),
        }
    }
}
