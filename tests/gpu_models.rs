//! Whole models against Hugging Face transformers: logits of every position, then greedy text.

mod support;

use support::{goldens, nmse};
use tabloom::{executor::AnyExecutor, load::Device};

/// The models' weights are theirs to the bit; what differs is f16 in the KV cache and the order of sums.
const LIMIT: f64 = 1e-5;

fn every_model_agrees(device: Device) {
    for name in goldens::MODELS {
        pollster::block_on(async {
            let golden = goldens::golden(name);
            let mut executor = goldens::executor(name, device).await.expect(name);
            if let AnyExecutor::Gpu(gpu) = &executor {
                println!("adapter: {}", gpu.gpu().adapter.name);
            }
            let vocab = golden.logits.len() / golden.tokens.len();
            let mut logits = Vec::new();
            // Chunks of different sizes, each continuing on the cache of the ones before.
            for chunk in [0..16, 16..21, 21..24] {
                let seen = &golden.tokens[..chunk.end];
                logits.extend(goldens::logits(&mut executor, seen, chunk.start).await.expect(name));
            }
            assert_eq!(logits.len(), golden.tokens.len() * vocab, "{name}");
            let error = nmse(&golden.logits, &logits);
            let greedy = goldens::greedy(&mut executor, &golden.tokens, golden.greedy.len()).await;
            println!("{name}: NMSE {error:.1e}");
            assert!(error <= LIMIT, "{name}: NMSE {error:.2e} of the logits");
            assert_eq!(greedy.expect(name), golden.greedy, "{name}");
        });
    }
}

#[test]
fn the_gpu_agrees_with_transformers_on_every_model() {
    every_model_agrees(Device::Gpu);
}

#[test]
fn matrices_larger_than_a_binding_are_split_by_rows() {
    // One model whose output matrix is its embedding matrix, one that has two.
    for name in ["llama3_bf16", "odd_f32"] {
        pollster::block_on(async {
            let golden = goldens::golden(name);
            let mut executor = goldens::split_executor(name, 5000).await.expect(name);
            let logits = goldens::logits(&mut executor, &golden.tokens[..16], 0).await.expect(name);
            let error = nmse(&golden.logits[..logits.len()], &logits);
            assert!(error <= LIMIT, "{name}: NMSE {error:.2e} of the logits");
            let greedy = goldens::greedy(&mut executor, &golden.tokens, golden.greedy.len()).await;
            assert_eq!(greedy.expect(name), golden.greedy, "{name}");
        });
    }
}

#[test]
fn the_cpu_agrees_with_transformers_on_every_model() {
    every_model_agrees(Device::Cpu);
}
