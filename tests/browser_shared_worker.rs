//! Whole models in a SharedWorker, on the GPU and on the CPU.
#![cfg(target_arch = "wasm32")]

mod support;

use support::memory::check_models;
use tabloom::load::Device;
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_shared_worker);

#[wasm_bindgen_test]
async fn the_gpu_agrees_with_transformers() {
    check_models(Device::Gpu).await;
}

#[wasm_bindgen_test]
async fn the_cpu_agrees_with_transformers() {
    check_models(Device::Cpu).await;
}
