//! HQQ with groups along the columns (axis 1), 4 bits: <https://github.com/dropbox/hqq>.
//!
//! `W_q` holds n·k / 2 bytes, the first half of all weights in the high nibbles; `scale` and `zero`
//! are `[n·k / g][1]`; w = (q − zero)·scale.

use super::module::{Module, scales};
use crate::error::{Error, Result};
use crate::layout::{Grid, Layout};
use crate::weights::{Encoding, header::Dtype::U8};

pub(super) fn plan(module: &mut Module) -> Result<Layout> {
    let (n, k) = (module.rows, module.k);
    let (codes, ..) = module.get("W_q")?;
    let stored = codes.shape.first().map_or(0, |rows| *rows as usize);
    let fits = |group: &usize| k.is_multiple_of(*group) && stored == n / 2 * (k / group);
    let group = [32, 64, 128].into_iter().find(fits).filter(|_| n.is_multiple_of(2));
    let group = group.ok_or_else(|| Error::WrongTensor {
        name: codes.name.clone(),
        found: format!("{} {:?}", codes.elements, codes.shape),
        expected: format!("the halves of {n} rows of {k} in groups of 32, 64 or 128"),
    })?;
    let (all, distance) = (module.rows, n / 2);
    module.rows = distance;
    let halves = Encoding::NibblesOfTwo { distance };
    module.take("W_q", &[U8], &[stored, group], halves, k)?;
    module.rows = all;
    let (groups, grid) = (k / group, Grid::EACH);
    module.take_floats("scale", &[n * groups, 1], scales(grid), groups)?;
    let zeros = |float| Encoding::ZeroNumbers { float, grid };
    module.take_floats("zero", &[n * groups, 1], zeros, groups)?;
    Ok(Layout::W4 { group })
}
