//! Putting rows side by side.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Tuning};
use crate::{gpu::Shader, layout::row_stride};

/// Where the rows of a narrower activation go in a wider one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Columns of the wider one.
    pub width: usize,
    /// The first column.
    pub column: usize,
}

impl Place {
    /// All of an activation of so many columns.
    pub const fn whole(width: usize) -> Place {
        Place { width, column: 0 }
    }
}

/// Copies the rows of x, `[rows][row_stride(width)]`, to a place in those of out,
/// `[rows][row_stride(place.width)]`. Where they are not all of it, both numbers of columns and the
/// place are multiples of 32.
///
/// Bindings in order: step, x, out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    pub width: usize,
    pub place: Place,
}

impl Copy {
    /// The same in plain Rust, for so many rows.
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
