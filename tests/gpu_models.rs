//! Whole models against Hugging Face transformers: logits of every position, then greedy text.
#![cfg(not(target_arch = "wasm32"))]

mod support;

use support::goldens::{self, MODELS, folder, golden};
use tabloom::{load::Device, weights::FolderSource};

fn every_model_agrees(device: Device) {
    for name in MODELS {
        pollster::block_on(async {
            let source = FolderSource::new(folder(name));
            let executor = goldens::executor(&source, device).await.expect(name);
            golden(name).check(name, executor).await;
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
            let source = FolderSource::new(folder(name));
            let executor = goldens::split_executor(&source, 5000).await.expect(name);
            golden(name).check(name, executor).await;
        });
    }
}

#[test]
fn the_cpu_agrees_with_transformers_on_every_model() {
    every_model_agrees(Device::Cpu);
}
