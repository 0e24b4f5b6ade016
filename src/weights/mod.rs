//! How the weights of a checkpoint reach memory: sources of bytes, file formats, the plan, the stream.

mod chunk;
mod sink;
mod source;

pub use chunk::Chunk;
pub use sink::{Encoding, FloatType, PIECE_BYTES, RepackJob, Weight, WeightSink};
pub use source::{ByteStream, Source};
#[cfg(not(target_arch = "wasm32"))]
pub use source::{FolderSource, FolderStream};
