//! The interface between the stream of a checkpoint and the memory of a model's weights.

use std::ops::Range;

use futures::future::Either;

use super::Chunk;
use crate::error::Result;
use crate::layout::{BlockType, FloatType, Grid, Layout, Mins, Number, Packing};
use crate::model::{Param, Shape};

/// Most bytes per piece; a sink that holds four of them stays within 32 MiB in flight.
pub const PIECE_BYTES: u64 = 8 << 20;

/// Receives the bytes of a checkpoint and converts them to weights.
///
/// Order of calls: `create` once; then, for each piece of each tensor, `stage` until all its bytes are
/// staged and `flush` once; `reorder` for matrices with reordered columns; `finish` once at the end.
/// Pieces with the same bytes are staged together, chunk by chunk, and then flushed one after the
/// other. After an error there are no further calls.
#[allow(async_fn_in_trait)] // single-threaded by design: no future crosses threads
pub trait WeightSink {
    /// Allocates every weight of the model.
    async fn create(&mut self, weights: &[Weight]) -> Result<()>;

    /// Stages bytes of the piece described by `job`, from byte `offset` on; the staging area has room
    /// for them.
    ///
    /// `offset` and the chunk's length are multiples of 4: offsets run from 0
    /// without a gap, and the piece's last word is padded with zeros.
    fn stage(&mut self, job: &RepackJob, offset: u64, bytes: &Chunk) -> Result<()>;

    /// Converts the staged bytes to part of a weight. The staging area can then be reused.
    ///
    /// May wait until only a few pieces are in flight.
    async fn flush(&mut self, job: &RepackJob) -> Result<()>;

    /// Reorders the columns of these rows of a matrix of nibbles: new column `i` is old column
    /// `order[i]`. All its pieces have been flushed. The rows become parts of their own.
    async fn reorder(&mut self, param: Param, rows: Range<usize>, order: &[u32]) -> Result<()>;

    /// Completes the weights after all pieces have been flushed.
    async fn finish(&mut self) -> Result<()>;
}

/// One of two sinks, so that generic code over sinks is compiled once.
impl<A: WeightSink, B: WeightSink> WeightSink for Either<&mut A, &mut B> {
    async fn create(&mut self, weights: &[Weight]) -> Result<()> {
        match self {
            Either::Left(sink) => sink.create(weights).await,
            Either::Right(sink) => sink.create(weights).await,
        }
    }

    fn stage(&mut self, job: &RepackJob, offset: u64, bytes: &Chunk) -> Result<()> {
        match self {
            Either::Left(sink) => sink.stage(job, offset, bytes),
            Either::Right(sink) => sink.stage(job, offset, bytes),
        }
    }

    async fn flush(&mut self, job: &RepackJob) -> Result<()> {
        match self {
            Either::Left(sink) => sink.flush(job).await,
            Either::Right(sink) => sink.flush(job).await,
        }
    }

    async fn reorder(&mut self, param: Param, rows: Range<usize>, order: &[u32]) -> Result<()> {
        match self {
            Either::Left(sink) => sink.reorder(param, rows, order).await,
            Either::Right(sink) => sink.reorder(param, rows, order).await,
        }
    }

    async fn finish(&mut self) -> Result<()> {
        match self {
            Either::Left(sink) => sink.finish().await,
            Either::Right(sink) => sink.finish().await,
        }
    }
}

/// A weight to allocate.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    pub param: Param,
    pub shape: Shape,
    /// Of a matrix: all its rows, from the top down. Empty for a vector, which is f32 without padding.
    pub parts: Vec<Part>,
    /// Rows that must stay together: a matrix may be split only between them.
    pub unit: usize,
}

/// Rows of a matrix that share a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub rows: usize,
    pub layout: Layout,
}

impl Weight {
    /// A matrix of one part.
    pub fn matrix(param: Param, (n, k): (usize, usize), layout: Layout) -> Weight {
        let unit = if param.is_of_tokens() { 1 } else { n };
        Weight { param, shape: Shape::Matrix { n, k }, parts: vec![Part { rows: n, layout }], unit }
    }

    /// Bytes of the weight in its layouts.
    pub fn bytes(&self) -> u64 {
        match self.shape {
            Shape::Vector { n } => 4 * n as u64,
            Shape::Matrix { k, .. } => {
                self.parts.iter().map(|part| part.layout.bytes(part.rows, k)).sum()
            }
        }
    }
}

