//! Quantised matrices in checkpoints: the tensors of a module, and their encodings.
//!
//! One file per format. Group sizes follow from the shapes of scales, so modules of a checkpoint may
//! differ.

mod awq;
mod compressed_tensors;
mod float8;
mod gptq;
mod hqq;
mod llm_int8;
mod mlx;
mod mxfp4;
mod nf4;
mod torchao;

use super::header::Elements;
use super::order::OrderJob;
use super::plan::{Place, Planner, expect_float, has_shape, sliced, wrong};
use super::safetensors::Dtype;
use super::sink::{Encoding, RepackJob};
use crate::error::{Error, Result};
use crate::layout::{FloatType, Grid, Layout, Number};
use crate::model::{Param, Quantization, Slice};

/// A module with a quantised matrix, and the rows of a weight that it fills.
pub(super) struct Module<'p, 'a> {
    pub planner: &'p mut Planner<'a>,
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
    /// Plans the module's tensors; returns the layout that keeps its values.
    pub fn plan(&mut self, quantization: Option<Quantization>) -> Result<Layout> {
        match quantization {
            None => self.plan_unknown(),
            Some(Quantization::CompressedTensors(scheme)) => compressed_tensors::plan(self, scheme),
            Some(Quantization::AwqGemm) => awq::plan_gemm(self),
            Some(Quantization::AwqGemv { group }) => awq::plan_gemv(self, group),
            Some(Quantization::Gptq(version)) => gptq::plan(self, version),
            Some(Quantization::Mlx) => mlx::plan(self),
            Some(Quantization::Mxfp4) => mxfp4::plan(self),
            Some(Quantization::Float8) => float8::plan(self),
            Some(Quantization::LlmInt8) => llm_int8::plan(self),
            Some(Quantization::Nf4) => nf4::plan(self),
            Some(Quantization::Hqq) => hqq::plan(self),
            Some(Quantization::TorchAo) => torchao::plan(self),
        }
    }

    /// Without a description of the format, only what is missing can be reported.
    fn plan_unknown(&mut self) -> Result<Layout> {
        let packed = ["weight_packed", "qweight", "scales", "_scales"];
        match packed.into_iter().find_map(|tensor| self.find(tensor)) {
            None => Err(Error::MissingTensor { name: self.tensor_name("weight") }),
            Some((tensor, ..)) => Err(Error::InvalidConfig {
                file: "config.json".into(),
                field: "quantization_config".into(),
                found: "missing".into(),
                expected: format!("a description of the quantised tensor {:?}", tensor.name),
            }),
        }
    }

    fn tensor_name(&self, tensor: &str) -> String {
        // Experts of gpt-oss have no modules of their own.
        let dot = if matches!(tensor, "_blocks" | "_scales") { "" } else { "." };
        format!("{}{dot}{tensor}", self.name)
    }

    fn find(&self, tensor: &str) -> Option<Place<'a>> {
        self.planner.find(&self.tensor_name(tensor))
    }

    fn get(&self, tensor: &str) -> Result<Place<'a>> {
        self.planner.get(&self.tensor_name(tensor))
    }

    /// Plans a tensor; its elements must be one of `dtypes`.
    fn take(
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
    fn expect(&self, tensor: &str, dtypes: &[Dtype], shape: &[usize]) -> Result<Place<'a>> {
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
    fn take_floats(
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

    fn add(&mut self, place: Place<'a>, encoding: Encoding, columns: usize) -> Result<()> {
        self.planner.add(place, self.job(encoding, columns))
    }

    /// Plans the tensor with the group of each column.
    fn take_order(&mut self, tensor: &str, group: usize) -> Result<()> {
        let &mut Module { param, k: columns, .. } = self;
        let place = self.expect(tensor, &[Dtype::I32], &[columns])?;
        self.planner.add_order(place, OrderJob { param, columns, group });
        Ok(())
    }

    fn job(&self, encoding: Encoding, columns: usize) -> RepackJob {
        let &Module { param, first_row, rows, interleaved, .. } = self;
        let first_column = 0;
        RepackJob { param, encoding, first_row, rows, first_column, columns, interleaved }
    }

    /// Derives the groups from the shape of a tensor; its dimension `axis` is the number of stored
    /// values per row.
    fn groups(&self, tensor: &str, axis: usize) -> Result<Groups> {
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
struct Groups {
    /// Stored values per row.
    stored: usize,
    /// Columns per group of the layout.
    layout: usize,
    /// Columns per stored value.
    size: usize,
    /// Groups of the layout per stored value.
    each: usize,
}

impl Groups {
    /// `[rows][stored]`, or `[stored][rows]` if `transposed`.
    fn grid(self, transposed: bool) -> Grid {
        Grid { transposed, rows: 1, groups: self.each }
    }
}

/// Scales whose mins or zero points follow.
fn scales(grid: Grid) -> impl Fn(FloatType) -> Encoding {
    move |float| Encoding::Scales { number: Number::Float(float), grid, zero: None }
}

/// Scales of codes with this zero point.
fn scales_around(zero: u32, grid: Grid) -> impl Fn(FloatType) -> Encoding {
    move |float| Encoding::Scales { number: Number::Float(float), grid, zero: Some(zero) }
}
