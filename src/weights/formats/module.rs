//! Plans the tensors of a module with a quantised matrix.

use crate::error::{Error, Result};
use crate::layout::{FloatType, Grid, Number};
use crate::model::{Param, Slice};
use crate::weights::header::{Dtype, Elements};
use crate::weights::jobs::{Jobs, Place, expect_float, has_shape, sliced, wrong};
use crate::weights::order::OrderJob;
use crate::weights::sink::{Encoding, RepackJob};

/// A module with a quantised matrix, and the rows of a weight that it fills.
pub(in crate::weights) struct Module<'p, 'a> {
    pub jobs: &'p mut Jobs<'a>,
    /// For example `model.layers.0.self_attn.q_proj`.
    pub name: &'p str,
    pub param: Param,
    pub first_row: usize,
    pub rows: usize,
    /// Columns.
    pub k: usize,
    pub interleaved: Option<usize>,
    /// The module's part of each tensor.
    pub slice: Option<Slice>,
}

impl<'a> Module<'_, 'a> {
    pub fn tensor_name(&self, tensor: &str) -> String {
        // Experts of gpt-oss have no modules of their own.
        let dot = if matches!(tensor, "_blocks" | "_scales") { "" } else { "." };
        format!("{}{dot}{tensor}", self.name)
    }

    pub fn find(&self, tensor: &str) -> Option<Place<'a>> {
        self.jobs.find(&self.tensor_name(tensor))
    }

    pub fn get(&self, tensor: &str) -> Result<Place<'a>> {
        self.jobs.get(&self.tensor_name(tensor))
    }

    /// Plans a tensor; its elements must be one of `dtypes`.
    pub fn take(
        &mut self,
        tensor: &str,
        dtypes: &[Dtype],
        shape: &[usize],
        encoding: Encoding,
        columns: usize,
    ) -> Result<()> {
        let place = self.expect(tensor, dtypes, shape)?;
        // Rows must end on whole words.
        let unit = match encoding {
            Encoding::Bytes { .. } => 4,
            Encoding::Nibbles(_) if place.0.elements != Elements::Plain(Dtype::I32) => 8,
            Encoding::NibblesOfTwo { .. } => 4,
            _ => 1,
        };
        match columns.is_multiple_of(unit) {
            true => self.add(place, encoding, columns),
            false => Err(wrong(place.0, &format!("rows of a multiple of {unit} columns"), shape)),
        }
    }

    /// Finds a tensor; its elements must be one of `dtypes`.
    pub fn expect(&self, tensor: &str, dtypes: &[Dtype], shape: &[usize]) -> Result<Place<'a>> {
        let place = self.get(tensor)?;
        let shape = &sliced(self.slice, shape)[..];
        let dtype = dtypes.iter().any(|dtype| place.0.elements == Elements::Plain(*dtype));
        if !dtype || !has_shape(place.0, shape) {
            let names: Vec<_> = dtypes.iter().map(Dtype::to_string).collect();
            return Err(wrong(place.0, &names.join(" or "), shape));
        }
        Ok(place)
    }

    /// Plans a tensor of floats; `encoding` gets their type.
    pub fn take_floats(
        &mut self,
        tensor: &str,
        shape: &[usize],
        encoding: impl Fn(FloatType) -> Encoding,
        columns: usize,
    ) -> Result<()> {
        let place = self.get(tensor)?;
        let float = expect_float(place.0, &sliced(self.slice, shape))?;
        self.add(place, encoding(float), columns)
    }

    pub fn add(&mut self, place: Place<'a>, encoding: Encoding, columns: usize) -> Result<()> {
        self.jobs.add(place, self.job(encoding, columns))
    }

    /// Plans the tensor with the group of each column.
    pub fn take_order(&mut self, tensor: &str, group: usize) -> Result<()> {
        let &mut Module { param, first_row, rows, k: columns, .. } = self;
        let place = self.expect(tensor, &[Dtype::I32], &[columns])?;
        // An expert's product takes the same columns as those of all others.
        if param.is_of_experts() {
            return Err(Error::WrongTensor {
                name: place.0.name.clone(),
                found: "an order of an expert's columns".into(),
                expected: "none: it is not supported".into(),
            });
        }
        self.jobs.add_order(place, OrderJob { param, first_row, rows, columns, group });
        Ok(())
    }

    pub fn job(&self, encoding: Encoding, columns: usize) -> RepackJob {
        let &Module { param, first_row, rows, interleaved, .. } = self;
        let first_column = 0;
        RepackJob { param, encoding, first_row, rows, first_column, columns, interleaved }
    }

    /// Derives the groups from the shape of a tensor; its dimension `axis` is the number of stored
    /// values per row.
    pub fn groups(&self, tensor: &str, axis: usize) -> Result<Groups> {
        let (info, ..) = self.get(tensor)?;
        let axis = axis + usize::from(self.slice.is_some());
        let stored = info.shape.get(axis).and_then(|n| usize::try_from(*n).ok()).unwrap_or(0);
        let sizes = [32, 64, 128, 256, 512, 1024];
        let size = sizes.into_iter().find(|size| self.k.div_ceil(*size) == stored);
        let size = size.or((stored == 1).then_some(self.k.next_multiple_of(128)));
        let size = size.ok_or_else(|| Error::WrongTensor {
            name: info.name.clone(),
            found: format!("{} {:?}", info.elements, info.shape),
            expected: format!("one number per 32, 64 or a multiple of 128 of {} columns", self.k),
        })?;
        Ok(Groups { stored, layout: size.min(128), size, each: size.div_ceil(128) })
    }
}

/// How many columns share a stored value.
#[derive(Clone, Copy)]
pub(in crate::weights) struct Groups {
    /// Stored values per row.
    pub stored: usize,
    /// Columns per group of the layout.
    pub layout: usize,
    /// Columns per stored value.
    pub size: usize,
    /// Groups of the layout per stored value.
    pub each: usize,
}

impl Groups {
    /// `[rows][stored]`, or `[stored][rows]` if `transposed`.
    pub fn grid(self, transposed: bool) -> Grid {
        Grid { transposed, rows: 1, groups: self.each }
    }
}

/// Scales whose mins or zero points follow.
pub(super) fn scales(grid: Grid) -> impl Fn(FloatType) -> Encoding {
    move |float| Encoding::Scales { number: Number::Float(float), grid, zero: None }
}

/// Scales of codes with this zero point.
pub(super) fn scales_around(zero: u32, grid: Grid) -> impl Fn(FloatType) -> Encoding {
    move |float| Encoding::Scales { number: Number::Float(float), grid, zero: Some(zero) }
}
