//! Looking up the embeddings of a step's tokens.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Tuning, batch::LAST_SAMPLE, literal, weights};
use crate::{
    gpu::Shader,
    layout::{HostMatrix, Layout, row_stride},
};

/// Writes the embedding of each row's token, times `scale`, to out, `[rows][row_stride(width)]`.
///
/// Bindings in order: step, last samples `[slots]`, words, scales (layouts that have them), out. Each part
/// of a matrix that is split by rows writes the rows of its own tokens only.
#[derive(Clone, Debug, PartialEq)]
pub struct Embed {
    pub layout: Layout,
    /// The token of the bound matrix's first row.
    pub first: usize,
    /// Rows of the bound matrix.
    pub rows: usize,
    /// Columns.
    pub width: usize,
    pub scale: f32,
}

impl Kernel for Embed {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "last_samples", "words"])
            .and("scales", self.layout.record().is_some())
            .write("out");
        let values = context! {
            at => bindings.numbers(),
            weights => weights(self.layout, self.width),
            first => self.first,
            tokens => self.rows,
            width => self.width,
            scale => (self.scale != 1.0).then(|| literal(self.scale)),
        };
        Shader::render("embed", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [row_stride(self.width).div_ceil(4 * 64) as u32, batch.rows, 1]
    }
}

/// The same in plain Rust.
pub fn reference(
    batch: &Batch,
    last_samples: &[u32],
    matrix: &HostMatrix,
    first: usize,
    scale: f32,
    out: &mut [f32],
) {
    let rows = out.chunks_exact_mut(row_stride(matrix.k)).take(batch.rows as usize);
    for (i, out) in rows.enumerate() {
        let token = match batch.row(i).token {
            id if id & LAST_SAMPLE != 0 => last_samples[(id & !LAST_SAMPLE) as usize],
            id => id,
        };
        let (weights, padding) = out.split_at_mut(matrix.k);
        if let Some(row) = (token as usize).checked_sub(first).filter(|row| *row < matrix.n) {
            matrix.dequantise_row(row, weights);
            weights.iter_mut().for_each(|weight| *weight *= scale);
            padding.fill(0.0);
        }
    }
}
