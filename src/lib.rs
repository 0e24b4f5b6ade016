//! Private language models inside the browser, on the visitor's own GPU.

pub mod api;
pub mod cache;
pub mod engine;
pub mod error;
pub mod executor;
pub mod gpu;
pub mod host;
pub mod kernels;
pub mod layout;
pub mod load;
pub mod manifest;
pub mod metrics;
pub mod model;
pub mod prefixes;
pub mod regex;
pub mod sampling;
pub mod scheduler;
pub mod service;
mod sniff;
pub mod speculate;
pub mod step;
pub mod text;
#[cfg(target_arch = "wasm32")]
mod timer;
#[cfg(target_arch = "wasm32")]
pub mod web;
pub mod weights;

pub use error::{Error, Result};
