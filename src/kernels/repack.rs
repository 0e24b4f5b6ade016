//! Turning the bytes of checkpoints, as they are staged, into weights in their canonical layouts.
//!
//! The same in plain Rust is the host sink of `weights`.

use bytemuck::{Pod, Zeroable};
use minijinja::{Value, context};

use super::{Bindings, fold, layout_name};
use crate::{
    gpu::Shader,
    layout::{BlockType, Layout, quantise},
};

/// One step of repacking. Its bindings are [`Rows`] as words, staged bytes as words (but for
/// [`Repack::Mins`]), and what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repack {
    /// Numbers in one of the float layouts to a layout. Writes words; quantised, then scales too.
    Numbers { from: Layout, to: Layout },
    /// Numbers in one of the float layouts, each of them plus one, to f32. Writes words.
    LessOne { from: Layout },
    /// Rows of blocks to a layout; to [`BlockType::layout`] as they are. Writes words; quantised,
    /// then scales too.
    Blocks { from: BlockType, to: Layout },
    /// Words of nibbles that are already those of [`Layout::W4`], to be padded. Writes words.
    Nibbles,
    /// The scales of nibbles and, if `symmetric`, their mins. Writes scales.
    Scales { from: Layout, symmetric: bool },
    /// The zero points of nibbles, to where their mins belong. Writes scales.
    ZeroPoints,
    /// Mins from zero points and scales, once both are there. Writes scales.
    Mins,
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
    /// Numbers in a staged row; for [`Repack::Nibbles`] nibbles that count.
    pub columns: u32,
    /// Words in a written row: of scales where any are written, else of words. The rows of a vector
    /// are its elements, of one column and stride 1.
    pub stride: u32,
    /// Rows of a head whose rows are interleaved, or 0: stored rows 2i and 2i + 1 of a head are its
    /// rows i and i + half the head.
    pub interleaved: u32,
}

/// Threads per workgroup.
const THREADS: u32 = 64;

impl Repack {
    /// Renders the shader.
    pub fn shader(self) -> Shader {
        let bindings = Bindings::read(&["job"]).and("staged", self != Repack::Mins);
        let bindings = match self {
            Repack::Numbers { to, .. } | Repack::Blocks { to, .. } if to.group().is_some() => {
                bindings.write("words").write("scales")
            }
            Repack::Numbers { .. }
            | Repack::LessOne { .. }
            | Repack::Blocks { .. }
            | Repack::Nibbles => bindings.write("words"),
            _ => bindings.write("scales"),
        };
        let (name, values) = match self {
            Repack::Numbers { from, to } => numbers(layout_name(from), to),
            Repack::Blocks { from, to } if from.layout() == Some(to) => (
                "blocks",
                context! { from => from.to_string(), bytes => from.bytes(), words => 32 / to.columns_per_word() },
            ),
            Repack::Blocks { from, to } => numbers(&from.to_string(), to),
            Repack::LessOne { from } => {
                ("repack", context! { from => layout_name(from), to => "f32", less_one => true })
            }
            Repack::Nibbles => {
                ("repack", context! { from => "nibbles", to => "w4", less_one => false })
            }
            Repack::Scales { from, symmetric } => {
                ("rescale", context! { part => "scales", from => layout_name(from), symmetric })
            }
            Repack::ZeroPoints => ("rescale", context! { part => "zero points", from => "" }),
            Repack::Mins => ("rescale", context! { part => "mins", from => "" }),
        };
        Shader::render(name, values, bindings.access())
    }

    /// Workgroups for these rows.
    pub fn grid(self, rows: &Rows) -> [u32; 3] {
        fold((rows.rows * rows.stride).div_ceil(THREADS), 1)
    }
}

/// The shader that makes numbers of any kind those of a layout, and its values.
fn numbers(from: &str, to: Layout) -> (&'static str, Value) {
    let names = context! { from, to => layout_name(to), less_one => false };
    match to.group() {
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
