//! Copies rows side by side.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Tuning};
use crate::{gpu::Shader, layout::row_stride};

/// The columns of a wider activation that a narrower one is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Columns of the wider one.
    pub width: usize,
    /// The first column.
    pub column: usize,
}

impl Place {
    /// All columns of an activation of this width.
    pub const fn whole(width: usize) -> Place {
        Place { width, column: 0 }
    }
}

/// Copies the rows of x, `[rows][row_stride(width)]`, to a range of columns of out,
/// `[rows][row_stride(place.width)]`. Unless that is all of out, both widths and the first column are
/// multiples of 32.
///
/// Bindings in order: step, x, out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    pub width: usize,
    pub place: Place,
}

impl Copy {
    /// CPU reference, for this many rows.
    pub fn reference(&self, rows: usize, x: &[f32], out: &mut [f32]) {
        let (stride, column) = (row_stride(self.width), self.place.column);
        let out = out.chunks_exact_mut(row_stride(self.place.width));
        for (x, out) in x.chunks_exact(stride).zip(out).take(rows) {
            out[column..column + stride].copy_from_slice(x);
        }
    }
}

impl Kernel for Copy {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "x"]).write("out");
        let values = context! {
            stride => row_stride(self.width),
            out_stride => row_stride(self.place.width),
            column => self.place.column,
        };
        Shader::render("copy", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [row_stride(self.width).div_ceil(4 * 64) as u32, batch.rows, 1]
    }
}
