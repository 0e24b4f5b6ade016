//! NF4 and FP4 of bitsandbytes: <https://github.com/bitsandbytes-foundation/bitsandbytes>.
//!
//! `weight` is `[n·k / 2][1]` bytes, the first of two columns in the high nibble; w = codebook\[q\]·
//! scale. `weight.absmax` holds the scales of all runs of 64 or more columns, as f32 or, with double
//! quantisation, as codes; see `nested`.

use super::module::Module;
use crate::error::{Error, Result};
use crate::layout::{Codebook, FloatType, Grid, Layout, Number, Packing};
use crate::weights::Encoding;
use crate::weights::header::Dtype::{F32, U8};
use crate::weights::header::Elements;
use crate::weights::nested::{BLOCK, NestedPart};

const GROUP: usize = 64;
/// Limit for the description's length.
const LONGEST_STATE: u64 = 1 << 16;

pub(super) fn plan(module: &mut Module) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let state = |kind| format!("weight.quant_state.bitsandbytes__{kind}");
    let (codebook, state) = match module.find(&state("fp4")) {
        Some(_) => (Codebook::Float4, state("fp4")),
        None => (Codebook::NormalFloat, state("nf4")),
    };
    let codes = Encoding::Nibbles(Packing::HighFirst);
    module.take("weight", &[U8], &[(n * k).div_ceil(2), 1], codes, k)?;

    let (absmax, ..) = module.get("weight.absmax")?;
    let stored = absmax.shape.first().map_or(0, |count| *count as usize);
    // A run of columns that share a scale must not cross rows.
    let sizes = [1, 2, 4, 8, 16, 32, 64].map(|groups| groups * GROUP);
    let fits = |size: &usize| k.is_multiple_of(*size) && n * (k / size) == stored;
    let size = sizes.into_iter().find(fits).ok_or_else(|| Error::WrongTensor {
        name: absmax.name.clone(),
        found: format!("{} {:?}", absmax.elements, absmax.shape),
        expected: format!("a scale for each 64 or more columns of rows of {k}"),
    })?;
    let grid = Grid { groups: size / GROUP, ..Grid::EACH };
    let scales = Encoding::Scales { number: Number::Float(FloatType::F32), grid, zero: None };
    let columns = k / size;
    if absmax.elements == Elements::Plain(F32) {
        module.take("weight.absmax", &[F32], &[stored], scales, columns)?;
    } else {
        let job = module.job(scales, columns);
        let index = module.jobs.add_nested(job);
        let state_bytes = module.get(&state)?.0.bytes.min(LONGEST_STATE) as usize;
        for (name, dtype, length, part) in [
            ("weight.absmax", U8, stored, NestedPart::Codes),
            ("weight.nested_quant_map", F32, BLOCK, NestedPart::Map),
            ("weight.nested_absmax", F32, stored.div_ceil(BLOCK), NestedPart::Factors),
            (&state, U8, state_bytes, NestedPart::State),
        ] {
            let place = module.expect(name, &[dtype], &[length])?;
            module.jobs.add_nested_part(place, part, index)?;
        }
    }
    Ok(Layout::Codebook { codebook, group: GROUP })
}
