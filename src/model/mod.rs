//! What a model is: its sizes, its weights by name and role, and the operations of its forward pass.

pub mod config;
mod gguf;
pub(crate) mod json;
mod llama;
mod mistral;
pub mod params;
pub mod program;
mod quantization;
mod qwen;
mod rope;

pub use config::{ModelConfig, Naming};
pub use params::{Param, ParamSource, ParamSpec, Shape};
pub use program::{Act, MatmulOutput, Op, Product, program};
pub use quantization::{Quantization, Scheme};
pub use rope::{Rope, RopeScaling};
