//! The reference models in `tests/goldens`, computed by Hugging Face transformers.

use std::ops::ControlFlow;

use serde::Deserialize;
use tabloom::{
    Result,
    executor::{AnyExecutor, GpuExecutor},
    gpu::{Gpu, Power},
    load::{self, Device, LoadOptions},
    model::ModelConfig,
    step::{Executor, RowTokens, Sampling, SeqPlan, StepPlan},
    weights::{Checkpoint, FolderSource, GpuSink, Quantise, Source},
};

/// Every reference model.
pub const MODELS: [&str; 12] = [
    "llama2_f32",
    "llama3_bf16",
    "llama_linear_f32",
    "llama_sharded_f32",
    "smollm2_bf16",
    "mistral_f16",
    "qwen2_bf16",
    "qwen3_f32",
    "odd_f32",
    "ct_int4_sym_g32_bf16",
    "ct_int4_asym_g64_bf16",
    "ct_int4_sym_channel_bf16",
];

/// What transformers computed for a model.
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

/// Reads the golden of a model.
pub fn golden(name: &str) -> Golden {
    let folder = folder(name);
    let json = std::fs::read(format!("{folder}/golden.json")).expect("the golden is there");
    let mut golden: Golden = serde_json::from_slice(&json).expect("the golden is valid");
    let logits = std::fs::read(format!("{folder}/logits.bin")).expect("the logits are there");
    golden.logits = bytemuck::pod_collect_to_vec(&logits);
    golden
}

/// The folder of a model.
pub fn folder(name: &str) -> String {
    format!("{}/tests/goldens/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Loads a model's executor; the goldens have no tokenizer.
pub async fn executor(name: &str, device: Device) -> Result<AnyExecutor> {
    let source = FolderSource::new(folder(name));
    let options = LoadOptions { device, ..Default::default() };
    let loaded = load::executor(&source, &options, |_| ControlFlow::Continue(())).await?;
    Ok(loaded.executor)
}

/// Loads a model onto the GPU with its large matrices cut into parts of at most `part` bytes.
pub async fn split_executor(name: &str, part: u64) -> Result<AnyExecutor> {
    let source = FolderSource::new(folder(name));
    let config = ModelConfig::from_json(&source.read("config.json").await?)?;
    let checkpoint = Checkpoint::open(&source).await?;
    let plan = checkpoint.plan(&config, None, &Quantise::KEEP)?;
    let gpu = Gpu::open(Power::HighPerformance).await?;
    let mut sink = GpuSink::new(&gpu, part).await?;
    checkpoint.load(&plan, &mut sink, |_| ControlFlow::Continue(())).await?;
    let weights = sink.into_weights();
    assert!(weights.matrices.values().any(|matrix| matrix.parts.len() > 2), "nothing was split");
    let (capacity, proceed) = (load::capacity(&config, None)?, |_, _| ControlFlow::Continue(()));
    let executor = GpuExecutor::new(gpu, &config, weights, capacity, proceed).await?;
    Ok(AnyExecutor::Gpu(Box::new(executor)))
}

/// The logits of every position of `tokens`, computed from position `start` on in one step.
pub async fn logits(executor: &mut AnyExecutor, tokens: &[u32], start: usize) -> Result<Vec<f32>> {
    let step = StepPlan {
        seqs: vec![SeqPlan {
            slot: 0,
            tokens: RowTokens::Known(tokens[start..].to_vec()),
            start: start as u32,
            blocks: blocks(tokens.len()),
            sample: None,
        }],
        read_logits: true,
    };
    executor.submit(&step)?;
    Ok(executor.result().await?.logits)
}

/// Continues `tokens` greedily by `count` tokens, which stay on the device from step to step.
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
            blocks: blocks(tokens.len() + i),
            sample: Some(Sampling::GREEDY),
        };
        executor.submit(&StepPlan { seqs: vec![seq], read_logits: false })?;
        // One step ahead: the first result is read after the second step has been submitted.
        if i > 0 {
            found.push(executor.result().await?.samples[0].token);
        }
    }
    found.push(executor.result().await?.samples[0].token);
    Ok(found)
}

/// A block table whose blocks lie apart and out of order.
fn blocks(tokens: usize) -> Vec<u32> {
    (0..tokens.div_ceil(16) as u32).map(|i| (i * 3 + 5) % 8).collect()
}
