//! Root-mean-square normalisation as a dispatch of its own, where a product cannot take it in.

use minijinja::context;

use super::{Batch, Bindings, Kernel, RowsOf, Tuning};
use crate::{gpu::Shader, layout::row_stride};

/// out = \[out +\] x / sqrt(mean(x²) + eps) · weight for each row; x and out are `[rows][row_stride(width)]`.
///
/// Bindings in order: step, x, weight `[width]` f32, out.
#[derive(Clone, Debug, PartialEq)]
pub struct RmsNorm {
    pub width: usize,
    pub eps: f32,
    /// Adds to what out holds.
    pub add: bool,
    pub rows: RowsOf,
}

/// Rows per workgroup where a thread takes a whole row.
const LANES: u32 = 4;

impl Kernel for RmsNorm {
    fn shader(&self, tuning: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "x", "weight"]).write("out");
        let values = context! {
            width => self.width,
            stride => row_stride(self.width),
            eps => self.eps,
            add => self.add,
            count => self.rows.function(),
            reduce => context! { values => 1 },
            barriers => tuning.barriers,
            subgroups => tuning.subgroups,
        };
        Shader::render("rms_norm", values, bindings.access())
    }

    fn grid(&self, tuning: Tuning, batch: &Batch) -> [u32; 3] {
        let rows = self.rows.count(batch);
        [if tuning.barriers { rows } else { rows.div_ceil(LANES) }, 1, 1]
    }
}

/// The same in plain Rust, for one row without its padding.
pub fn reference(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let square = x.iter().map(|v| v * v).sum::<f32>() / x.len() as f32;
    let scale = 1.0 / (square + eps).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}
