//! Private language models inside the browser, on the visitor's own GPU.

pub mod error;
pub mod gpu;
pub mod kernels;
pub mod layout;
pub mod model;
mod sniff;
pub mod step;
#[cfg(target_arch = "wasm32")]
pub mod web;
pub mod weights;

pub use error::{Error, Result};
