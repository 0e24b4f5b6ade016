//! Gathers the rows whose logits are computed.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Tuning};
use crate::{gpu::Shader, layout::row_stride};

/// Copies rows of x, `[rows][row_stride(width)]`, to out, `[logit rows][row_stride(width)]`.
///
/// Bindings in order: step, x, out.
#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    pub width: usize,
}

impl Kernel for Gather {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "x"]).write("out");
        let values = context! { stride => row_stride(self.width) };
        Shader::render("gather", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [row_stride(self.width).div_ceil(4 * 64) as u32, batch.logit_rows, 1]
    }
}

/// CPU reference.
pub fn reference(batch: &Batch, width: usize, x: &[f32], out: &mut [f32]) {
    let stride = row_stride(width);
    for (i, out) in out.chunks_exact_mut(stride).take(batch.logit_rows as usize).enumerate() {
        out.copy_from_slice(&x[batch.logit_row(i) * stride..][..stride]);
    }
}
