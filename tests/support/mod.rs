//! Shared by the GPU tests: a real adapter, a runner with guard words, and the error measure.
#![allow(dead_code)] // each test target uses its own part

pub mod goldens;
#[cfg(target_arch = "wasm32")]
pub mod memory;

use half::{bf16, f16};
use tabloom::{
    gpu::{Access, Gpu, Kernels, Power, Readback, Shader, Subgroups},
    kernels::{Batch, BlockTables, Kernel, Tuning},
    layout::{Codebook, HostMatrix, Layout, pack_halves, row_stride},
    step::{BLOCK_SIZE, Capacity, HostMemory, KvGroups, RowTokens, Sampling, SeqPlan, StepPlan},
};

/// Words past the end of every output; a kernel that touches them is out of bounds.
const GUARD: usize = 256;
const GUARD_WORD: u32 = 0xBADC_0DE5;

/// The variants that differ for kernels that use no subgroups.
pub const WITHOUT_SUBGROUPS: [Tuning; 2] = [
    Tuning { subgroups: Subgroups::No, barriers: false },
    Tuning { subgroups: Subgroups::No, barriers: true },
];

/// Random numbers, by a seed that a failed test prints.
pub fn seeded() -> fastrand::Rng {
    let seed = fastrand::Rng::new().u64(..);
    println!("seed {seed}");
    fastrand::Rng::with_seed(seed)
}

/// A device with its compiled kernels.
pub struct Bench {
    pub gpu: Gpu,
    pub kernels: Kernels,
}

impl Bench {
    /// Opens the adapter. Without one the tests fail: they never skip.
    pub async fn open() -> Bench {
        let gpu = Gpu::open(Power::HighPerformance).await.expect("these tests need an adapter");
        println!("adapter: {} {:?}", gpu.adapter.name, gpu.adapter);
        Bench { gpu, kernels: Kernels::default() }
    }

    /// Every variant this adapter can run.
    pub fn tunings(&self) -> Vec<Tuning> {
        let mut tunings = WITHOUT_SUBGROUPS.to_vec();
        if self.gpu.adapter.subgroups != Subgroups::No {
            tunings.push(Tuning { subgroups: Subgroups::AnySize, barriers: true });
        }
        tunings
    }

    /// Runs a kernel over buffers of words, in the order of its bindings, and returns the writable
    /// ones afterwards. Guard words follow each writable buffer and are checked.
    pub async fn run(
        &mut self,
        kernel: &impl Kernel,
        tuning: Tuning,
        batch: &Batch,
        buffers: &[&[u32]],
    ) -> Vec<Vec<u32>> {
        let shader = kernel.shader(tuning);
        self.run_shader(&shader, kernel.grid(tuning, batch), buffers).await
    }

    /// [`Bench::run`] for a shader and a grid.
    pub async fn run_shader(
        &mut self,
        shader: &Shader,
        grid: [u32; 3],
        buffers: &[&[u32]],
    ) -> Vec<Vec<u32>> {
        assert_eq!(shader.bindings.len(), buffers.len(), "{}: bindings", shader.name);
        let gpu = &self.gpu;
        let pipeline = self.kernels.pipeline(gpu, shader).await.expect("the shader compiles");
        let mut bound = Vec::new();
        for (access, words) in shader.bindings.iter().zip(buffers) {
            let mut words = words.to_vec();
            if *access == Access::ReadWrite {
                words.extend([GUARD_WORD; GUARD]);
            }
            bound.push(gpu.upload(shader.name, &words).await.expect("a test buffer fits"));
        }
        let dispatch = self.kernels.bind(gpu, &pipeline, &bound.iter().collect::<Vec<_>>());
        let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        dispatch.record(&mut encoder.begin_compute_pass(&Default::default()), grid);
        let mut outputs = Vec::new();
        for ((access, words), buffer) in shader.bindings.iter().zip(buffers).zip(&bound) {
            if *access == Access::ReadWrite {
                let bytes = (words.len() + GUARD) as u64 * 4;
                let mut readback = Readback::new(gpu, bytes).await.expect("a read-back fits");
                readback.copy(&mut encoder, buffer, bytes);
                outputs.push((readback, words.len()));
            }
        }
        let submission = gpu.queue.submit([encoder.finish()]);
        assert!(scope.pop().await.is_none(), "{}: validation error", shader.name);
        let mut results = Vec::new();
        for (mut readback, len) in outputs {
            readback.map(submission.clone());
            let mut words = readback.words(gpu).await.expect("the device lives");
            let guard = words.split_off(len);
            assert!(guard.iter().all(|w| *w == GUARD_WORD), "{}: wrote past the end", shader.name);
            results.push(words);
        }
        results
    }
}

