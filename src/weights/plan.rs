//! Which tensor of a checkpoint fills which part of which weight, decided and checked before anything is allocated.

use super::formats::Module;
use super::header::{Elements, Header, TensorInfo};
use super::nested::{NestedJob, NestedPart};
use super::order::OrderJob;
use super::sink::{Encoding, PIECE_BYTES, Part, RepackJob, Weight};
use crate::error::{Error, Result};
use crate::layout::{BlockType, FloatType, Layout};
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

    fn check(&self) -> Result<()> {
        let asked = [self.matrices, self.embeddings].into_iter().flatten();
        let kept =
            |layout: &Layout| layout.record().is_some() && layout.quantised_group().is_none();
        match asked.into_iter().find(kept) {
            None => Ok(()),
            Some(layout) => Err(Error::InvalidRequest {
                param: "quantise".into(),
                message: format!("numbers are not quantised to {layout:?}, but to W8 and W4"),
            }),
        }
    }

    fn layout(&self, param: Param) -> Option<Layout> {
        match param {
            Param::Embed | Param::Head => self.embeddings,
            Param::Positions => None,
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
    pub jobs: Vec<Vec<Option<Job>>>,
    /// The scales that have to be put together before they can be repacked.
    pub nested: Vec<RepackJob>,
}

/// What becomes of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Job {
    Repack(RepackJob),
    Nested(NestedJob),
    Order(OrderJob),
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
        quantise.check()?;
        let mut planner = Planner {
            tensors: tensors_by_name(headers)?,
            quantization,
            quantise,
            jobs: headers.iter().map(|header| vec![None; header.tensors.len()]).collect(),
            nested: Vec::new(),
            ordered: HashMap::new(),
        };
        let weights = config.params().into_iter().map(|spec| planner.weight(&spec));
        let weights = weights.collect::<Result<_>>()?;
        if let Naming::Gguf { .. } = config.naming {
            planner.expect_all_used(headers)?;
        }
        Ok(LoadPlan { weights, jobs: planner.jobs, nested: planner.nested })
    }

    /// Bytes of all weights together.
    pub fn bytes(&self) -> u64 {
        self.weights.iter().map(Weight::bytes).sum()
    }
}

/// A tensor and its place: file, index in the file.
pub(super) type Place<'a> = (&'a TensorInfo, usize, usize);

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

pub(super) struct Planner<'a> {
    tensors: HashMap<&'a str, Place<'a>>,
    quantization: Option<Quantization>,
    quantise: &'a Quantise,
    jobs: Vec<Vec<Option<Job>>>,
    nested: Vec<RepackJob>,
    /// Modules of a weight whose columns have an order of their own.
    ordered: HashMap<Param, usize>,
}

impl<'a> Planner<'a> {
    fn weight(&mut self, spec: &ParamSpec) -> Result<Weight> {
        let mut parts: Vec<Part> = Vec::new();
        let mut convertible = true;
        let mut first_row = 0;
        for source in &spec.sources {
            let fit = self.source(spec, source, first_row)?;
            convertible &= fit.convertible;
            first_row += source.rows;
            match parts.last_mut().filter(|part| part.layout == fit.layout) {
                Some(part) => part.rows += source.rows,
                None => parts.push(Part { rows: source.rows, layout: fit.layout }),
            }
        }
        let ordered = self.ordered.get(&spec.param).copied().unwrap_or(0);
        if ![0, spec.sources.len()].contains(&ordered) {
            return Err(Error::WrongTensor {
                name: spec.sources[0].name.clone(),
                found: "joined with modules whose columns have another order".into(),
                expected: "that all of them, or none, have an order of their own".into(),
            });
        }
        // A product that gates takes both its rows from one part.
        if parts.len() > 1 && matches!(spec.param, Param::GateUp(_)) {
            if !convertible {
                return Err(Error::WrongTensor {
                    name: spec.sources[1].name.clone(),
                    found: format!("{:?}", parts[1].layout),
                    expected: format!("{:?} like {:?}", parts[0].layout, spec.sources[0].name),
                });
            }
            let floats = parts.iter().all(|part| part.layout.record().is_none());
            let widest = if floats { Layout::F32 } else { Layout::W8 { group: 32 } };
            let layout = self.quantise.layout(spec.param).unwrap_or(widest);
            parts = vec![Part { rows: first_row, layout }];
        }
        if let Shape::Vector { .. } = spec.shape {
            parts.clear();
        }
        Ok(Weight { param: spec.param, shape: spec.shape, parts })
    }

