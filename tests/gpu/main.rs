//! Kernels and models on the adapter at hand, in one program: it is linked once.
#![cfg(not(target_arch = "wasm32"))]

#[path = "../support/layouts.rs"]
mod layouts;
#[path = "../support/mod.rs"]
mod support;

mod adjust;
mod attention;
mod embeddings;
mod errors;
mod experts;
mod matmul;
mod models;
mod repack;
mod rows;
mod same_answer;
mod sample;
