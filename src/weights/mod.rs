//! Loads the weights of a checkpoint.
//!
//! A [`Source`] opens files as streams of [`Chunk`]s: [`HttpSource`] from a web server, [`Parallel`]
//! the same over several connections, and [`Stored`] with a local [`Store`] and checked digests.
//! [`Checkpoint`] reads the headers. A [`LoadPlan`] says which tensor fills which part of which weight.
//! Then the bytes stream in bounded pieces into a [`WeightSink`], which converts them to the layouts of
//! [`crate::layout`].

mod address;
mod checkpoint;
mod chunk;
mod claim;
mod draft;
mod formats;
pub mod gguf;
mod gpu;
mod hash;
mod header;
mod host;
mod http;
mod jobs;
mod nested;
mod order;
mod parallel;
mod pickle;
mod plan;
mod reader;
mod repository;
pub mod safetensors;
mod sink;
mod source;
mod store;
mod stored;
mod stream;
mod torch;

pub use address::{Address, unsigned};
pub use checkpoint::{Checkpoint, Progress};
pub use chunk::Chunk;
#[cfg(target_arch = "wasm32")]
pub(crate) use chunk::Pool;
pub use claim::{Claim, Claimed, acquire};
pub use draft::{Draft, PreparedDraft, open_draft};
pub use gpu::{GpuMatrix, GpuPart, GpuSink, GpuWeights};
pub use header::{Dtype, Elements, Header, TensorInfo};
pub(crate) use host::ensure_room;
pub use host::{HostSink, HostWeights};
pub use http::{Answer, HttpSource, HttpStream, Server};
pub use jobs::Job;
pub use nested::{NestedJob, NestedPart};
pub use order::OrderJob;
pub use parallel::{Parallel, ParallelStream};
pub use plan::{LoadPlan, Quantise};
pub use reader::Reader;
pub use repository::listed;
pub use sink::{Encoding, PIECE_BYTES, Part, RepackJob, Weight, WeightSink};
pub use source::{ByteStream, Length, RangeSource, Source, Within, missing};
#[cfg(not(target_arch = "wasm32"))]
pub use source::{FolderSource, FolderStream};
pub use store::Store;
pub use stored::{Stored, StoredStream};

#[cfg(all(test, not(target_arch = "wasm32")))]
pub(crate) mod tests;
