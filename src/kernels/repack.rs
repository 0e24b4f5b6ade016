//! Converts checkpoint bytes, as staged, to weights in their canonical layouts.
//!
//! The CPU reference is the host sink of `weights`.

use bytemuck::{Pod, Zeroable};
use minijinja::{Value, context};

use super::{Bindings, codebook_values, fold, layout_name};
use crate::{
    gpu::Shader,
    layout::{BlockType, FloatType, Grid, Layout, Mins, Number, Packing, quantise, row_stride},
};

/// One repacking operation. Bindings: [`Rows`] as words, staged bytes as words (except for
/// [`Repack::Finish`]), and the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repack {
    /// Numbers in a float layout to another layout. Writes words, and scales if quantised.
    Numbers { from: Layout, to: Layout },
    /// The same for numbers stored in column-major order.
    Columns { from: Layout, to: Layout },
    /// Numbers in a float layout, stored as value − 1, to f32: adds 1. Writes words.
    LessOne { from: Layout },
    /// Rows of quantised blocks to a layout; without rounding to [`BlockType::layout`]. Writes words,
    /// and scales if the layout has them.
    Blocks { from: BlockType, to: Layout },
    /// Codes of the layout. Writes words.
    Codes(Codes),
    /// Scales, and mins if the zero point is constant. Writes scales.
    Scales { number: Number, grid: Grid, zero: Option<u32>, to: Layout },
    /// Mins. Writes scales.
    Mins { from: FloatType, grid: Grid, to: Layout },
    /// Zero points, stored in the place of mins. Writes scales.
    ZeroPoints { packing: Packing, grid: Grid, wraps: bool, to: Layout },
    /// Nibble codes with reordered columns: the staged rows are in the old order, and a third binding
    /// has the order, `[columns]`. Writes words.
    Reorder,
    /// Mins, from the zero points in their places and the scales, once both are there. Writes scales.
    Finish(Mins),
}

/// Storage of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codes {
    Nibbles(Packing),
    /// Rows of bytes, or words of four columns of a row if `transposed`; if `unsigned`, their highest
    /// bits are flipped.
    Bytes {
        unsigned: bool,
        transposed: bool,
    },
}

/// Source and destination of staged rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Rows {
    /// The first of them in the staged piece.
    pub source: u32,
    /// The first row in the output buffers.
    pub row: u32,
    /// Number of rows.
    pub rows: u32,
    /// Numbers, codes or stored groups per staged row.
    pub columns: u32,
    /// Words per output row: of scales if any are written, else of words. A vector has one element per
    /// row, of one column and stride 1.
    pub stride: u32,
    /// Rows of a head with interleaved rows, or 0: stored rows 2i and 2i + 1 of a head are its rows i
    /// and i + half the head.
    pub interleaved: u32,
    /// Rows of the whole piece.
    pub staged: u32,
    /// The column of the matrix that the first staged column belongs to; not 0 only for pieces of
    /// tensors in column-major order.
    pub first_column: u32,
    /// Columns of the matrix, for pieces that do not have all of them.
    pub width: u32,
}

/// Threads per workgroup.
const THREADS: u32 = 64;

impl Repack {
    /// Renders the shader.
    pub fn shader(self) -> Shader {
        let staged = !matches!(self, Repack::Finish(_));
        let bindings =
            Bindings::read(&["job"]).and("staged", staged).and("order", self == Repack::Reorder);
        let bindings = match self {
            Repack::Numbers { to, .. } | Repack::Columns { to, .. } | Repack::Blocks { to, .. }
                if to.record().is_some() =>
            {
                bindings.write("words").write("scales")
            }
            _ if self.writes_words() => bindings.write("words"),
            _ => bindings.write("scales"),
        };
        let (name, values) = match self {
            Repack::Numbers { from, to } => numbers(layout_name(from), to),
            Repack::Columns { from, to } => {
                let (name, values) = numbers(layout_name(from), to);
                (name, context! { transposed => true, ..values })
            }
            Repack::Blocks { from, to } => {
                let (name, values) = match from.layout() == Some(to) {
                    true => ("blocks", context! { record => record(to) }),
                    false => numbers("", to),
                };
                (name, context! { from => from.to_string(), block => block(from), ..values })
            }
            Repack::LessOne { from } => {
                let from = layout_name(from);
                let values = context! { less_one => true, block => false, transposed => false };
                ("repack", context! { from, to => "f32", ..values })
            }
            Repack::Codes(codes) => ("codes", codes.values()),
            Repack::Scales { number, grid, zero, to } => {
                let from = match number {
                    Number::Float(float) | Number::Float127(float) => layout_name(float.layout()),
                    Number::Exponent => "exponents",
                };
                let by_127 = matches!(number, Number::Float127(_));
                let values = context! { part => "scales", zero, by_127, ..grid_values(grid, to) };
                ("rescale", context! { from, packing => false, ..values })
            }
            Repack::Mins { from, grid, to } => {
                let from = layout_name(from.layout());
                let values = context! { part => "mins", ..grid_values(grid, to) };
                ("rescale", context! { from, packing => false, ..values })
            }
            Repack::ZeroPoints { packing, grid, wraps, to } => {
                let values = context! { part => "zero points", wraps, ..grid_values(grid, to) };
                let packing = packing_name(packing);
                ("rescale", context! { from => "", packing, ..values })
            }
            Repack::Reorder => ("reorder", context! { from => "", packing => false }),
            Repack::Finish(mins) => {
                let shift = match mins {
                    Mins::ZeroPoints => None,
                    Mins::Shifted(shift) => Some(shift),
                };
                ("finish", context! { shift, from => "", packing => false })
            }
        };
        Shader::render(name, values, bindings.access())
    }

