//! Adds the experts' outputs of a row to the residual stream.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Tuning, literal};
use crate::{gpu::Shader, layout::row_stride};

/// residual += scale · Σ weight · y over the chosen experts of a row.
///
/// Bindings in order: step, routes (of [`super::Route`]), y `[rows][active][row_stride(width)]`,
/// residual `[rows][row_stride(width)]` (out).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Combine {
    pub active: usize,
    pub width: usize,
    /// Divides the weights by their sum.
    pub normalise: bool,
    pub scale: f32,
}

impl Kernel for Combine {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "routes", "chosen"]).write("residual");
        let values = context! {
            active => self.active,
            quads => row_stride(self.width) / 4,
            normalise => self.normalise,
            scale => (self.scale != 1.0).then(|| literal(self.scale)),
        };
        Shader::render("combine", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [(row_stride(self.width) / 4).div_ceil(64) as u32, batch.rows, 1]
    }
}

impl Combine {
    /// CPU reference.
    pub fn reference(&self, batch: &Batch, routes: &[u32], chosen: &[f32], residual: &mut [f32]) {
        let (stride, active) = (row_stride(self.width), self.active);
        let rows = residual.chunks_exact_mut(stride).zip(routes.chunks_exact(2 * active));
        let rows = rows.zip(chosen.chunks_exact(active * stride)).take(batch.rows as usize);
        for ((out, routes), chosen) in rows {
            let weights = routes.chunks_exact(2).map(|route| f32::from_bits(route[1]));
            let total = if self.normalise { weights.clone().sum() } else { 1.0 };
            let mut sum = vec![0.0; self.width];
            for (weight, y) in weights.zip(chosen.chunks_exact(stride)) {
                sum.iter_mut().zip(y).for_each(|(sum, y)| *sum += weight * y);
            }
            out.iter_mut().zip(sum).for_each(|(out, sum)| *out += sum / total * self.scale);
        }
    }
}
