//! Reorders the columns of activations.

use minijinja::context;

use super::{Batch, Bindings, Kernel, RowsOf, Tuning};
use crate::{gpu::Shader, layout::row_stride};

/// out\[row\]\[i\] = x\[row\]\[order\[i\]\]; x and out are `[rows][row_stride(width)]`.
///
/// Bindings in order: step, x, order `[width]` u32, out.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    pub width: usize,
    pub rows: RowsOf,
}

impl Kernel for Columns {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "x", "order"]).write("out");
        let values = context! {
            width => self.width,
            stride => row_stride(self.width),
            count => self.rows.function(),
        };
        Shader::render("columns", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [row_stride(self.width).div_ceil(64) as u32, self.rows.count(batch), 1]
    }
}

/// CPU reference for one row without padding.
pub fn reference(x: &[f32], order: &[u32], out: &mut [f32]) {
    for (out, column) in out.iter_mut().zip(order) {
        *out = x[*column as usize];
    }
}
