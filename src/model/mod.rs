//! A model: its sizes, its weights by name and role, and the operations of its forward pass.

pub mod config;
pub mod draft;
mod families;
mod gguf;
mod hugging_face;
pub(crate) mod json;
mod metadata;
mod names;
pub mod params;
pub mod program;
mod quantization;
mod rope;

pub use config::{
    Activation, Caps, ExpertModules, Experts, LayerAttention, ModelConfig, Naming, Norms, QkNorm,
    Scales,
};
pub use draft::{DraftConfig, DraftFamily, DraftProgram, Features, FuseNorm};
pub use params::{Param, ParamSource, ParamSpec, Shape, Slice};
pub use program::{Act, MatmulOutput, Op, Product, program, program_with};
pub use quantization::{Gptq, Quantization};
pub use rope::{Rope, RopeScaling};
