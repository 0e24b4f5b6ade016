//! The device and its objects: buffers, pipelines, bind groups, read-backs. Knows nothing of models.

mod ahead;
pub mod device;
pub mod kernel;
mod patience;
pub mod readback;
pub mod shader;
mod wait;

pub use device::{AdapterReport, Gpu, Power, SharedGpu, Subgroups};
pub use kernel::{Dispatch, Kernels, Pipeline};
pub use readback::Readback;
pub use shader::{Access, Shader};
pub use wait::Mark;
