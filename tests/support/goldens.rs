//! The reference models in `tests/goldens`, computed by Hugging Face transformers.

use std::ops::ControlFlow;

use super::nmse;
use serde::Deserialize;
use tabloom::{
    Result,
    executor::{AnyExecutor, GpuExecutor, KvKind},
    gpu::{Gpu, Power},
    load::{self, Device, LoadOptions},
    model::ModelConfig,
    step::{Executor, RowTokens, Sampling, SeqPlan, StepPlan},
    weights::{Checkpoint, GpuSink, Quantise, Source},
};

/// The models' weights are the same bits; the differences are f16 in the KV cache and the order of
/// sums.
const LIMIT: f64 = 1e-5;

/// The results of transformers for a model.
#[derive(Deserialize)]
pub struct Golden {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// The greedy continuation.
    pub greedy: Vec<u32>,
    /// `[tokens][vocab]`
    #[serde(skip)]
    pub logits: Vec<f32>,
}

impl Golden {
    /// Reads a golden from the bytes of `golden.json` and `logits.bin`.
    pub fn parse(json: &[u8], logits: &[u8]) -> Golden {
        let mut golden: Golden = serde_json::from_slice(json).expect("the golden is valid");
        golden.logits = bytemuck::pod_collect_to_vec(logits);
        golden
    }

    /// Compares a model's executor with the logits of every position and the greedy text.
    pub async fn check(&self, name: &str, mut executor: AnyExecutor) {
        let mut logits = Vec::new();
        // Chunks of different sizes, each continuing on the KV cache of the ones before.
        for chunk in [0..16, 16..21, 21..24] {
            let seen = &self.tokens[..chunk.end];
            logits.extend(self::logits(&mut executor, seen, chunk.start).await.expect(name));
        }
        let error = nmse(&self.logits, &logits);
        assert!(error <= LIMIT, "{name}: NMSE {error:.2e} of the logits");
        let text = greedy(&mut executor, &self.tokens, self.greedy.len()).await;
        assert_eq!(text.expect(name), self.greedy, "{name}: greedy text");
        println!("{name}: NMSE {error:.1e}");
    }
}

/// Loads a model's executor; the goldens have no tokenizer.
pub async fn executor(source: &impl Source, device: Device) -> Result<AnyExecutor> {
    let options = LoadOptions { device, ..Default::default() };
    let loaded = load::executor(source, &options, |_| ControlFlow::Continue(())).await?;
    if let AnyExecutor::Gpu(gpu) = &loaded.executor {
        println!("adapter: {}", gpu.gpu().adapter.name);
    }
    Ok(loaded.executor)
}

/// Loads a model onto the GPU, with its large matrices split into parts of at most `part` bytes.
pub async fn split_executor(source: &impl Source, part: u64) -> Result<AnyExecutor> {
    let config = ModelConfig::from_json(&source.read("config.json").await?)?;
    let checkpoint = Checkpoint::open(source).await?;
    let plan = checkpoint.plan(&config, None, &Quantise::KEEP)?;
    let gpu = Gpu::open(Power::HighPerformance).await?;
    let mut sink = GpuSink::new(&gpu, part).await?;
    checkpoint.load(&plan, &mut sink, |_| ControlFlow::Continue(())).await?;
    let weights = sink.into_weights();
    assert!(weights.matrices.values().any(|matrix| matrix.parts.len() > 2), "nothing was split");
    let kinds = vec![KvKind::F16; config.layers];
    let capacity = load::capacity(&config, &LoadOptions::default(), &kinds, u64::MAX)?;
    let proceed = |_, _| ControlFlow::Continue(());
    let executor = GpuExecutor::new(gpu, &config, weights, capacity, &kinds, proceed).await?;
    Ok(AnyExecutor::Gpu(Box::new(executor)))
}

/// The logits of every position of `tokens`, computed from position `start` on in one step.
pub async fn logits(executor: &mut AnyExecutor, tokens: &[u32], start: usize) -> Result<Vec<f32>> {
    let step = StepPlan {
        seqs: vec![SeqPlan {
            slot: 0,
            tokens: RowTokens::Known(tokens[start..].to_vec()),
            start: start as u32,
            blocks: blocks(executor, tokens.len()),
            sample: None,
            ..Default::default()
        }],
        read_logits: true,
        ..Default::default()
    };
    executor.submit(&step)?;
    Ok(executor.result(async || {}).await?.logits)
}

/// Continues `tokens` greedily by `count` tokens, which stay on the device between steps.
pub async fn greedy(executor: &mut AnyExecutor, tokens: &[u32], count: usize) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for i in 0..count {
        let (rows, start) = match i {
            0 => (RowTokens::Known(tokens.to_vec()), 0),
            _ => (RowTokens::LastSample, tokens.len() + i - 1),
        };
        let seq = SeqPlan {
            slot: 3,
            tokens: rows,
            start: start as u32,
            blocks: blocks(executor, tokens.len() + i),
            sample: Some(Sampling::GREEDY),
            ..Default::default()
        };
        executor.submit(&StepPlan { seqs: vec![seq], ..Default::default() })?;
        // One step ahead: the first result is read after the second step has been submitted.
        if i > 0 {
            found.push(executor.result(async || {}).await?.samples[0].token);
        }
    }
    found.push(executor.result(async || {}).await?.samples[0].token);
    Ok(found)
}

/// A block table with blocks apart and out of order.
fn blocks(executor: &AnyExecutor, tokens: usize) -> Vec<u32> {
    let groups = executor.capacity().groups;
    let block = |i: usize| (i / groups.count() * 3 + 4) % 8 + 8 * (i % groups.count());
    (0..groups.blocks(tokens)).map(|i| block(i) as u32).collect()
}

#[cfg(not(target_arch = "wasm32"))]
#[allow(unused_imports)] // each test target uses its own part
pub use disk::{MODELS, folder, golden};

#[cfg(not(target_arch = "wasm32"))]
mod disk {
    use super::Golden;

    /// Every reference model.
    pub const MODELS: [&str; 24] = [
        "llama2_f32",
        "llama3_bf16",
        "llama_linear_f32",
        "llama_sharded_f32",
        "smollm2_bf16",
        "mistral_f16",
        "qwen2_bf16",
        "qwen3_f32",
        "odd_f32",
        "smollm3_bf16",
        "phi3_long_bf16",
        "granite_f32",
        "olmo2_f32",
        "gemma2_bf16",
        "gemma3_bf16",
        "gpt2_f32",
        "gemma3_images_bf16",
        "ct_int4_sym_g32_bf16",
        "ct_int4_asym_g64_bf16",
        "ct_int4_sym_channel_bf16",
        "mixtral_bf16",
        "qwen3_moe_f32",
        "ct_int4_moe_g32_bf16",
        "gpt_oss_bf16",
    ];

    /// Reads the golden of a model.
    pub fn golden(name: &str) -> Golden {
        let read = |file| std::fs::read(format!("{}/{file}", folder(name))).expect(name);
        Golden::parse(&read("golden.json"), &read("logits.bin"))
    }

    /// The folder of a model.
    pub fn folder(name: &str) -> String {
        format!("{}/tests/goldens/{name}", env!("CARGO_MANIFEST_DIR"))
    }
}
