//! An executor that computes nothing and simulates the time of a model on a device.

use std::{cell::Cell, collections::VecDeque, rc::Rc, time::Duration};

use tabloom::{
    Result,
    step::{
        BLOCK_SIZE, Capacity, Executor, HostMemory, KvGroups, RowTokens, Sample, SeqPlan, StepPlan,
        StepResult,
    },
};

use super::clock::{Clock, SimulatedClock};

/// The cost of a step: reading all weights and the attended keys and values, or computing, whichever
/// takes longer.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Fixed seconds per step.
    pub overhead: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Bytes per second between device and host.
    pub transfer: f64,
    /// Multiplications and additions per second.
    pub flops: f64,
    /// Bytes of weights that every step reads.
    pub weight_bytes: f64,
    /// Bytes of keys and values per token of a sequence.
    pub kv_bytes: f64,
    /// Multiplications and additions per row.
    pub row_flops: f64,
    /// The same per row and attended token.
    pub attention_flops: f64,
    /// The same per row with logits.
    pub logit_flops: f64,
}

impl Cost {
    /// Llama 3.2 1B in int4 with int8 embeddings, on a laptop GPU that reaches 80 % of 100 GB/s and
    /// 2.5 TFLOP/s; a page copies to it and from it at 4 GB/s.
    pub const LAPTOP: Cost = Cost {
        overhead: 1.5e-3,
        bandwidth: 80e9,
        transfer: 4e9,
        flops: 2.5e12,
        weight_bytes: 973e6 * 5.0 / 8.0 + 263e6 * 9.0 / 8.0,
        kv_bytes: (16 * 2 * 8 * 64 * 2) as f64,
        row_flops: 2.0 * 973e6,
        attention_flops: (16 * 4 * 32 * 64) as f64,
        logit_flops: 2.0 * 263e6,
    };

    /// Llama 3.1 8B on the same: 32 layers of 4096, and a head of its own.
    pub const LAPTOP_8B: Cost = Cost {
        weight_bytes: 6.98e9 * 5.0 / 8.0 + 525e6 * 9.0 / 8.0,
        kv_bytes: (32 * 2 * 8 * 128 * 2) as f64,
        row_flops: 2.0 * 6.98e9,
        attention_flops: (32 * 4 * 32 * 128) as f64,
        logit_flops: 2.0 * 525e6,
        ..Cost::LAPTOP
    };

    fn step(&self, plan: &StepPlan) -> Duration {
        let (mut bytes, mut flops) = (0.0, 0.0);
        if plan.rows() > 0 {
            bytes += self.weight_bytes;
        }
        for seq in &plan.seqs {
            let (start, rows) = (f64::from(seq.start), seq.tokens.count() as f64);
            let attended = rows * start + rows * (rows + 1.0) / 2.0;
            bytes += self.kv_bytes * (start + rows);
            flops += self.row_flops * rows + self.attention_flops * attended;
            flops += self.logit_flops * f64::from(u8::from(seq.sample.is_some()));
        }
        let copied = plan.saves.len() + plan.restores.len();
        let copied = copied as f64 * BLOCK_SIZE as f64 * self.kv_bytes / self.transfer;
        let seconds = self.overhead + copied + (bytes / self.bandwidth).max(flops / self.flops);
        Duration::from_secs_f64(seconds)
    }
}

/// The tokens that 128 MiB of host memory have room for, as by default.
pub const HOST_TOKENS: usize = 4096;

/// A device in simulated time, on which executors take turns.
#[derive(Clone, Default)]
pub struct Device {
    pub clock: SimulatedClock,
    /// When it has finished all steps so far.
    free: Rc<Cell<Duration>>,
}

/// Takes simulated time for each step. The sampled token is a function of the row's token and position.
pub struct Modelled {
    cost: Cost,
    device: Device,
    capacity: Capacity,
    last_samples: Vec<u32>, // [seqs]
    in_flight: VecDeque<(Duration, StepResult)>,
}

impl Modelled {
    /// An executor with the capacity of a loaded Llama 3.2 1B with a context of 8192, and host memory for
    /// this many tokens.
    pub fn new(cost: Cost, device: Device, host: usize) -> Modelled {
        let (seqs, context) = (16, 8192);
        let capacity = Capacity {
            rows: 256,
            seqs,
            logit_rows: seqs,
            blocks: context / BLOCK_SIZE,
            context,
            vocab: 128_256,
            groups: KvGroups::FULL,
            host: HostMemory {
                blocks: host / BLOCK_SIZE,
                saves: if host > 0 { 32 } else { 0 },
                reads: 0,
            },
        };
        Modelled { cost, device, capacity, last_samples: vec![0; seqs], in_flight: VecDeque::new() }
    }

    fn sample(&mut self, seq: &SeqPlan) -> Option<Sample> {
        let slot = seq.slot as usize;
        let last = match &seq.tokens {
            RowTokens::Known(tokens) => tokens.last().copied().unwrap_or_default(),
            RowTokens::LastSample => self.last_samples[slot],
        };
        seq.sample?;
        let position = u64::from(seq.start) + seq.tokens.count() as u64;
        let hash = (position << 32 | u64::from(last)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let token = (hash >> 32) as u32 % self.capacity.vocab as u32;
        self.last_samples[slot] = token;
        Some(Sample { slot: seq.slot, token, ..Sample::default() })
    }
}

impl Executor for Modelled {
    fn depth(&self) -> usize {
        2
    }

    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        assert!(!plan.is_empty() && plan.rows() <= self.capacity.rows, "{} rows", plan.rows());
        let samples = plan.seqs.iter().filter_map(|seq| self.sample(seq)).collect();
        let Device { clock, free } = &self.device;
        free.set(free.get().max(clock.now()) + self.cost.step(plan));
        self.in_flight.push_back((free.get(), StepResult { samples, ..StepResult::default() }));
        Ok(())
    }

    async fn result(&mut self, _turn: impl AsyncFn()) -> Result<StepResult> {
        let (end, result) = self.in_flight.pop_front().expect("a step is in flight");
        self.device.clock.wait_until(end);
        Ok(result)
    }

    fn set_host_block(&mut self, _block: u32, _words: &[u32]) -> bool {
        true
    }
}
