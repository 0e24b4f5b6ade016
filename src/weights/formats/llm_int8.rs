//! LLM.int8() of bitsandbytes: <https://github.com/bitsandbytes-foundation/bitsandbytes>.
//!
//! `weight` is `[n][k]` signed bytes and `SCB` is `[n]`, the largest magnitude of each row; w =
//! weight·SCB / 127.

use super::module::Module;
use crate::error::Result;
use crate::layout::{FloatType, Grid, Layout, Number};
use crate::weights::Encoding;
use crate::weights::header::Dtype::{F32, I8};

const GROUP: usize = 128;

pub(super) fn plan(module: &mut Module) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let codes = Encoding::Bytes { unsigned: false, transposed: false };
    module.take("weight", &[I8], &[n, k], codes, k)?;
    let grid = Grid { transposed: false, rows: 1, groups: k.div_ceil(GROUP) };
    let number = Number::Float127(FloatType::F32);
    let scales = Encoding::Scales { number, grid, zero: Some(0) };
    module.take("SCB", &[F32], &[n], scales, 1)?;
    Ok(Layout::W8 { group: GROUP })
}
