//! GPTQ as AutoGPTQ and GPTQModel write it: <https://github.com/ModelCloud/GPTQModel>.
//!
//! `qweight` is `[k / 8][n]`, `scales` is `[k / g][n]` and `qzeros` is `[k / g][n / 8]`;
//! w = (q − z)·scale. The first version of the format stores z − 1; of symmetric files, where z is 8,
//! not all do.

use super::{Module, scales, scales_around};
use crate::error::Result;
use crate::layout::{Layout, Packing};
use crate::weights::Encoding;
use crate::weights::safetensors::Dtype::I32;

pub(super) fn plan(module: &mut Module, wraps: bool, symmetric: bool) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let groups = module.groups("scales", 0)?;
    let grid = groups.grid(true);
    let codes = Encoding::Nibbles(Packing::Transposed);
    module.take("qweight", &[I32], &[k.div_ceil(8), n], codes, k)?;
    let shape = [groups.stored, n];
    if symmetric {
        module.take_floats("scales", &shape, scales_around(8, grid), groups.stored)?;
        return Ok(Layout::W4 { group: groups.layout });
    }
    module.take_floats("scales", &shape, scales(grid), groups.stored)?;
    let zeros = Encoding::ZeroPoints { packing: Packing::Columns, grid, wraps };
    module.take("qzeros", &[I32], &[groups.stored, n.div_ceil(8)], zeros, groups.stored)?;
    Ok(Layout::W4 { group: groups.layout })
}