    /// Plans one module's rows of a weight.
    fn source(&mut self, spec: &ParamSpec, source: &ParamSource, first_row: usize) -> Result<Fit> {
        let ParamSource { rows, interleaved, by_columns, .. } = *source;
        let job = |encoding, columns| RepackJob {
            param: spec.param,
            encoding,
            first_row,
            rows,
            first_column: 0,
            columns,
            interleaved,
        };
        let whole = |place: &Place| match place.0.elements {
            Elements::Blocks(_) => true,
            // Others are codes, which need more tensors.
            elements => elements.float().is_some() || self.quantization.is_none(),
        };
        if let Some(place) = self.find(&source.name).filter(whole) {
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
                            let layout = expect_blocks(place.0, block, &[rows, k])?;
                            (Encoding::Blocks(block), layout)
                        }
                        Elements::Plain(_) if by_columns => {
                            let float = expect_float(place.0, &[k, rows])?;
                            (Encoding::FloatColumns(float), asked.unwrap_or(float.layout()))
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
        let quantization = self.quantization;
        let mut module = Module {
            planner: self,
            name: source.name.strip_suffix(".weight").ok_or_else(missing)?,
            param: spec.param,
            first_row,
            rows,
            k,
        };
        Ok(Fit { layout: module.plan(quantization)?, convertible: false })
    }

    /// Finds a tensor; base models are saved without the prefix `model.` or `transformer.`.
    pub(super) fn find(&self, name: &str) -> Option<Place<'a>> {
        let short = || {
            let prefix =
                ["model.", "transformer."].into_iter().find(|prefix| name.starts_with(prefix));
            self.tensors.get(&name[prefix?.len()..])
        };
        let long = || self.tensors.get(&format!("language_model.{name}")[..]);
        self.tensors.get(name).or_else(short).or_else(long).copied()
    }

    pub(super) fn get(&self, name: &str) -> Result<Place<'a>> {
        self.find(name).ok_or_else(|| Error::MissingTensor { name: name.into() })
    }

    pub(super) fn add(&mut self, (tensor, file, index): Place<'a>, job: RepackJob) -> Result<()> {
        ensure_piece(tensor, job.unit_bytes())?;
        // Sizes that a 32-bit `usize` cannot hold may have passed for others.
        if tensor.bytes != job.bytes() {
            return Err(Error::WrongTensor {
                name: tensor.name.clone(),
                found: format!("{} bytes", tensor.bytes),
                expected: format!("{} bytes", job.bytes()),
            });
        }
        self.jobs[file][index] = Some(Job::Repack(job));
        Ok(())
    }

    /// Plans scales that have to be put together; returns their place.
    pub(super) fn add_nested(&mut self, job: RepackJob) -> usize {
        self.nested.push(job);
        self.nested.len() - 1
    }

    pub(super) fn add_order(&mut self, (_, file, place): Place<'a>, job: OrderJob) {
        *self.ordered.entry(job.param).or_default() += 1;
        self.jobs[file][place] = Some(Job::Order(job));
    }

    pub(super) fn add_nested_part(
        &mut self,
        (tensor, file, place): Place<'a>,
        part: NestedPart,
        index: usize,
    ) -> Result<()> {
        ensure_piece(tensor, tensor.bytes)?;
        let bytes = tensor.bytes as usize;
        self.jobs[file][place] = Some(Job::Nested(NestedJob { part, index, bytes }));
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

/// Refuses what would have to be held at once and is too large for that.
fn ensure_piece(tensor: &TensorInfo, bytes: u64) -> Result<()> {
    if bytes > PIECE_BYTES {
        let what = format!("one piece of {:?}", tensor.name);
        return Err(Error::TooLarge { what, bytes, limit: PIECE_BYTES });
    }
    Ok(())
}

pub(super) fn expect_float(tensor: &TensorInfo, shape: &[usize]) -> Result<FloatType> {
    let float = tensor.elements.float().filter(|_| has_shape(tensor, shape));
    float.ok_or_else(|| wrong(tensor, "F32 or F16 or BF16", shape))
}

/// The layout that keeps these blocks.
fn expect_blocks(tensor: &TensorInfo, block: BlockType, shape: &[usize]) -> Result<Layout> {
    if !has_shape(tensor, shape) {
        return Err(wrong(tensor, &block.to_string(), shape));
    }
    block.layout().ok_or_else(|| {
        let names = BlockType::READABLE.map(|block| block.to_string()).join(", ");
        wrong(tensor, &format!("one of F32, F16, BF16, {names}"), shape)
    })
}

pub(super) fn has_shape(tensor: &TensorInfo, shape: &[usize]) -> bool {
    tensor.shape.iter().copied().eq(shape.iter().map(|n| *n as u64))
}

pub(super) fn wrong(tensor: &TensorInfo, expected: &str, shape: &[usize]) -> Error {
    Error::WrongTensor {
        name: tensor.name.clone(),
        found: format!("{} {:?}", tensor.elements, tensor.shape),
        expected: format!("{expected} {shape:?}"),
    }
}