/// What the staged bytes of a piece are, and which part of a weight they fill.
///
/// The staging area holds elements of `encoding` as in the file: little-endian, without padding. The
/// pieces of a weight come in any order, and so do its scales, zero points and codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepackJob {
    pub param: Param,
    pub encoding: Encoding,
    /// First row of the weight to fill; of a vector, its first element.
    pub first_row: usize,
    /// Number of rows to fill; of a vector, elements.
    pub rows: usize,
    /// First column of the weight; for scales and zero points, first stored group of a row. Not 0 only
    /// in pieces of tensors in [column-major order](Encoding::by_columns).
    pub first_column: usize,
    /// Columns of the weight; 1 for a vector; for scales and zero points, stored groups of a row.
    pub columns: usize,
    /// Rows per head, if they are interleaved; the piece then has whole heads. Stored rows 2i and 2i +
    /// 1 of a head are its rows i and i + half the head.
    pub interleaved: Option<usize>,
}

/// Encoding of the bytes of a checkpoint tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `[rows][columns]` numbers, converted to the weight's layout (vectors: to f32).
    Float(FloatType),
    /// The same in column-major order: `[columns][rows]`.
    FloatColumns(FloatType),
    /// Numbers of a vector that is stored minus one.
    LessOne(FloatType),
    /// `[rows][columns / elements]` blocks of GGUF: kept if [`BlockType::layout`] is the weight's
    /// layout, else converted.
    Blocks(BlockType),
    /// Nibbles of the weight's layout.
    Nibbles(Packing),
    /// `[rows][columns]` bytes: the high nibbles are these rows, the low ones the rows `distance`
    /// further down. See [`RepackJob::simple`].
    NibblesOfTwo { distance: usize },
    /// `[rows][columns]` bytes of the weight's layout, or, if `transposed`, four columns of a row per
    /// word: `[⌈columns / 4⌉][rows]`. If `unsigned`, their highest bits are flipped.
    Bytes { unsigned: bool, transposed: bool },
    /// Scales, and mins if there is a constant `zero`; if it is `None`, zero points or mins follow.
    Scales { number: Number, grid: Grid, zero: Option<u32> },
    /// Mins, of codes that are by `shift` greater than those of the layout; [`WeightSink::finish`]
    /// converts them to the layout's.
    Mins { float: FloatType, grid: Grid, shift: i32 },
    /// Zero points that are numbers; as in `ZeroPoints`.
    ZeroNumbers { float: FloatType, grid: Grid },
    /// Zero points in nibbles. [`WeightSink::finish`] converts them to min = half(−zero point·scale).
    ZeroPoints { packing: Packing, grid: Grid, wraps: bool },
}

impl Encoding {
    /// What is left in the mins' places for [`WeightSink::finish`] to convert.
    pub const fn leaves(self) -> Option<Mins> {
        match self {
            Encoding::ZeroPoints { .. } => Some(Mins::ZeroPoints),
            Encoding::ZeroNumbers { .. } => Some(Mins::ZeroPoints),
            Encoding::Mins { shift, .. } if shift != 0 => Some(Mins::Shifted(shift)),
            _ => None,
        }
    }

    /// Bytes of `rows` rows of `columns` in a file.
    pub const fn bytes(self, rows: usize, columns: usize) -> u64 {
        let (count, columns) = (rows, columns as u64);
        let rows = rows as u64;
        match self {
            Encoding::Float(float) | Encoding::FloatColumns(float) | Encoding::LessOne(float) => {
                rows * columns * float.bytes()
            }
            Encoding::Blocks(block) => {
                rows * (columns / block.elements() as u64) * block.bytes() as u64
            }
            Encoding::Bytes { .. } => rows * columns,
            Encoding::NibblesOfTwo { .. } => rows * columns,
            Encoding::Nibbles(packing) | Encoding::ZeroPoints { packing, .. } => {
                packing.words(rows, columns) * 4
            }
            Encoding::Scales { number, grid, .. } => {
                count.div_ceil(grid.rows) as u64 * columns * number.bytes()
            }
            Encoding::Mins { float, grid, .. } | Encoding::ZeroNumbers { float, grid } => {
                count.div_ceil(grid.rows) as u64 * columns * float.bytes()
            }
        }
    }

    /// Whether a tensor is in column-major order: its pieces are then columns of all its rows.
    pub const fn by_columns(self) -> bool {
        match self {
            Encoding::Nibbles(packing) | Encoding::ZeroPoints { packing, .. } => {
                matches!(packing, Packing::Transposed | Packing::Columns | Packing::AwqColumns)
            }
            Encoding::Scales { grid, .. }
            | Encoding::Mins { grid, .. }
            | Encoding::ZeroNumbers { grid, .. } => grid.transposed,
            Encoding::Bytes { transposed, .. } => transposed,
            Encoding::FloatColumns(_) => true,
            _ => false,
        }
    }
}

