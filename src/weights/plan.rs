//! Which tensor of a checkpoint fills which part of which weight, decided and checked before anything is allocated.

use super::safetensors::{Dtype, Header, TensorInfo};
use super::sink::{Encoding, FloatType, RepackJob, Weight};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::model::params::ParamSource;
use crate::model::{ModelConfig, Param, ParamSpec, Quantization, Shape};
use std::collections::HashMap;

/// What becomes of floating-point matrices while they load: another layout, or `None` to keep them as they are.
///
/// Matrices that are quantised in the checkpoint keep their values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantise {
    /// Matrices of the layers.
    pub matrices: Option<Layout>,
    /// The embedding matrix and the output matrix.
    pub embeddings: Option<Layout>,
}

impl Quantise {
    /// Every matrix as it is in the checkpoint.
    pub const KEEP: Quantise = Quantise { matrices: None, embeddings: None };

    fn layout(&self, param: Param) -> Option<Layout> {
        match param {
            Param::Embed | Param::Head => self.embeddings,
            _ => self.matrices,
        }
    }
}

/// How a checkpoint becomes the weights of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPlan {
    /// Every weight, to be allocated.
    pub weights: Vec<Weight>,
    /// What each tensor of each file fills, `None` if nothing: `[file][tensor]`, in the order of
    /// the headers. A job is the whole tensor's.
    pub jobs: Vec<Vec<Option<RepackJob>>>,
}

impl LoadPlan {
    /// Plans how the files with these headers fill the model.
    ///
    /// Names and shapes follow from the configuration; tensors it does not call for are left out.
    pub fn new(
        config: &ModelConfig,
        quantization: Option<Quantization>,
        quantise: &Quantise,
        headers: &[&Header],
    ) -> Result<LoadPlan> {
        let mut planner = Planner {
            tensors: tensors_by_name(headers)?,
            quantization,
            quantise,
            jobs: headers.iter().map(|header| vec![None; header.tensors.len()]).collect(),
        };
        let weights = config.params().into_iter().map(|spec| planner.weight(&spec));
        Ok(LoadPlan { weights: weights.collect::<Result<_>>()?, jobs: planner.jobs })
    }

    /// Bytes of all weights together.
    pub fn bytes(&self) -> u64 {
        self.weights.iter().map(Weight::bytes).sum()
    }
}

/// A tensor and its place: file, index in the file.
type Place<'a> = (&'a TensorInfo, usize, usize);

fn tensors_by_name<'a>(headers: &[&'a Header]) -> Result<HashMap<&'a str, Place<'a>>> {
    let mut tensors = HashMap::new();
    for (file, header) in headers.iter().enumerate() {
        for (index, tensor) in header.tensors.iter().enumerate() {
            if tensors.insert(tensor.name.as_str(), (tensor, file, index)).is_some() {
                return Err(Error::Malformed {
                    what: "the checkpoint".into(),
                    expected: "set of shards".into(),
                    found: format!("two shards hold the tensor {:?}", tensor.name),
                });
            }
        }
    }
    Ok(tensors)
}

struct Planner<'a> {
    tensors: HashMap<&'a str, Place<'a>>,
    quantization: Option<Quantization>,
    quantise: &'a Quantise,
    jobs: Vec<Vec<Option<RepackJob>>>,
}

impl<'a> Planner<'a> {
    fn weight(&mut self, spec: &ParamSpec) -> Result<Weight> {
        let mut joined: Option<(Layout, &str)> = None;
        let mut first_row = 0;
        for source in &spec.sources {
            let layout = self.source(spec, source, first_row)?;
            if let Some((expected, name)) = joined.filter(|(expected, _)| *expected != layout) {
                return Err(Error::WrongTensor {
                    name: source.name.clone(),
                    found: format!("{layout:?}"),
                    expected: format!("{expected:?} like {name:?}, with which it is joined"),
                });
            }
            joined = Some((layout, &source.name));
            first_row += source.rows;
        }
        let layout = joined.map_or(Layout::F32, |(layout, _)| layout);
        Ok(Weight { param: spec.param, shape: spec.shape, layout })
    }

