//! Turning the bytes of checkpoints, as they are staged, into weights in their canonical layouts.
//!
//! The same in plain Rust is the host sink of `weights`.

use bytemuck::{Pod, Zeroable};
use minijinja::{Value, context};

use super::{Bindings, codebook_values, fold, layout_name};
use crate::{
    gpu::Shader,
    layout::{BlockType, FloatType, Grid, Layout, Mins, Number, Packing, quantise, row_stride},
};

/// One step of repacking. Its bindings are [`Rows`] as words, staged bytes as words (but for
/// [`Repack::Finish`]), and what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repack {
    /// Numbers in one of the float layouts to a layout. Writes words; quantised, then scales too.
    Numbers { from: Layout, to: Layout },
    /// The same of numbers that are stored column after column.
    Columns { from: Layout, to: Layout },
    /// Numbers in one of the float layouts, each of them plus one, to f32. Writes words.
    LessOne { from: Layout },
    /// Rows of blocks to a layout; to [`BlockType::layout`] as they are. Writes words; then scales
    /// too where the layout has them.
    Blocks { from: BlockType, to: Layout },
    /// Codes that are those of the layout. Writes words.
    Codes(Codes),
    /// Scales, and mins if the zero point is the same everywhere. Writes scales.
    Scales { number: Number, grid: Grid, zero: Option<u32>, to: Layout },
    /// Mins. Writes scales.
    Mins { from: FloatType, grid: Grid, to: Layout },
    /// Zero points, to where mins belong. Writes scales.
    ZeroPoints { packing: Packing, grid: Grid, wraps: bool, to: Layout },
    /// Codes of nibbles in another order of columns: staged are the rows as they were, and a third
    /// binding has the order, `[columns]`. Writes words.
    Reorder,
    /// Mins from what lies in their places and scales, once both are there. Writes scales.
    Finish(Mins),
}

/// How codes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codes {
    Nibbles(Packing),
    /// Rows of bytes, or words of four columns of a row if `transposed`; if `unsigned`, their
    /// highest bits are turned over.
    Bytes {
        unsigned: bool,
        transposed: bool,
    },
}

/// Which staged rows go where.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Rows {
    /// The first of them in the staged piece.
    pub source: u32,
    /// The first one's place in the buffers that are written.
    pub row: u32,
    /// How many.
    pub rows: u32,
    /// Numbers, codes or stored groups in a staged row.
    pub columns: u32,
    /// Words in a written row: of scales where any are written, else of words. The rows of a vector
    /// are its elements, of one column and stride 1.
    pub stride: u32,
    /// Rows of a head whose rows are interleaved, or 0: stored rows 2i and 2i + 1 of a head are its
    /// rows i and i + half the head.
    pub interleaved: u32,
    /// Rows of the whole piece.
    pub staged: u32,
    /// The first staged column's place in a row of the matrix; only the pieces of tensors that are
    /// stored by columns begin elsewhere than at 0.
    pub first_column: u32,
    /// Columns of the matrix, for pieces that are not all of them.
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

    /// Bytes of a staged row, if such rows are those of the layout as they are.
    pub fn kept_row(self, rows: &Rows) -> Option<u64> {
        let Repack::Numbers { from, to } = self else { return None };
        let columns = rows.columns as usize;
        let whole = rows.width == rows.columns && row_stride(columns) == columns;
        let kept = from == to && whole && rows.first_column == 0 && rows.interleaved == 0;
        kept.then(|| 4 * from.row_words(columns) as u64)
    }
}

impl Codes {
    /// Whether words do not hold the codes of a row one after the other.
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

/// What `include/packing.wgsl` calls a packing.
fn packing_name(packing: Packing) -> String {
    match packing {
        Packing::Halves { high: true } => "HighHalves".into(),
        Packing::Halves { high: false } => "LowHalves".into(),
        packing => format!("{packing:?}"),
    }
}

/// What `rescale.wgsl` needs to know of where numbers belong.
fn grid_values(Grid { transposed, rows, groups }: Grid, to: Layout) -> Value {
    let codebook = to.codebook().map(|codebook| format!("{codebook:?}"));
    context! { transposed, row_span => rows, group_span => groups, codebook }
}

/// The shader that makes numbers of any kind those of a layout, and its values.
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

/// What `include/blocks.wgsl` needs to know of a type.
fn block(from: BlockType) -> Value {
    let values = from.layout().and_then(Layout::codebook).map(codebook_values);
    // Where the halves of types with a byte for each 16 elements lie.
    let halves = match from {
        BlockType::Q2_K => Some(80),
        BlockType::Q3_K => Some(108),
        BlockType::Q6_K => Some(208),
        _ => None,
    };
    context! { elements => from.elements(), bytes => from.bytes(), values, halves }
}

/// What `blocks.wgsl` needs to know of a layout.
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
