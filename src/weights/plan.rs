//! Which tensor of a checkpoint fills which part of which weight, decided and checked before anything is allocated.

use super::header::{Elements, Header, TensorInfo};
use super::safetensors::Dtype;
use super::sink::{Encoding, FloatType, PIECE_BYTES, RepackJob, Weight};
use crate::error::{Error, Result};
use crate::layout::{BlockType, Layout};
use crate::model::{ModelConfig, Naming, Param, ParamSource, ParamSpec, Quantization, Shape};
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
    /// Names and shapes follow from the configuration. Tensors it does not call for are left out;
    /// of GGUF files, whose names leave no room for others, they are refused.
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
        let weights = weights.collect::<Result<_>>()?;
        if let Naming::Gguf { .. } = config.naming {
            planner.expect_all_used(headers)?;
        }
        Ok(LoadPlan { weights, jobs: planner.jobs })
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
        let mut layout = Layout::F32;
        let mut convertible = true;
        let mut differing = None;
        let mut first_row = 0;
        for (i, source) in spec.sources.iter().enumerate() {
            let fit = self.source(spec, source, first_row)?;
            convertible &= fit.convertible;
            if i == 0 {
                layout = fit.layout;
            } else if fit.layout != layout {
                differing = Some((source, fit.layout));
            }
            first_row += source.rows;
        }
        if let Some((source, found)) = differing {
            let asked = self.quantise.layout(spec.param).filter(|_| convertible);
            layout = asked.ok_or_else(|| Error::WrongTensor {
                name: source.name.clone(),
                found: format!("{found:?}"),
                expected: format!(
                    "{layout:?} like {:?}, with which it is joined",
                    spec.sources[0].name
                ),
            })?;
        }
        Ok(Weight { param: spec.param, shape: spec.shape, layout })
    }

    /// Plans one module's rows of a weight.
    fn source(&mut self, spec: &ParamSpec, source: &ParamSource, first_row: usize) -> Result<Fit> {
        let ParamSource { rows, interleaved, .. } = *source;
        let job = |encoding, columns| RepackJob {
            param: spec.param,
            encoding,
            first_row,
            rows,
            columns,
            interleaved,
        };
        if let Some(place) = self.find(&source.name) {
            return match spec.shape {
                Shape::Vector { .. } => {
                    let float = expect_float(place.0, &[rows])?;
                    let encoding = match spec.less_one {
                        true => Encoding::LessOne(float),
                        false => Encoding::Float(float),
                    };
                    self.add(place, job(encoding, 1))?;
                    Ok(Fit { layout: Layout::F32, convertible: false })
                }
                Shape::Matrix { k, .. } => {
                    let asked = self.quantise.layout(spec.param);
                    let (encoding, layout) = match place.0.elements {
                        Elements::Blocks(block) => {
                            let layout = expect_blocks(place.0, block, &[rows, k], asked)?;
                            (Encoding::Blocks(block), layout)
                        }
                        Elements::Plain(_) => {
                            let float = expect_float(place.0, &[rows, k])?;
                            (Encoding::Float(float), asked.unwrap_or(float.layout()))
                        }
                    };
                    self.add(place, job(encoding, k))?;
                    Ok(Fit { layout, convertible: true })
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

        expect(packed.0, Dtype::I32, &[rows, k.div_ceil(8)])?;
        self.add(packed, job(Encoding::Nibbles, k))?;
        let scales = self.get(&format!("{}_scale", source.name))?;
        let float = expect_float(scales.0, &[rows, groups])?;
        self.add(scales, job(Encoding::Scales { float, symmetric }, groups))?;
        if !symmetric {
            let zeros = self.get(&format!("{}_zero_point", source.name))?;
            expect(zeros.0, Dtype::I32, &[rows.div_ceil(8), groups])?;
            self.add(zeros, job(Encoding::ZeroPoints, groups))?;
        }
        let layout = Layout::W4 { group: quantization.group.unwrap_or(128) };
        Ok(Fit { layout, convertible: false })
    }

    /// Finds a tensor; base models are saved without the prefix `model.`, models that also see images
    /// with another before it.
    fn find(&self, name: &str) -> Option<Place<'a>> {
        let short = || self.tensors.get(name.strip_prefix("model.")?);
        let long = || self.tensors.get(&format!("language_model.{name}")[..]);
        self.tensors.get(name).or_else(short).or_else(long).copied()
    }

    fn get(&self, name: &str) -> Result<Place<'a>> {
        self.find(name).ok_or_else(|| Error::MissingTensor { name: name.into() })
    }

    fn add(&mut self, (tensor, file, index): Place<'a>, job: RepackJob) -> Result<()> {
        let bytes = job.encoding.bytes(job.row_unit(), job.columns);
        if bytes > PIECE_BYTES {
            let what = format!("a head of {:?}", tensor.name);
            return Err(Error::TooLarge { what, bytes, limit: PIECE_BYTES });
        }
        self.jobs[file][index] = Some(job);
        Ok(())
    }

    fn expect_all_used(&self, headers: &[&Header]) -> Result<()> {
        let tensors = headers.iter().flat_map(|header| &header.tensors);
        let unused = tensors.zip(self.jobs.iter().flatten()).find(|(_, job)| job.is_none());
        match unused {
            None => Ok(()),
            Some((tensor, _)) => Err(Error::WrongTensor {
                name: tensor.name.clone(),
                found: "there".into(),
                expected: "absent: this architecture, as far as it is supported, has none".into(),
            }),
        }
    }
}

/// What one module's rows can become.
struct Fit {
    /// What they become by themselves.
    layout: Layout,
    /// They can also become any other.
    convertible: bool,
}

fn expect_float(tensor: &TensorInfo, shape: &[usize]) -> Result<FloatType> {
    let float = tensor.elements.float().filter(|_| has_shape(tensor, shape));
    float.ok_or_else(|| wrong(tensor, "F32 or F16 or BF16", shape))
}

/// The layout that keeps these blocks, else the one that is `asked` for.
fn expect_blocks(
    tensor: &TensorInfo,
    block: BlockType,
    shape: &[usize],
    asked: Option<Layout>,
) -> Result<Layout> {
    let names = |kept: bool| {
        let blocks = BlockType::READABLE.into_iter();
        let names = blocks.filter(|block| !kept || block.layout().is_some());
        let names: Vec<_> = names.map(|block| block.to_string()).collect();
        format!("F32, F16, BF16, {}", names.join(", "))
    };
    if !has_shape(tensor, shape) {
        return Err(wrong(tensor, &block.to_string(), shape));
    }
    if !block.is_readable() {
        return Err(wrong(tensor, &format!("one of {}", names(false)), shape));
    }
    block.layout().or(asked).ok_or_else(|| {
        let expected = format!("one of {}, or a load that quantises,", names(true));
        wrong(tensor, &expected, shape)
    })
}

fn expect(tensor: &TensorInfo, dtype: Dtype, shape: &[usize]) -> Result<()> {
    match tensor.elements == Elements::Plain(dtype) && has_shape(tensor, shape) {
        true => Ok(()),
        false => Err(wrong(tensor, &dtype.to_string(), shape)),
    }
}

fn has_shape(tensor: &TensorInfo, shape: &[usize]) -> bool {
    tensor.shape.iter().copied().eq(shape.iter().map(|n| *n as u64))
}

fn wrong(tensor: &TensorInfo, expected: &str, shape: &[usize]) -> Error {
    Error::WrongTensor {
        name: tensor.name.clone(),
        found: format!("{} {:?}", tensor.elements, tensor.shape),
        expected: format!("{expected} {shape:?}"),
    }
}
