//! AutoAWQ, versions "gemm" and "gemv": <https://github.com/casper-hansen/AutoAWQ>.
//!
//! w = (q − z)·scale. Of "gemm", `qweight` is `[k][n / 8]` and `scales` is `[k / g][n]`, of "gemv"
//! `qweight` is `[n][k / 8]` and `scales` is `[n][8 w]`, where w words hold the zero points of a row
//! and some padding. Without zero points they are 8.

use super::module::{Module, scales, scales_around};
use crate::error::Result;
use crate::layout::{Grid, Layout, Packing};
use crate::weights::{Encoding, header::Dtype::I32};

pub(super) fn plan_gemm(module: &mut Module) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let packing = Packing::AwqColumns;
    let groups = module.groups("scales", 0)?;
    let grid = groups.grid(true);
    module.take("qweight", &[I32], &[k, n.div_ceil(8)], Encoding::Nibbles(packing), k)?;
    let shape = [groups.stored, n];
    match module.find("qzeros") {
        None => module.take_floats("scales", &shape, scales_around(8, grid), groups.stored)?,
        Some(_) => {
            module.take_floats("scales", &shape, scales(grid), groups.stored)?;
            let zeros = Encoding::ZeroPoints { packing, grid, wraps: false };
            let shape = [groups.stored, n.div_ceil(8)];
            module.take("qzeros", &[I32], &shape, zeros, groups.stored)?;
        }
    }
    Ok(Layout::W4 { group: groups.layout })
}

pub(super) fn plan_gemv(module: &mut Module, group: usize) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let packing = Packing::Rows;
    let (zeros, ..) = module.get("qzeros")?;
    let least = k.div_ceil(group).div_ceil(8);
    let words = zeros.shape.last().map_or(0, |words| *words as usize).max(least);
    module.take("qweight", &[I32], &[n, k.div_ceil(8)], Encoding::Nibbles(packing), k)?;
    let stored = words.saturating_mul(8);
    module.take_floats("scales", &[n, stored], scales(Grid::EACH), stored)?;
    let zeros = Encoding::ZeroPoints { packing, grid: Grid::EACH, wraps: false };
    module.take("qzeros", &[I32], &[n, words], zeros, stored)?;
    Ok(Layout::W4 { group })
}
