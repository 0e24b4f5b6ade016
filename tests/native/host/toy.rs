//! An executor without a model: the token at a position is a hash of seed and position.

use tabloom::{
    Error, Result,
    step::{Capacity, Executor, HostMemory, KvGroups, Sample, StepPlan, StepResult},
};

/// Blocks that tokens can be in.
pub const BLOCKS: usize = 64;

/// Computes steps at once, until it is set to fail.
pub struct Toy {
    plans: Vec<StepPlan>,
    /// Steps after which the device is lost.
    pub fails_after: Option<usize>,
}

impl Toy {
    pub fn new() -> Toy {
        Toy { plans: Vec::new(), fails_after: None }
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
            host: HostMemory::NONE,
        }
    }

    fn depth(&self) -> usize {
        1
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        if let Some(left) = &mut self.fails_after {
            let lost = || Error::DeviceLost { reason: "as the test wants it".into() };
            *left = left.checked_sub(1).ok_or_else(lost)?;
        }
        self.plans.push(plan.clone());
        Ok(())
    }

    async fn result(&mut self) -> Result<StepResult> {
        let plan = self.plans.remove(0);
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
}
