//! How checkpoints store quantised codes, scales and zero points.

use super::Layout;

/// The order of nibbles in u32 words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packing {
    /// Eight columns of a row: `[rows][⌈columns / 8⌉]`, as the canonical layouts have them.
    Rows,
    /// The same in two's complement: torchao.
    Signed,
    /// The same with the high nibble of each byte before the low one: bitsandbytes.
    HighFirst,
    /// One column of a row in the low nibble of each byte, or in the high one: `[rows][columns]` bytes,
    /// HQQ. The other nibbles belong to other rows.
    Halves { high: bool },
    /// Eight columns of a row: `[⌈columns / 8⌉][rows]`, the codes of GPTQ.
    Transposed,
    /// Eight rows of a column: `[⌈rows / 8⌉][columns]`, the zero points of compressed-tensors.
    RowsOfEight,
    /// Eight rows of a column: `[columns][⌈rows / 8⌉]`, the zero points of GPTQ.
    Columns,
    /// The same with rows 0, 2, 4, 6, 1, 3, 5, 7 from the lowest nibble up: AWQ.
    AwqColumns,
}

impl Packing {
    /// The index of the word and of the nibble in it, for a matrix of `[rows][columns]`.
    pub const fn place(
        self,
        [rows, columns]: [usize; 2],
        row: usize,
        column: usize,
    ) -> (usize, usize) {
        match self {
            Packing::Rows | Packing::Signed => (row * columns.div_ceil(8) + column / 8, column % 8),
            Packing::Halves { high } => {
                let byte = row * columns + column;
                (byte / 4, byte % 4 * 2 + high as usize)
            }
            Packing::HighFirst => (row * columns.div_ceil(8) + column / 8, (column % 8) ^ 1),
            Packing::Transposed => (column / 8 * rows + row, column % 8),
            Packing::RowsOfEight => (row / 8 * columns + column, row % 8),
            Packing::Columns => (column * rows.div_ceil(8) + row / 8, row % 8),
            Packing::AwqColumns => (column * rows.div_ceil(8) + row / 8, row % 8 / 2 + row % 2 * 4),
        }
    }

    /// Words of a matrix of `[rows][columns]`.
    pub const fn words(self, rows: u64, columns: u64) -> u64 {
        match self {
            Packing::Halves { .. } => (rows * columns).div_ceil(4),
            Packing::Rows | Packing::Signed | Packing::HighFirst | Packing::Transposed => {
                rows * columns.div_ceil(8)
            }
            _ => rows.div_ceil(8) * columns,
        }
    }
}

/// Which rows and groups the numbers of a tensor of scales, mins or zero points belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// `[groups][rows]` instead of `[rows][groups]`.
    pub transposed: bool,
    /// Rows that share a number.
    pub rows: usize,
    /// Groups of the layout that share a number.
    pub groups: usize,
}

impl Grid {
    /// `[rows][groups]`, one number each.
    pub const EACH: Grid = Grid { transposed: false, rows: 1, groups: 1 };
}

/// Contents of the mins' places until a weight is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mins {
    /// Zero points: min = −zero point·scale.
    ZeroPoints,
    /// Mins for stored codes that are greater than the layout's by this offset: min += offset·scale.
    Shifted(i32),
}

/// Number format of scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    Float(FloatType),
    /// A float, to be divided by 127.
    Float127(FloatType),
    /// A byte: the exponent of a power of two, plus 127.
    Exponent,
}

impl Number {
    /// Bytes of a number.
    pub const fn bytes(self) -> u64 {
        match self {
            Number::Float(float) | Number::Float127(float) => float.bytes(),
            Number::Exponent => 1,
        }
    }
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

    /// The layout that stores these numbers unchanged.
    pub const fn layout(self) -> Layout {
        match self {
            FloatType::F32 => Layout::F32,
            FloatType::F16 => Layout::F16,
            FloatType::Bf16 => Layout::Bf16,
        }
    }
}
