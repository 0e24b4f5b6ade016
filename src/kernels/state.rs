//! Per-slot state of a draft head between steps.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Tuning};
use crate::{gpu::Shader, layout::row_stride};

/// Stores rows of x, `[rows][row_stride(width)]`, as the states of their slots,
/// `[slots][row_stride(width)]`: of each sampling sequence, the row from which the last accepted token
/// was sampled.
///
/// Bindings: step, x, results (of [`super::Accept`]), states (out).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreStates {
    pub width: usize,
}

/// Loads the states of slots to rows of out, `[rows][row_stride(width)]`: row i has the state of sample
/// i's slot.
///
/// Bindings: step, states, out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadStates {
    pub width: usize,
}

impl StoreStates {
    /// CPU reference.
    pub fn reference(&self, batch: &Batch, x: &[f32], results: &[u32], states: &mut [f32]) {
        let stride = row_stride(self.width);
        for i in 0..batch.sample_runs as usize {
            let (first, _) = batch.sample_run(i);
            let accepted = results[batch.accepted_at(i)] as usize;
            let (slot, row) = (batch.sample(first)[1], batch.sample(first + accepted)[13]);
            let [to, from] = [slot, row].map(|at| at as usize * stride);
            states[to..to + stride].copy_from_slice(&x[from..from + stride]);
        }
    }
}

impl LoadStates {
    /// CPU reference.
    pub fn reference(&self, batch: &Batch, states: &[f32], out: &mut [f32]) {
        let stride = row_stride(self.width);
        for (i, out) in out.chunks_exact_mut(stride).take(batch.samples as usize).enumerate() {
            out.copy_from_slice(&states[batch.sample(i)[1] as usize * stride..][..stride]);
        }
    }
}

impl Kernel for StoreStates {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "x", "result"]).write("states");
        let values = context! { stride => row_stride(self.width), keeps => true };
        Shader::render("state", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [row_stride(self.width).div_ceil(4 * 64) as u32, batch.sample_runs, 1]
    }
}

impl Kernel for LoadStates {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "x"]).write("states");
        let values = context! { stride => row_stride(self.width), keeps => false };
        Shader::render("state", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [row_stride(self.width).div_ceil(4 * 64) as u32, batch.samples, 1]
    }
}
