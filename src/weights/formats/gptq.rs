//! GPTQ as AutoGPTQ and GPTQModel write it: <https://github.com/ModelCloud/GPTQModel>.
//!
//! `qweight` is `[k / 8][n]`, `scales` is `[k / g][n]` and `qzeros` is `[k / g][n / 8]`; w = (q −
//! z)·scale. With 8 bits the 8 here is 4, and z is 128; modules may differ in this. The first version of the format stores z − 1,
//! except in some symmetric files, where z is 8. With act-order, `g_idx`, `[k]`, is the group of each
//! column, and columns are stored in the order of the activations.

use super::module::{Module, scales, scales_around};
use crate::error::Result;
use crate::layout::{Layout, Packing};
use crate::model::Gptq;
use crate::weights::{Encoding, header::Dtype::I32};

pub(super) fn plan(module: &mut Module, version: Gptq) -> Result<Layout> {
    let Gptq { wraps, symmetric, ordered } = version;
    let (n, k) = (module.rows, module.k);
    let word_rows = module.get("qweight")?.0.shape.first().copied();
    let bytes = symmetric && !ordered && word_rows == Some(k.div_ceil(4) as u64);
    let groups = module.groups("scales", 0)?;
    let grid = groups.grid(true);
    if bytes {
        let codes = Encoding::Bytes { unsigned: true, transposed: true };
        module.take("qweight", &[I32], &[k.div_ceil(4), n], codes, k)?;
        let shape = [groups.stored, n];
        module.take_floats("scales", &shape, scales_around(0, grid), groups.stored)?;
        return Ok(Layout::W8 { group: groups.layout });
    }
    let codes = Encoding::Nibbles(Packing::Transposed);
    module.take("qweight", &[I32], &[k.div_ceil(8), n], codes, k)?;
    let shape = [groups.stored, n];
    if symmetric {
        module.take_floats("scales", &shape, scales_around(8, grid), groups.stored)?;
    } else {
        module.take_floats("scales", &shape, scales(grid), groups.stored)?;
        let zeros = Encoding::ZeroPoints { packing: Packing::Columns, grid, wraps };
        let shape = [groups.stored, n.div_ceil(8)];
        module.take("qzeros", &[I32], &shape, zeros, groups.stored)?;
    }
    if ordered && groups.stored > 1 {
        module.take_order("g_idx", groups.size)?;
    }
    Ok(Layout::W4 { group: groups.layout })
}
