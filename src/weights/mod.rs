//! How the weights of a checkpoint reach memory.
//!
//! A [`Source`] opens files as streams of [`Chunk`]s. [`Checkpoint`] reads the headers, a
//! [`LoadPlan`] says which tensor fills which part of which weight, and then the bytes stream in
//! bounded pieces into a [`WeightSink`], which turns them into the layouts of [`crate::layout`].

mod checkpoint;
mod chunk;
mod gpu;
mod host;
mod plan;
mod reader;
pub mod safetensors;
mod sink;
mod source;
mod stream;

pub use checkpoint::{Checkpoint, Progress};
pub use chunk::Chunk;
pub use gpu::{GpuMatrix, GpuPart, GpuSink, GpuWeights};
pub(crate) use host::ensure_room;
pub use host::{HostSink, HostWeights};
pub use plan::{LoadPlan, Quantise};
pub use reader::Reader;
pub use sink::{Encoding, FloatType, PIECE_BYTES, RepackJob, Weight, WeightSink};
pub use source::{ByteStream, Source};
#[cfg(not(target_arch = "wasm32"))]
pub use source::{FolderSource, FolderStream};

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
