//! compressed-tensors: <https://github.com/vllm-project/compressed-tensors>.
//!
//! A checkpoint may have groups of modules in several formats; a module's tensors show which it is in.
//! int4: `weight_packed` is `[n][k / 8]`, `weight_scale` is `[n][k / g]`, and `weight_zero_point`,
//! unless it is 8 everywhere, is `[n / 8][k / g]`; w = (q − z)·scale. int8, packed `[n][k / 4]` or not,
//! and FP8 have `weight_scale` alone. MXFP4 has a scale, the exponent of a power of two, for each 32
//! columns. With act-order `weight_g_idx` is the group of each column.

use super::float8;
use super::module::{Module, scales, scales_around};
use crate::error::Result;
use crate::layout::{Codebook, Grid, Layout, Number, Packing};
use crate::weights::Encoding;
use crate::weights::header::Dtype::{I8, I32, U8};
use crate::weights::header::Elements::Plain;

pub(super) fn plan(module: &mut Module, zero_points: bool) -> Result<Layout> {
    let packed = module.find("weight_packed").map(|(tensor, ..)| tensor);
    let byte_words = Some(module.k.div_ceil(4) as u64);
    match packed {
        Some(tensor) if tensor.elements == Plain(U8) => mxfp4(module),
        Some(tensor) if tensor.shape.last().copied() == byte_words => int8(module),
        Some(_) => int4(module, zero_points),
        None if module.get("weight")?.0.elements == Plain(I8) => int8(module),
        None => float8::plan(module),
    }
}

fn int4(module: &mut Module, zero_points: bool) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let groups = module.groups("weight_scale", 1)?;
    let (grid, stored) = (groups.grid(false), groups.stored);
    let codes = Encoding::Nibbles(Packing::Rows);
    module.take("weight_packed", &[I32], &[n, k.div_ceil(8)], codes, k)?;
    let shape = [n, stored];
    if !zero_points && module.find("weight_zero_point").is_none() {
        module.take_floats("weight_scale", &shape, scales_around(8, grid), stored)?;
    } else {
        module.take_floats("weight_scale", &shape, scales(grid), stored)?;
        let packing = Packing::RowsOfEight;
        let zeros = Encoding::ZeroPoints { packing, grid, wraps: false };
        module.take("weight_zero_point", &[I32], &[n.div_ceil(8), stored], zeros, stored)?;
    }
    if stored > 1 && module.find("weight_g_idx").is_some() {
        module.take_order("weight_g_idx", groups.size)?;
    }
    Ok(Layout::W4 { group: groups.layout })
}

/// Symmetric; bytes as they are, or, packed into words, unsigned.
fn int8(module: &mut Module) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let groups = module.groups("weight_scale", 1)?;
    let grid = groups.grid(false);
    let unsigned = module.find("weight_packed").is_some();
    let codes = Encoding::Bytes { unsigned, transposed: false };
    match unsigned {
        true => module.take("weight_packed", &[I32], &[n, k.div_ceil(4)], codes, k)?,
        false => module.take("weight", &[I8], &[n, k], codes, k)?,
    }
    let shape = [n, groups.stored];
    module.take_floats("weight_scale", &shape, scales_around(0, grid), groups.stored)?;
    Ok(Layout::W8 { group: groups.layout })
}

fn mxfp4(module: &mut Module) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let codes = Encoding::Nibbles(Packing::Rows);
    module.take("weight_packed", &[U8], &[n, k.div_ceil(2)], codes, k)?;
    let (number, grid) = (Number::Exponent, Grid::EACH);
    let scales = Encoding::Scales { number, grid, zero: None };
    module.take("weight_scale", &[U8], &[n, k.div_ceil(32)], scales, k.div_ceil(32))?;
    Ok(Layout::Codebook { codebook: Codebook::E2m1, group: 32 })
}
