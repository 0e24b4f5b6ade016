//! A model: its sizes, its weights by name and role, and the operations of its forward pass.

pub mod config;
pub mod draft;
mod gemma;
mod gguf;
mod gpt2;
mod gpt_oss;
mod granite;
pub(crate) mod json;
mod llama;
mod mistral;
mod mixtral;
mod olmo2;
pub mod params;
mod phi3;
pub mod program;
mod quantization;
mod qwen;
mod qwen_moe;
mod rope;
mod smollm3;

pub use config::{
    Activation, Caps, ExpertModules, Experts, LayerAttention, ModelConfig, Naming, Norms, QkNorm,
    Scales,
};
pub use draft::{DraftConfig, DraftFamily, DraftProgram, Features, FuseNorm};
pub use params::{Param, ParamSource, ParamSpec, Shape, Slice};
pub use program::{Act, MatmulOutput, Op, Product, program, program_with};
pub use quantization::{Gptq, Quantization, Scheme};
pub use rope::{Rope, RopeScaling};
