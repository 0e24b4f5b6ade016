//! Pools the hidden states of a sequence into one embedding.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Tuning};
use crate::{gpu::Shader, layout::row_stride};

/// Adds the rows of each pool of the step, one after the other, to the sum of its slot. A pool that
/// begins starts a new sum. The bits of a sum do not depend on how its rows are spread over steps.
///
/// Bindings in order: step, x `[rows][row_stride(width)]`, sums `[slots][row_stride(width)]` (in and
/// out).
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    pub width: usize,
}

impl Kernel for Pool {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "x"]).write("out");
        let values = context! { stride => row_stride(self.width) };
        Shader::render("pool", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [row_stride(self.width).div_ceil(4 * 64) as u32, batch.pools, 1]
    }
}

/// CPU reference.
pub fn reference(batch: &Batch, width: usize, x: &[f32], sums: &mut [f32]) {
    let stride = row_stride(width);
    for i in 0..batch.pools as usize {
        let &[first, rows, slot, begins] = batch.pool(i) else {
            unreachable!("a pool has POOL_WORDS words");
        };
        let sum = &mut sums[slot as usize * stride..][..stride];
        if begins == 1 {
            sum.fill(0.0);
        }
        for row in x.chunks_exact(stride).skip(first as usize).take(rows as usize) {
            for (sum, x) in sum.iter_mut().zip(row) {
                *sum += x;
            }
        }
    }
}

/// A sum scaled to L2 norm 1, which equals the scaled mean. A zero vector stays zero.
pub fn unit(sum: &[f32]) -> Vec<f32> {
    let square: f64 = sum.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
    let length = if square > 0.0 { square.sqrt() } else { 1.0 };
    sum.iter().map(|v| (f64::from(*v) / length) as f32).collect()
}