    /// Plans one module's rows of a weight; returns the layout they will have.
    fn source(
        &mut self,
        spec: &ParamSpec,
        source: &ParamSource,
        first_row: usize,
    ) -> Result<Layout> {
        let rows = source.rows;
        let job =
            |encoding, columns| RepackJob { param: spec.param, encoding, first_row, rows, columns };
        if let Some(place) = self.find(&source.name) {
            return match spec.shape {
                Shape::Vector { .. } => {
                    let float = expect_float(place.0, &[rows])?;
                    self.add(place, job(Encoding::Float(float), 1));
                    Ok(Layout::F32)
                }
                Shape::Matrix { k, .. } => {
                    let float = expect_float(place.0, &[rows, k])?;
                    self.add(place, job(Encoding::Float(float), k));
                    Ok(self.quantise.layout(spec.param).unwrap_or(float.layout()))
                }
            };
        }

        let missing = || Error::MissingTensor { name: source.name.clone() };
        let Shape::Matrix { k, .. } = spec.shape else { return Err(missing()) };
        let packed = self.find(&format!("{}_packed", source.name)).ok_or_else(missing)?;
        let quantization = self.quantization.ok_or_else(|| Error::InvalidConfig {
            file: "config.json".into(),
            field: "quantization_config".into(),
            found: "missing".into(),
            expected: format!("a description of the quantised tensor {:?}", packed.0.name),
        })?;
        if let Some((order, ..)) = self.find(&format!("{}_g_idx", source.name)) {
            return Err(Error::WrongTensor {
                name: order.name.clone(),
                found: "there".into(),
                expected: "absent: columns in another order are not supported".into(),
            });
        }
        let groups = quantization.group.map_or(1, |group| k.div_ceil(group));
        let Quantization { symmetric, .. } = quantization;

        expect(packed.0, &[Dtype::I32], &[rows, k.div_ceil(8)])?;
        self.add(packed, job(Encoding::Nibbles, k));
        let scales = self.get(&format!("{}_scale", source.name))?;
        let float = expect_float(scales.0, &[rows, groups])?;
        self.add(scales, job(Encoding::Scales { float, symmetric }, groups));
        if !symmetric {
            let zeros = self.get(&format!("{}_zero_point", source.name))?;
            expect(zeros.0, &[Dtype::I32], &[rows.div_ceil(8), groups])?;
            self.add(zeros, job(Encoding::ZeroPoints, groups));
        }
        Ok(Layout::W4 { group: quantization.group.unwrap_or(128) })
    }

    /// Finds a tensor; base models are saved without the prefix `model.`.
    fn find(&self, name: &str) -> Option<Place<'a>> {
        let short = || self.tensors.get(name.strip_prefix("model.")?);
        self.tensors.get(name).or_else(short).copied()
    }

    fn get(&self, name: &str) -> Result<Place<'a>> {
        self.find(name).ok_or_else(|| Error::MissingTensor { name: name.into() })
    }

    fn add(&mut self, (_, file, index): Place<'a>, job: RepackJob) {
        self.jobs[file][index] = Some(job);
    }
}

fn expect_float(tensor: &TensorInfo, shape: &[usize]) -> Result<FloatType> {
    expect(tensor, &[Dtype::F32, Dtype::F16, Dtype::Bf16], shape)?;
    Ok(match tensor.dtype {
        Dtype::F32 => FloatType::F32,
        Dtype::F16 => FloatType::F16,
        _ => FloatType::Bf16,
    })
}

fn expect(tensor: &TensorInfo, dtypes: &[Dtype], shape: &[usize]) -> Result<()> {
    let same_shape = tensor.shape.iter().copied().eq(shape.iter().map(|n| *n as u64));
    if dtypes.contains(&tensor.dtype) && same_shape {
        return Ok(());
    }
    let names: Vec<String> = dtypes.iter().map(Dtype::to_string).collect();
    Err(Error::WrongTensor {
        name: tensor.name.clone(),
        found: format!("{} {:?}", tensor.dtype, tensor.shape),
        expected: format!("{} {shape:?}", names.join(" or ")),
    })
}
