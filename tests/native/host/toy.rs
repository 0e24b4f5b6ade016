//! An executor without a model: the token at a position is a hash of seed and position.

use std::{cell::Cell, rc::Rc, time::Duration};

use futures::{FutureExt, future::ready};
use tabloom::{
    Error, Result,
    step::{BlockRead, Capacity, Executor, HostMemory, KvGroups, Sample, StepPlan, StepResult},
};

/// Blocks that tokens can be in.
pub const BLOCKS: usize = 64;

/// Computes steps at once, or in turn on a device that several share, until it is set to fail.
pub struct Toy {
    plans: Vec<(StepPlan, Duration)>,
    /// Steps after which the device is lost.
    pub fails_after: Option<usize>,
    device: Option<(Rc<Device>, Duration)>,
    /// Where blocks can be kept beside the device.
    pub host: HostMemory,
}

/// A device that computes one step after another, and the time on it.
#[derive(Default)]
pub struct Device {
    now: Cell<Duration>,
    /// When it has computed all that was submitted.
    free: Cell<Duration>,
}

impl Device {
    pub fn now(&self) -> Duration {
        self.now.get()
    }
}

impl Toy {
    pub fn new() -> Toy {
        Toy { plans: Vec::new(), fails_after: None, device: None, host: HostMemory::NONE }
    }

    /// One whose steps take this long.
    pub fn on(device: Rc<Device>, step: Duration) -> Toy {
        Toy { device: Some((device, step)), ..Toy::new() }
    }
}

impl Executor for Toy {
    fn capacity(&self) -> Capacity {
        Capacity {
            rows: 64,
            seqs: 4,
            logit_rows: 4,
            blocks: BLOCKS + 1, // the null block
            context: 512,
            vocab: 2048,
            groups: KvGroups::FULL,
            host: self.host,
        }
    }

    fn depth(&self) -> usize {
        if self.device.is_some() { 2 } else { 1 }
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        if let Some(left) = &mut self.fails_after {
            let lost = || Error::DeviceLost { reason: "as the test wants it".into() };
            *left = left.checked_sub(1).ok_or_else(lost)?;
        }
        let mut end = Duration::ZERO;
        if let Some((device, step)) = &self.device {
            end = device.free.get().max(device.now()) + *step;
            device.free.set(end);
        }
        self.plans.push((plan.clone(), end));
        Ok(())
    }

    async fn result(&mut self, _turn: impl AsyncFn()) -> Result<StepResult> {
        let (plan, end) = self.plans.remove(0);
        if let Some((device, _)) = &self.device {
            device.now.set(device.now().max(end));
        }
        let embeds = plan.seqs.iter().filter(|seq| seq.pool.is_some_and(|pool| pool.last));
        let embeddings = embeds.map(|_| vec![1.0]).collect();
        let sample = |seq: &tabloom::step::SeqPlan| {
            let position = u64::from(seq.start) + seq.tokens.count() as u64;
            let mixed = (seq.sample?.seed ^ position << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // Ordinary words of the built-in model's tokenizer.
            let token = 400 + (mixed >> 40) as u32 % 1000;
            Some(Sample { slot: seq.slot, token, not_finite: 0, logprobs: None })
        };
        let samples = plan.seqs.iter().filter_map(sample).collect();
        Ok(StepResult { samples, embeddings, ..Default::default() })
    }

    fn read_blocks(&mut self, blocks: &[u32]) -> Option<BlockRead> {
        Some(ready(Ok(vec![7; blocks.len()])).boxed_local())
    }

    fn set_host_block(&mut self, _block: u32, words: &[u32]) -> bool {
        words == [7]
    }
}
