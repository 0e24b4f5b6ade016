//! Where weights go: the interface between the stream of a checkpoint and the memory that holds a model.

use super::Chunk;
use crate::error::Result;
use crate::layout::{BlockType, Layout};
use crate::model::{Param, Shape};

/// Most bytes of one piece; a sink that holds four of them stays within 32 MiB in flight.
pub const PIECE_BYTES: u64 = 8 << 20;

/// Takes the bytes of a checkpoint and turns them into weights.
///
/// Calls come in this order: `create` once; then, for each piece of each
/// tensor, `stage` until all its bytes are staged and `flush` once; `finish`
/// once at the end. After an error nothing more is called.
#[allow(async_fn_in_trait)] // single-threaded by design: no future crosses threads
pub trait WeightSink {
    /// Allocates every weight of the model.
    async fn create(&mut self, weights: &[Weight]) -> Result<()>;

    /// Copies file bytes to byte `offset` of the staging area, of [`PIECE_BYTES`].
    ///
    /// `offset` and the chunk's length are multiples of 4: offsets run from 0
    /// without a gap, and the piece's last word is padded with zeros.
    fn stage(&mut self, offset: u64, bytes: &Chunk) -> Result<()>;

    /// Turns the staged bytes into part of a weight; the staging area is free for the next piece.
    ///
    /// The place to wait until no more than a few pieces are in flight.
    async fn flush(&mut self, job: &RepackJob) -> Result<()>;

    /// Completes the weights: every piece has been flushed.
    async fn finish(&mut self) -> Result<()>;
}

/// A weight to allocate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    pub param: Param,
    pub shape: Shape,
    /// [`Layout::F32`] for vectors, which have neither padding nor row stride.
    pub layout: Layout,
}

impl Weight {
    /// Bytes of the weight in its layout.
    pub const fn bytes(&self) -> u64 {
        match self.shape {
            Shape::Vector { n } => 4 * n as u64,
            Shape::Matrix { n, k } => self.layout.bytes(n, k),
        }
    }
}

/// What the staged bytes of a piece are, and which part of a weight they fill.
///
/// The staging area holds `[rows][columns]` elements of `encoding` as they
/// are in the file: little-endian, row after row without padding.
/// The pieces of a weight come in any order, and so do its scales, zero
/// points and nibbles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepackJob {
    pub param: Param,
    pub encoding: Encoding,
    /// First row of the weight that is filled; of a vector, its first element.
    pub first_row: usize,
    /// Rows of the weight that are filled; of a vector, elements.
    pub rows: usize,
    /// Columns of the weight; 1 for a vector; for scales and zero points, stored groups of a row.
    pub columns: usize,
    /// Rows of a head, if they are interleaved; the piece then is whole heads. Stored rows 2i and
    /// 2i + 1 of a head are its rows i and i + half the head.
    pub interleaved: Option<usize>,
}

/// How the bytes of a checkpoint tensor encode its part of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `[rows][columns]` numbers, to be converted to the weight's layout (vectors: to f32).
    Float(FloatType),
    /// The same of a vector whose numbers are one more than those stored.
    LessOne(FloatType),
    /// compressed-tensors `weight_packed`: `[rows][⌈columns/8⌉]` words of eight nibbles, already
    /// those of [`Layout::W4`]; only the padding of rows is to be added.
    Nibbles,
    /// compressed-tensors `weight_scale`: `[rows][columns]` numbers. If `columns` is 1, the number
    /// is for every group of the row, else for the group of its index.
    ///
    /// Writes scale = half(number) and, if `symmetric`, min = half(−8·scale).
    Scales { float: FloatType, symmetric: bool },
    /// compressed-tensors `weight_zero_point`: `[⌈rows/8⌉][columns]` words; row `i` of the piece
    /// has nibble `i mod 8` of word row `⌊i/8⌋`. Columns are as for `Scales`.
    ///
    /// [`WeightSink::finish`] makes min = half(−zero point·scale) of them once both are there.
    ZeroPoints,
    /// `[rows][columns / elements]` blocks of GGUF, to be kept where [`BlockType::layout`] is the
    /// weight's, else to be converted.
    Blocks(BlockType),
}

/// A floating-point type of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatType {
    F32,
    F16,
    Bf16,
}

impl FloatType {
    /// Bytes of a number.
    pub const fn bytes(self) -> u64 {
        match self {
            FloatType::F32 => 4,
            FloatType::F16 | FloatType::Bf16 => 2,
        }
    }

    /// The layout that keeps the numbers as they are.
    pub const fn layout(self) -> Layout {
        match self {
            FloatType::F32 => Layout::F32,
            FloatType::F16 => Layout::F16,
            FloatType::Bf16 => Layout::Bf16,
        }
    }
}

impl Encoding {
    /// Bytes of `rows` rows of `columns` in a file.
    pub const fn bytes(self, rows: usize, columns: usize) -> u64 {
        let (rows, columns) = (rows as u64, columns as u64);
        match self {
            Encoding::Float(float) | Encoding::LessOne(float) | Encoding::Scales { float, .. } => {
                rows * columns * float.bytes()
            }
            Encoding::Nibbles => rows * columns.div_ceil(8) * 4,
            Encoding::ZeroPoints => rows.div_ceil(8) * columns * 4,
            Encoding::Blocks(block) => {
                rows * (columns / block.elements() as u64) * block.bytes() as u64
            }
        }
    }
}

impl RepackJob {
    /// Rows that must lie in the same piece: they share words, or a head.
    pub const fn row_unit(&self) -> usize {
        match (self.interleaved, self.encoding) {
            (Some(head), _) => head,
            (None, Encoding::ZeroPoints) => 8,
            (None, _) => 1,
        }
    }

    /// The row of the weight that stored row `i` of the piece fills.
    pub const fn row(&self, i: usize) -> usize {
        self.first_row
            + match self.interleaved {
                Some(head) => i / head * head + i % 2 * (head / 2) + i % head / 2,
                None => i,
            }
    }

    /// Bytes of the piece, before its last word is padded.
    pub const fn bytes(&self) -> u64 {
        self.encoding.bytes(self.rows, self.columns)
    }
}
