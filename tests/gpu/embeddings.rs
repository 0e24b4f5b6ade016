//! Embeddings of whole models against Hugging Face transformers, on both executors.

use std::collections::HashMap;

use crate::support::{
    bits,
    goldens::{self, folder, golden},
    nmse,
};
use serde::Deserialize;
use tabloom::{
    executor::AnyExecutor,
    load::Device,
    step::{Executor, Pool, Pooling, RowTokens, Sampling, SeqPlan, StepPlan, StepResult},
    weights::FolderSource,
};

/// As for logits: the differences are f16 in the KV cache and the order of sums.
const LIMIT: f64 = 1e-5;
const TOKENS: usize = 24;

#[derive(Deserialize)]
struct Goldens {
    /// Of each model's prompt.
    prompts: HashMap<String, Embeddings>,
}

/// `[hidden]`, of L2 norm 1.
#[derive(Deserialize)]
struct Embeddings {
    mean: Vec<f32>,
    last: Vec<f32>,
}

async fn open(model: &str, device: Device) -> AnyExecutor {
    goldens::executor(&FolderSource::new(folder(model)), device).await.expect("it loads")
}

/// Rows of a sequence that has two blocks of its own; the model has one group of layers.
fn rows(slot: u32, tokens: &[u32], range: std::ops::Range<usize>) -> SeqPlan {
    SeqPlan {
        slot,
        tokens: RowTokens::Known(tokens[range.clone()].to_vec()),
        start: range.start as u32,
        blocks: vec![7 - slot, 1 + slot],
        ..Default::default()
    }
}

async fn run(executor: &mut AnyExecutor, seqs: Vec<SeqPlan>) -> StepResult {
    executor.submit(&StepPlan { seqs, ..Default::default() }).expect("a valid plan");
    executor.result(async || {}).await.expect("it runs")
}

#[test]
fn embeddings_are_those_of_transformers_for_any_prefill_chunks() {
    let json = std::fs::read(folder("embeddings.json")).expect("the goldens are there");
    let goldens: Goldens = serde_json::from_slice(&json).expect("they are valid");
    for (model, expected) in goldens.prompts {
        for device in [Device::Gpu, Device::Cpu] {
            pollster::block_on(async {
                let (mut executor, tokens) = (open(&model, device).await, golden(&model).tokens);
                let mut found = Vec::new();
                for cut in [vec![0, TOKENS], vec![0, 1, 17, TOKENS], (0..=TOKENS).collect()] {
                    for ends in cut.windows(2) {
                        let last = ends[1] == TOKENS;
                        let pooled = |slot, pooling| SeqPlan {
                            pool: Some(Pool { pooling, last }),
                            ..rows(slot, &tokens, ends[0]..ends[1])
                        };
                        // Another sequence generates between them.
                        let sample = Some(Sampling::GREEDY);
                        let other = SeqPlan { sample, ..rows(1, &tokens, ends[0]..ends[1]) };
                        let seqs = vec![pooled(2, Pooling::Last), other, pooled(0, Pooling::Mean)];
                        let result = run(&mut executor, seqs).await;
                        assert_eq!(result.samples.len(), 1);
                        assert_eq!(result.embeddings.len(), if last { 2 } else { 0 });
                        if last {
                            assert_eq!(result.samples[0].token, golden(&model).greedy[0]);
                            found.push(result.embeddings);
                        }
                    }
                }
                for embeddings in &found {
                    for (expected, found) in
                        [&expected.last, &expected.mean].into_iter().zip(embeddings)
                    {
                        let error = nmse(expected, found);
                        println!("{model} {device:?}: NMSE {error:.1e}");
                        assert!(error <= LIMIT, "{model} {device:?}: NMSE {error:.2e}");
                        let square: f64 = found.iter().map(|v| f64::from(*v).powi(2)).sum();
                        assert!((square - 1.0).abs() < 1e-6, "length² {square}");
                    }
                    if device == Device::Cpu {
                        for (a, b) in embeddings.iter().zip(&found[0]) {
                            assert_eq!(bits(a), bits(b), "the bits depend on the cut");
                        }
                    }
                }
            });
        }
    }
}

#[test]
fn only_steps_with_embeddings_run_the_pooling_kernels() {
    pollster::block_on(async {
        let model = "llama3_bf16";
        let (mut executor, tokens) = (open(model, Device::Gpu).await, golden(model).tokens);
        let work = |executor: &AnyExecutor| match executor {
            AnyExecutor::Gpu(executor) => executor.work(),
            AnyExecutor::Cpu(_) => panic!("not on the GPU"),
        };
        let pool = |pooling, last| Some(Pool { pooling, last });
        let mut dispatches = Vec::new();
        for pool in [
            None,
            pool(Pooling::Last, false),
            pool(Pooling::Last, true),
            pool(Pooling::Mean, false),
            pool(Pooling::Mean, true),
        ] {
            let before = work(&executor);
            run(&mut executor, vec![SeqPlan { pool, ..rows(0, &tokens, 0..8) }]).await;
            let after = work(&executor);
            assert_eq!(after.bind_groups, before.bind_groups);
            dispatches.push(after.dispatches - before.dispatches);
        }
        let plain = dispatches[0];
        // The norm, and the sum.
        assert_eq!(dispatches, [plain, plain, plain + 2, plain + 2, plain + 2]);
    });
}
