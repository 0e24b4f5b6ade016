//! Shifts rows that start behind unverified drafts.

use minijinja::context;

use super::{
    Batch, Bindings,
    batch::{ACCEPTED, SLOT_TOKENS},
};
use crate::gpu::Shader;

/// Moves each sequence with [`crate::step::SeqPlan::unverified`] drafts forward by the number of
/// accepted ones, in each of several consecutive batches.
///
/// It has to run before the step's [`super::Accept`], which overwrites that number. The result equals
/// the [`Batch::encode`] of [`crate::step::StepPlan::resolved`].
///
/// Bindings: words (in and out) `[batches][stride]`, each those of a [`Batch`], last samples
/// `[slots][SLOT_TOKENS]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// Words from one batch to the next.
    pub stride: usize,
}

impl Shift {
    /// Threads of a workgroup, one per sequence of a batch.
    const THREADS: u32 = 32;

    /// CPU reference, for one batch.
    pub fn reference(batch: &mut Batch, last_samples: &[u32]) {
        for i in 0..batch.shifts as usize {
            let [slot, row, rows, sample, samples, most] = batch.shift(i);
            let accepted = last_samples[(slot * SLOT_TOKENS + ACCEPTED) as usize].min(most);
            for row in row..row + rows {
                batch.row_mut(row as usize)[1] += accepted;
            }
            for sample in sample..sample + samples {
                batch.sample_mut(sample as usize)[2] += accepted;
            }
        }
    }

    /// Renders the shader.
    pub fn shader(&self) -> Shader {
        let values = context! {
            stride => self.stride,
            threads => Shift::THREADS,
            slot_tokens => SLOT_TOKENS,
            accepted_at => ACCEPTED,
        };
        let bindings = Bindings::default().write("words").and("last_samples", true);
        Shader::render("shift", values, bindings.access())
    }

    /// Workgroups for this many batches, none of which has more shifts than this one.
    pub fn grid(batch: &Batch, batches: usize) -> [u32; 3] {
        [batch.shifts.div_ceil(Shift::THREADS), batches as u32, 1]
    }
}
