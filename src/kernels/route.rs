//! Chooses experts for each row.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Tuning};
use crate::{gpu::Shader, layout::row_stride};

/// Chooses `active` of `experts` by the router's logits: the greatest; ties: the lowest index.
///
/// Bindings in order: step, logits `[rows][row_stride(experts)]`, routes (out): for each row, the
/// greatest first, `active` pairs of (expert, bits of its softmax weight over all experts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub experts: usize,
    pub active: usize,
}

impl Kernel for Route {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "logits"]).write("routes");
        let (experts, active) = (self.experts, self.active);
        let values = context! { experts, active, stride => row_stride(experts) };
        Shader::render("route", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [self.experts.div_ceil(64) as u32, batch.rows, 1]
    }
}

impl Route {
    /// CPU reference.
    pub fn reference(&self, batch: &Batch, logits: &[f32]) -> Vec<u32> {
        let mut routes = Vec::new();
        for row in logits.chunks_exact(row_stride(self.experts)).take(batch.rows as usize) {
            let row = &row[..self.experts];
            let mut order: Vec<usize> = (0..self.experts).collect();
            order.sort_by(|a, b| row[*b].total_cmp(&row[*a])); // stable
            let top = row[order[0]];
            let sum: f32 = row.iter().map(|x| (x - top).exp()).sum();
            for expert in &order[..self.active] {
                routes.extend([*expert as u32, ((row[*expert] - top).exp() / sum).to_bits()]);
            }
        }
        routes
    }
}