impl RepackJob {
    /// Rows, or columns, that must be in the same piece: they share words, numbers or a head.
    pub const fn unit(&self) -> usize {
        match (self.interleaved, self.encoding) {
            // The largest group, which is quantised as one.
            (_, Encoding::FloatColumns(_)) => 128,
            (Some(head), _) => head,
            (None, encoding) if encoding.by_columns() => 8,
            (None, Encoding::ZeroPoints { packing: Packing::RowsOfEight, .. }) => 8,
            (
                None,
                Encoding::Scales { grid, .. }
                | Encoding::Mins { grid, .. }
                | Encoding::ZeroNumbers { grid, .. },
            ) => grid.rows,
            (None, _) => 1,
        }
    }

    /// Splits the job into jobs that each fill one run of rows; all of them use the whole piece.
    pub fn simple(self) -> impl Iterator<Item = RepackJob> {
        let jobs = match self.encoding {
            Encoding::NibblesOfTwo { distance } => {
                let half = |high, first_row| {
                    let encoding = Encoding::Nibbles(Packing::Halves { high });
                    Some(RepackJob { encoding, first_row, ..self })
                };
                [half(true, self.first_row), half(false, self.first_row + distance)]
            }
            _ => [Some(self), None],
        };
        jobs.into_iter().flatten()
    }

    /// Bytes of a unit.
    pub const fn unit_bytes(&self) -> u64 {
        match self.encoding.by_columns() {
            true => self.encoding.bytes(self.rows, self.unit()),
            false => self.encoding.bytes(self.unit(), self.columns),
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

    /// Splits a tensor's job into jobs of whole units and at most [`PIECE_BYTES`].
    pub fn pieces(&self) -> impl Iterator<Item = RepackJob> {
        let by_columns = self.encoding.by_columns();
        let most = PIECE_BYTES / self.unit_bytes().max(1);
        let step = (most.max(1) as usize).saturating_mul(self.unit());
        let length = if by_columns { self.columns } else { self.rows };
        (0..length).step_by(step).map(move |first| {
            let length = step.min(length - first);
            match by_columns {
                true => RepackJob { first_column: first, columns: length, ..*self },
                false => RepackJob { first_row: self.first_row + first, rows: length, ..*self },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_tensor_in_whole_units_of_bounded_size() {
        let float = FloatType::Bf16;
        let (number, grid) = (Number::Float(float), Grid::EACH);
        let zero_points = |packing| Encoding::ZeroPoints { packing, grid, wraps: false };
        for (encoding, rows, columns, expected) in [
            (Encoding::Float(float), 128_256, 2048, 63),
            (Encoding::Float(FloatType::F32), 3, 1 << 18, 1),
            (Encoding::Float(float), 4096, 1, 1),
            (Encoding::Nibbles(Packing::Rows), 100_000, 4095, 25),
            (Encoding::Scales { number, grid, zero: None }, 1 << 21, 16, 8),
            (zero_points(Packing::RowsOfEight), 3_000_001, 20, 4),
            (Encoding::Nibbles(Packing::AwqColumns), 28_672, 8192, 15),
            (Encoding::Nibbles(Packing::Transposed), 5000, 8184, 3),
            (zero_points(Packing::Columns), 1 << 20, 33, 3),
        ] {
            let (param, first_row) = (Param::GateUp(0), 172);
            let whole = RepackJob {
                param,
                encoding,
                first_row,
                rows,
                first_column: 0,
                columns,
                interleaved: None,
            };
            let (mut covered, mut bytes, mut count) = (0, 0, 0);
            for piece in whole.pieces() {
                let job = match encoding.by_columns() {
                    true => {
                        assert_eq!((piece.first_row, piece.rows), (first_row, rows));
                        assert_eq!(piece.first_column, covered);
                        covered += piece.columns;
                        piece.columns
                    }
                    false => {
                        assert_eq!((piece.first_column, piece.columns), (0, columns));
                        assert_eq!(piece.first_row - first_row, covered);
                        covered += piece.rows;
                        piece.rows
                    }
                };
                assert!(piece.bytes() <= PIECE_BYTES && job > 0);
                bytes += piece.bytes();
                count += 1;
                assert!(covered.is_multiple_of(whole.unit()) || count == expected);
            }
            let length = if encoding.by_columns() { columns } else { rows };
            assert_eq!((covered, bytes, count), (length, whole.bytes(), expected));
        }
    }
}
