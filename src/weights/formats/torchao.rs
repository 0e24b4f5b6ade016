//! torchao's `Int4Tensor` in its plain packing: <https://github.com/pytorch/ao>.
//!
//! `_weight_qdata` is `[n][k / 2]` bytes of signed nibbles, the first column low; `_weight_scale` and
//! `_weight_zero_point` are `[k / g][n]`; w = q·scale + zero point.

use super::module::{Module, scales};
use crate::error::Result;
use crate::layout::{Layout, Packing};
use crate::weights::Encoding;
use crate::weights::header::Dtype::{I8, U8};

pub(super) fn plan(module: &mut Module) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let groups = module.groups("_weight_scale", 0)?;
    let grid = groups.grid(true);
    let codes = Encoding::Nibbles(Packing::Signed);
    module.take("_weight_qdata", &[I8, U8], &[n, k.div_ceil(2)], codes, k)?;
    let shape = [groups.stored, n];
    module.take_floats("_weight_scale", &shape, scales(grid), groups.stored)?;
    // The layout's codes are these plus 8.
    let mins = |float| Encoding::Mins { float, grid, shift: -8 };
    module.take_floats("_weight_zero_point", &shape, mins, groups.stored)?;
    Ok(Layout::W4 { group: groups.layout })
}
