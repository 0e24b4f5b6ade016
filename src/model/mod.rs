//! What a model is: its sizes, its weights by name and role, and the operations of its forward pass.

pub mod config;
mod gguf;
pub(crate) mod json;
mod llama;
mod mistral;
pub mod params;
mod phi3;
pub mod program;
mod quantization;
mod qwen;
mod rope;
mod smollm3;

pub use config::{LayerAttention, ModelConfig, Naming};
pub use params::{Param, ParamSource, ParamSpec, Shape};
pub use program::{Act, MatmulOutput, Op, Product, program};
pub use quantization::Quantization;
pub use rope::{Rope, RopeScaling};
