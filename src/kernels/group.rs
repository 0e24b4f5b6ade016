//! Groups the choices of a step by expert, so that an expert's weights are read only a few times.

use minijinja::context;

use super::{Batch, Bindings, Kernel, Tuning, matmul::TILE};
use crate::gpu::Shader;

/// Sorts the choices of [`super::Route`] by expert and cuts them into tiles for [`super::Matmul`].
///
/// Bindings in order: step, routes, groups (out): the numbers of all choices, `row·active + place`,
/// sorted by expert; then [`Group::tiles`] of (expert, first choice, number of choices).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    pub experts: usize,
    pub active: usize,
}

impl Group {
    /// Tiles of a step of this many rows; some may be empty.
    pub const fn tiles(experts: usize, active: usize, rows: usize) -> usize {
        rows * active / TILE as usize + experts
    }

    /// Words of the groups of the largest step.
    pub const fn words(experts: usize, active: usize, rows: usize) -> usize {
        rows * active + 3 * Group::tiles(experts, active, rows)
    }
}

impl Kernel for Group {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "routes"]).write("groups");
        let Group { experts, active } = *self;
        Shader::render("group", context! { experts, active, tile => TILE }, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [self.experts.div_ceil(64) as u32, batch.rows.min(1), 1]
    }
}
