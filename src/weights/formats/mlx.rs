//! MLX, affine, 4 and 8 bits: <https://github.com/ml-explore/mlx>.
//!
//! `weight` is `[n][k·bits / 32]`, unsigned codes from the lowest bits up; `scales` and `biases` are
//! `[n][k / g]`; w = q·scale + bias.

use super::module::{Module, scales};
use crate::error::Result;
use crate::layout::{Layout, Packing};
use crate::weights::{Encoding, header::Dtype::U32};

pub(super) fn plan(module: &mut Module) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let groups = module.groups("scales", 1)?;
    let group = groups.layout;
    let bytes = module.get("weight")?.0.shape.last() == Some(&(k.div_ceil(4) as u64));
    let (codes, words, layout) = match bytes {
        true => (
            Encoding::Bytes { unsigned: true, transposed: false },
            k.div_ceil(4),
            Layout::W8 { group },
        ),
        false => (Encoding::Nibbles(Packing::Rows), k.div_ceil(8), Layout::W4 { group }),
    };
    module.take("weight", &[U32], &[n, words], codes, k)?;
    let shift = if bytes { 128 } else { 0 };
    let grid = groups.grid(false);
    let shape = [n, groups.stored];
    module.take_floats("scales", &shape, scales(grid), groups.stored)?;
    let mins = |float| Encoding::Mins { float, grid, shift };
    module.take_floats("biases", &shape, mins, groups.stored)?;
    Ok(layout)
}