    /// Workgroups for these rows.
    pub fn grid(self, rows: &Rows) -> [u32; 3] {
        let threads = match self {
            Repack::Blocks { from, to } if from.layout() == Some(to) => {
                let record = to.record().map_or(1, |(columns, _)| columns as u32);
                rows.columns.div_ceil(record)
            }
            Repack::Codes(codes) if codes.gathers() => rows.columns.div_ceil(codes.per_word()),
            Repack::Columns { to, .. } => {
                let together = to.quantised_group().unwrap_or(to.columns_per_word());
                rows.columns.div_ceil(together as u32)
            }
            _ => rows.stride,
        };
        fold((rows.rows * threads).div_ceil(THREADS), 1)
    }

    /// Whether it writes the words of a matrix.
    pub fn writes_words(self) -> bool {
        matches!(
            self,
            Repack::Numbers { .. }
                | Repack::Columns { .. }
                | Repack::LessOne { .. }
                | Repack::Blocks { .. }
                | Repack::Codes(_)
                | Repack::Reorder
        )
    }

    /// Whether it writes the scales of a matrix in this layout.
    pub fn writes_scales(self, layout: Layout) -> bool {
        layout.record().is_some() && !matches!(self, Repack::Codes(_) | Repack::Reorder)
    }

    /// [`Rows::stride`] for a matrix of `k` columns.
    pub fn stride(self, layout: Layout, k: usize) -> usize {
        match self.writes_scales(layout) {
            true => layout.row_scales(k),
            false => layout.row_words(k),
        }
    }

    /// Bytes of a staged row, if staged rows already have the output layout.
    pub fn kept_row(self, rows: &Rows) -> Option<u64> {
        let Repack::Numbers { from, to } = self else { return None };
        let columns = rows.columns as usize;
        let whole = rows.width == rows.columns && row_stride(columns) == columns;
        let kept = from == to && whole && rows.first_column == 0 && rows.interleaved == 0;
        kept.then(|| 4 * from.row_words(columns) as u64)
    }
}

impl Codes {
    /// Whether the codes of a row are not consecutive in its words.
    fn gathers(self) -> bool {
        match self {
            Codes::Nibbles(packing) => !matches!(packing, Packing::Rows | Packing::Signed),
            Codes::Bytes { transposed, .. } => transposed,
        }
    }

    fn per_word(self) -> u32 {
        if matches!(self, Codes::Nibbles(_)) { 8 } else { 4 }
    }

    fn values(self) -> Value {
        match self {
            Codes::Nibbles(Packing::Signed) => {
                let flip = 0x8888_8888_u32;
                context! { from => "nibbles", per_word => 8, flip, wraps => false, packing => "Rows" }
            }
            Codes::Nibbles(packing) => {
                let packing = packing_name(packing);
                context! { from => "nibbles", per_word => 8, flip => 0, wraps => false, packing }
            }
            Codes::Bytes { unsigned, transposed } => {
                let flip = if unsigned { 0x8080_8080_u32 } else { 0 };
                let packing = if transposed { "Words" } else { "Rows" };
                context! { from => "bytes", per_word => 4, flip, wraps => false, packing }
            }
        }
    }
}

/// The name of a packing in `include/packing.wgsl`.
fn packing_name(packing: Packing) -> String {
    match packing {
        Packing::Halves { high: true } => "HighHalves".into(),
        Packing::Halves { high: false } => "LowHalves".into(),
        packing => format!("{packing:?}"),
    }
}

/// Template values of `rescale.wgsl` for the places of numbers.
fn grid_values(Grid { transposed, rows, groups }: Grid, to: Layout) -> Value {
    let codebook = to.codebook().map(|codebook| format!("{codebook:?}"));
    context! { transposed, row_span => rows, group_span => groups, codebook }
}

/// The shader that converts numbers of any kind to a layout, and its values.
fn numbers(from: &str, to: Layout) -> (&'static str, Value) {
    let names = context! { from, to => layout_name(to), less_one => false, block => false, transposed => false };
    match to.quantised_group() {
        None => ("repack", names),
        Some(group) => (
            "quantise",
            context! {
                group,
                per_word => to.columns_per_word(),
                candidates => quantise::CANDIDATES,
                step => quantise::STEP,
                ..names
            },
        ),
    }
}

/// Template values of `include/blocks.wgsl` for a block type.
fn block(from: BlockType) -> Value {
    let values = from.layout().and_then(Layout::codebook).map(codebook_values);
    // Offsets of the f16 fields in types with one byte per 16 elements.
    let halves = match from {
        BlockType::Q2_K => Some(80),
        BlockType::Q3_K => Some(108),
        BlockType::Q6_K => Some(208),
        _ => None,
    };
    context! { elements => from.elements(), bytes => from.bytes(), values, halves }
}

/// Template values of `blocks.wgsl` for a layout.
fn record(to: Layout) -> Value {
    let (columns, words) = to.record().unwrap_or_default();
    let low_bits = 32 / to.columns_per_word();
    let high_bits = match to {
        Layout::W5 | Layout::W3 => 1,
        Layout::W6 => 2,
        _ => 0,
    };
    let codebook = to.codebook().map(|codebook| format!("{codebook:?}"));
    context! { columns, words, low_bits, low_mask => (1 << low_bits) - 1, high_bits, codebook }
}
