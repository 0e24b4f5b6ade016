//! Normalisation of rows as its own dispatch, where a product cannot fuse it.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Place, RowsOf, Tuning};
use crate::{gpu::Shader, layout::row_stride};

/// out = \[out +\] v / sqrt(mean(v²) + eps) · weight \[+ bias\] for each part of each row of x, where v
/// is x, or x − mean(x). x is `[rows][parts][row_stride(width)]`; out has the same shape, or is a range
/// of columns of wider rows.
///
/// Bindings in order: step, x, weight `[parts][width]` f32, bias `[parts][row_stride(width)]` f32 (if
/// `centred`), out.
#[derive(Clone, Debug, PartialEq)]
pub struct Norm {
    /// Columns of a part; a multiple of 32 if there are several.
    pub width: usize,
    /// Parts of a row, each normalised on its own.
    pub parts: usize,
    pub eps: f32,
    /// LayerNorm (subtracts the mean, has a bias) instead of RMSNorm.
    pub centred: bool,
    /// Adds to out.
    pub add: bool,
    /// The columns of out, see [`super::Copy`].
    pub place: Place,
    pub rows: RowsOf,
}

/// Parts of rows per workgroup where one thread computes a whole part.
const LANES: u32 = 4;

impl Norm {
    /// The same norm for rows of `parts` parts, which are together as wide.
    pub fn in_parts(self, parts: usize) -> Norm {
        let width = self.width / parts;
        Norm { width, parts, place: Place::whole(width), ..self }
    }
}

impl Kernel for Norm {
    fn shader(&self, tuning: Tuning) -> Shader {
        let bindings =
            Bindings::read(&["step", "x", "weight"]).and("bias", self.centred).write("out");
        let values = context! {
            at => bindings.numbers(),
            width => self.width,
            stride => row_stride(self.width),
            parts => self.parts,
            out_stride => row_stride(self.place.width),
            column => self.place.column,
            eps => self.eps,
            centred => self.centred,
            add => self.add,
            count => self.rows.function(),
            reduce => context! { values => 1 },
            barriers => tuning.barriers,
            subgroups => tuning.subgroups(),
        };
        Shader::render("norm", values, bindings.access())
    }

    fn grid(&self, tuning: Tuning, batch: &Batch) -> [u32; 3] {
        let rows = self.rows.count(batch) * self.parts as u32;
        [if tuning.barriers { rows } else { rows.div_ceil(LANES) }, 1, 1]
    }
}

/// RMSNorm on the CPU, for one row without padding.
pub fn rms(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = 1.0 / (mean(x.iter().map(|v| v * v)) + eps).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

/// LayerNorm on the CPU, for one row without padding.
pub fn layer(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
    let middle = mean(x.iter().copied());
    let scale = 1.0 / (mean(x.iter().map(|v| (v - middle) * (v - middle))) + eps).sqrt();
    for (((out, x), weight), bias) in out.iter_mut().zip(x).zip(weight).zip(bias) {
        *out = (x - middle) * scale * weight + bias;
    }
}

fn mean(numbers: impl ExactSizeIterator<Item = f32>) -> f32 {
    let count = numbers.len() as f32;
    numbers.sum::<f32>() / count
}
