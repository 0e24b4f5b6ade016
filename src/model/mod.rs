//! What a model is: its sizes, its weights by name and role, and the operations of its forward pass.

pub mod config;
pub mod params;
pub mod program;

pub use config::{ModelConfig, Rope, RopeScaling};
pub use params::{Param, ParamSpec, Shape};
pub use program::{Act, MatmulOutput, Op, program};
