//! Embedding lookup of tokens and positions.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Tuning, literal, weights};
use crate::{
    gpu::Shader,
    layout::{HostMatrix, Layout, row_stride},
};

/// Writes the embedding of each row's token, times `scale`, to out, `[rows][row_stride(width)]`; or
/// adds the embedding of its position.
///
/// Bindings in order: step, last samples `[slots][SLOT_TOKENS]` (for tokens), words, scales (layouts
/// that have them), out. Each part of a matrix that is split by rows writes only the rows of its own
/// tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Embed {
    pub layout: Layout,
    /// Embeds positions instead of tokens.
    pub positions: bool,
    /// The token, or position, of the bound matrix's first row.
    pub first: usize,
    /// Rows of the bound matrix.
    pub rows: usize,
    /// Columns.
    pub width: usize,
    pub scale: f32,
}

impl Kernel for Embed {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step"])
            .and("last_samples", !self.positions)
            .and("words", true)
            .and("scales", self.layout.record().is_some())
            .write("out");
        let values = context! {
            at => bindings.numbers(),
            weights => weights(self.layout, self.width),
            first => self.first,
            count => self.rows,
            positions => self.positions,
            width => self.width,
            scale => (self.scale != 1.0).then(|| literal(self.scale)),
        };
        Shader::render("embed", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [row_stride(self.width).div_ceil(4 * 64) as u32, batch.rows, 1]
    }
}

impl Embed {
    /// CPU reference, for the part of a matrix that starts at `first`.
    pub fn reference(
        &self,
        batch: &Batch,
        last_samples: &[u32],
        matrix: &HostMatrix,
        out: &mut [f32],
    ) {
        let mut weights = vec![0.0; matrix.k];
        let rows = out.chunks_exact_mut(row_stride(matrix.k)).take(batch.rows as usize);
        for (i, out) in rows.enumerate() {
            let row = batch.row(i);
            let index = match row.token {
                _ if self.positions => row.position,
                _ => batch.token(i, last_samples),
            };
            let index = (index as usize).checked_sub(self.first).filter(|row| *row < matrix.n);
            let Some(index) = index else { continue };
            matrix.dequantise_row(index, &mut weights);
            let (out, padding) = out.split_at_mut(matrix.k);
            for (out, weight) in out.iter_mut().zip(&weights) {
                let before = if self.positions { *out } else { 0.0 };
                *out = before + weight * self.scale;
            }
            padding.fill(0.0);
        }
    }
}
