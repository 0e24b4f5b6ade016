//! The canonical layouts in which weight matrices lie in memory, on the GPU and on the host alike.
//!
//! A matrix W\[N\]\[K\] is stored row by row, each row padded with zeros to
//! [`row_stride`] columns, in an array of u32 words:
//!
//! | layout | words of a row | second array (`sm`), per row |
//! |---|---|---|
//! | F32 | one value a word | – |
//! | F16, BF16 | two values a word, the first in the low half | – |
//! | W8 | four signed bytes a word, the first lowest | (scale, min) halves, one word per group |
//! | W4 | eight unsigned nibbles a word, the first lowest | (scale, min) halves, one word per group |
//!
//! A quantised weight is scale·q + min (W8: min is 0).

/// Columns are padded to a multiple of this, so that every layout ends on a whole word and group.
pub const COLUMN_UNIT: usize = 32;

/// Columns of a stored row: `k` rounded up to [`COLUMN_UNIT`]; activations use the same stride.
pub const fn row_stride(k: usize) -> usize {
    k.next_multiple_of(COLUMN_UNIT)
}

/// How a weight matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    F32,
    F16,
    Bf16,
    /// Signed bytes with one scale per `group` columns.
    W8 {
        group: usize,
    },
    /// Unsigned nibbles with one (scale, min) per `group` columns: 32, 64 or 128.
    W4 {
        group: usize,
    },
}
