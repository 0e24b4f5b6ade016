//! E4M3 floats with scales: one per 128 by 128 weights, as DeepSeek and Qwen publish them, or one per
//! row or per matrix.
//!
//! `weight` is `[n][k]`; w = weight·scale, even where the scale is called `weight_scale_inv`.

use super::module::{Module, scales_around};
use crate::error::Result;
use crate::layout::{Grid, Layout};
use crate::weights::{Encoding, header::Dtype::F8E4m3};

/// Rows and columns per scale.
const BLOCK: usize = 128;

pub(super) fn plan(module: &mut Module) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let codes = Encoding::Bytes { unsigned: false, transposed: false };
    module.take("weight", &[F8E4m3], &[n, k], codes, k)?;
    let by_blocks = module.find("weight_scale_inv").is_some();
    let scale = if by_blocks { "weight_scale_inv" } else { "weight_scale" };
    let (info, ..) = module.get(scale)?;
    let whole_row = k.div_ceil(BLOCK);
    let is_row = |count: u64| count == n as u64;
    let (shape, rows, groups, columns) = match info.shape[..] {
        [] => (vec![], n, whole_row, 1),
        [1] => (vec![1], n, whole_row, 1),
        [count] if is_row(count) => (vec![n], 1, whole_row, 1),
        [count, 1] if is_row(count) => (vec![n, 1], 1, whole_row, 1),
        _ => (vec![n.div_ceil(BLOCK), whole_row], BLOCK, 1, whole_row),
    };
    let grid = Grid { transposed: false, rows, groups };
    module.take_floats(scale, &shape, scales_around(0, grid), columns)?;
    Ok(Layout::F8 { group: BLOCK })
}