/// Normalised mean square error Σ(a−b)² / Σa², a being the reference. Infinite if not finite.
pub fn nmse(reference: &[f32], found: &[f32]) -> f64 {
    assert_eq!(reference.len(), found.len());
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        reference.iter().zip(found).map(|(a, b)| f(f64::from(*a), f64::from(*b))).sum()
    };
    let (error, power) = (sum(&|a, b| (a - b) * (a - b)), sum(&|a, _| a * a));
    if error.is_finite() && power > 0.0 { error / power } else { f64::INFINITY }
}

/// ln softmax(logits) in f64.
pub fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted = logits.iter().map(|logit| f64::from(*logit) - f64::from(top));
    let log_sum = shifted.clone().map(f64::exp).sum::<f64>().ln();
    shifted.map(|logit| logit - log_sum).collect()
}

/// A random matrix; of random bits with sensible scales in layouts that numbers cannot be quantised to.
pub fn random_matrix(rng: &mut fastrand::Rng, layout: Layout, n: usize, k: usize) -> HostMatrix {
    let Some((_, record)) = layout.record().filter(|_| layout.quantised_group().is_none()) else {
        return HostMatrix::pack(layout, n, k, &uniform(rng, n * k));
    };
    let mut matrix = HostMatrix::zeroed(layout, n, k);
    matrix.words.fill_with(|| rng.u32(..));
    for record in matrix.scales.chunks_exact_mut(record) {
        record.fill_with(|| rng.u32(..));
        let mut half = || rng.f32() / 16.0 - 1.0 / 32.0;
        let pair = [half(), half()];
        record[0] = match layout {
            Layout::Codebook { codebook: Codebook::E2m1, .. } => {
                let [low, high] = pair.map(|scale| u32::from(bf16::from_f32(scale).to_bits()));
                low | high << 16
            }
            _ => {
                let [low, high] = pair.map(f16::from_f32);
                pack_halves(low, high)
            }
        };
    }
    matrix
}

/// Uniform values in [−1, 1].
pub fn uniform(rng: &mut fastrand::Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| rng.f32() * 2.0 - 1.0).collect()
}

/// Floats to bit patterns.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Bit patterns to floats.
pub fn floats(words: &[u32]) -> Vec<f32> {
    words.iter().map(|w| f32::from_bits(*w)).collect()
}

/// Activations `[rows][row_stride(width)]`, uniform in [−1, 1] with zeros as padding.
pub fn activations(rng: &mut fastrand::Rng, rows: usize, width: usize) -> Vec<f32> {
    let mut values = uniform(rng, rows * row_stride(width));
    for row in values.chunks_exact_mut(row_stride(width)) {
        row[width..].fill(0.0);
    }
    values
}

/// A step of `rows` rows in `logit_rows` sequences: the first ones have one row, the last the rest.
/// Tokens count up from 0, modulo `vocab`.
pub fn step(rows: usize, logit_rows: usize, vocab: usize) -> Batch {
    let capacity = Capacity {
        rows,
        seqs: logit_rows,
        blocks: rows.div_ceil(BLOCK_SIZE),
        context: rows,
        vocab,
        logit_rows,
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };
    let seqs = (0..logit_rows).map(|i| {
        let end = if i + 1 == logit_rows { rows } else { i + 1 };
        SeqPlan {
            slot: i as u32,
            tokens: RowTokens::Known((i..end).map(|token| (token % vocab) as u32).collect()),
            start: 0,
            blocks: (0..capacity.blocks as u32).collect(),
            sample: Some(Sampling::GREEDY),
            ..Default::default()
        }
    });
    let plan = StepPlan { seqs: seqs.collect(), ..Default::default() };
    let tables = BlockTables::of(&plan, &capacity).expect("valid tables");
    Batch::encode(&plan, &capacity, &tables, 16).expect("a valid step")
}
