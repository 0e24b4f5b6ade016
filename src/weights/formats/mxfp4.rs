//! MXFP4 of gpt-oss: <https://huggingface.co/openai/gpt-oss-20b>.
//!
//! `…_blocks` is `[n][k / 32][16]`, two elements a byte, the first in the low nibble; `…_scales` is
//! `[n][k / 32]`, exponents of powers of two.

use super::module::Module;
use crate::error::Result;
use crate::layout::{Codebook, Grid, Layout, Number, Packing};
use crate::weights::{Encoding, header::Dtype::U8};

pub(super) fn plan(module: &mut Module) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let blocks = k.div_ceil(32);
    let codes = Encoding::Nibbles(Packing::Rows);
    module.take("_blocks", &[U8], &[n, blocks, 16], codes, 32 * blocks)?;
    let scales = Encoding::Scales { number: Number::Exponent, grid: Grid::EACH, zero: None };
    module.take("_scales", &[U8], &[n, blocks], scales, blocks)?;
    Ok(Layout::Codebook { codebook: Codebook::E2m1, group: 32 })
}
