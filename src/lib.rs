//! Private language models inside the browser, on the visitor's own GPU.

pub mod error;
pub mod gpu;
pub mod kernels;
pub mod layout;
pub mod model;
mod sniff;
pub mod step;
pub mod weights;

pub use error::{Error, Result};
