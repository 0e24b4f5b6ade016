//! Plans, and checks, which tensor of a checkpoint fills which weight, before anything is allocated.

use super::formats::Module;
use super::header::{Elements, Header, TensorInfo};
use super::nested::{NestedJob, NestedPart};
use super::order::OrderJob;
use super::sink::{Encoding, PIECE_BYTES, Part, RepackJob, Weight};
use crate::error::{Error, Result};
use crate::layout::{BlockType, FloatType, Layout};
use crate::model::{
    ModelConfig, Naming, Param, ParamSource, ParamSpec, Quantization, Shape, Slice,
};
use std::collections::HashMap;

/// Quantisation of floating-point matrices while they load: a layout, or `None` to keep theirs.
///
/// Matrices that are quantised in the checkpoint keep their values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantise {
    /// Matrices of the layers, except routers.
    pub matrices: Option<Layout>,
    /// Embedding matrix and output matrix.
    pub embeddings: Option<Layout>,
}

impl Quantise {
    /// Keeps every matrix as in the checkpoint.
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
            param if param.is_of_tokens() => self.embeddings,
            Param::Positions => None,
            // A small error can choose another expert.
            Param::Router(_) => None,
            _ => self.matrices,
        }
    }
}

/// How the tensors of a checkpoint fill the weights of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPlan {
    /// Every weight to allocate.
    pub weights: Vec<Weight>,
    /// What each tensor of each file fills: `[file][tensor]`, in header order. Several jobs belong to
    /// equal parts of the tensor, one after the other.
    pub jobs: Vec<Vec<Vec<Job>>>,
    /// Scales that have to be assembled before they can be repacked.
    pub nested: Vec<RepackJob>,
}

/// What a tensor is used for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Job {
    Repack(RepackJob),
    Nested(NestedJob),
    Order(OrderJob),
}

impl Job {
    /// Whether another job converts the same bytes in the same way, for another weight.
    fn is_alike(&self, other: &Job) -> bool {
        match (self, other) {
            (Job::Repack(job), Job::Repack(other)) => {
                let RepackJob { param, first_row, .. } = *other;
                RepackJob { param, first_row, ..*job } == *other
            }
            _ => false,
        }
    }
}

impl LoadPlan {
    /// Plans how the files with these headers fill the model.
    ///
    /// Names and shapes follow from the configuration. Unused tensors are ignored; in GGUF files, which
    /// have a fixed set of names, they are refused.
    pub fn new(
        config: &ModelConfig,
        quantization: Option<Quantization>,
        quantise: &Quantise,
        headers: &[&Header],
    ) -> Result<LoadPlan> {
        let mut planner = Planner::new(quantization, quantise, headers)?;
        let weights = planner.weights(&config.params(), headers)?;
        if let Naming::Gguf { .. } = config.naming {
            planner.expect_all_used(headers)?;
        }
        Ok(planner.finish(weights))
    }

    /// Plans how the files with these headers fill other weights than those of a [`ModelConfig`].
    /// Unused tensors are ignored.
    pub fn of(
        params: &[ParamSpec],
        quantization: Option<Quantization>,
        quantise: &Quantise,
        headers: &[&Header],
    ) -> Result<LoadPlan> {
        let mut planner = Planner::new(quantization, quantise, headers)?;
        let weights = planner.weights(params, headers)?;
        Ok(planner.finish(weights))
    }

    /// Bytes of all weights together.
    pub fn bytes(&self) -> u64 {
        self.weights.iter().map(Weight::bytes).sum()
    }
}

/// A tensor and its location: file, index in the file.
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
    jobs: Vec<Vec<Vec<Job>>>,
    nested: Vec<RepackJob>,
    /// Number of modules with reordered columns, per weight.
    ordered: HashMap<Param, usize>,
}

impl<'a> Planner<'a> {
    fn new(
        quantization: Option<Quantization>,
        quantise: &'a Quantise,
        headers: &[&'a Header],
    ) -> Result<Planner<'a>> {
        quantise.check()?;
        Ok(Planner {
            tensors: tensors_by_name(headers)?,
            quantization,
            quantise,
            jobs: headers.iter().map(|header| vec![Vec::new(); header.tensors.len()]).collect(),
            nested: Vec::new(),
            ordered: HashMap::new(),
        })
    }

    fn weights(&mut self, params: &[ParamSpec], headers: &[&Header]) -> Result<Vec<Weight>> {
        let weights = params.iter().map(|spec| self.weight(spec)).collect::<Result<_>>()?;
        self.expect_whole(headers)?;
        self.expect_alike(headers)?;
        Ok(weights)
    }

    fn finish(self, weights: Vec<Weight>) -> LoadPlan {
        LoadPlan { weights, jobs: self.jobs, nested: self.nested }
    }

    fn weight(&mut self, spec: &ParamSpec) -> Result<Weight> {
        let mut parts: Vec<Part> = Vec::new();
        let mut convertible = true;
        let mut first_row = 0;
        let mut other = None;
        for source in &spec.sources {
            let stacked = self.stacked(spec, source, first_row);
            let fit = self.source(spec, stacked.as_ref().unwrap_or(source), first_row)?;
            convertible &= fit.convertible;
            first_row += source.rows;
            if parts.first().is_some_and(|part| part.layout != fit.layout) {
                other.get_or_insert((&source.name, fit.layout));
            }
            match parts.last_mut().filter(|part| part.layout == fit.layout) {
                Some(part) => part.rows += source.rows,
                None => parts.push(Part { rows: source.rows, layout: fit.layout }),
            }
        }
        let ordered = self.ordered.get(&spec.param).copied().unwrap_or(0);
        if ![0, spec.sources.len()].contains(&ordered) || ordered > 0 && spec.param.is_of_experts()
        {
            return Err(Error::WrongTensor {
                name: spec.sources[0].name.clone(),
                found: "joined with modules whose columns have another order".into(),
                expected: "that all of them, or none, have an order of their own; of experts, none"
                    .into(),
            });
        }
        // A gated product needs both rows of a pair in one part; an expert's needs all its rows.
        let whole = spec.param.is_of_experts() || matches!(spec.param, Param::GateUp(_));
        if let Some((name, layout)) = other.filter(|_| whole) {
            if !convertible {
                return Err(Error::WrongTensor {
                    name: name.clone(),
                    found: format!("{layout:?}"),
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
        Ok(Weight { param: spec.param, shape: spec.shape, parts, unit: spec.unit })
    }

    /// Plans an expert's rows where one tensor has the rows of all experts (MLX).
    fn stacked(
        &self,
        spec: &ParamSpec,
        source: &ParamSource,
        first_row: usize,
    ) -> Option<ParamSource> {
        let (block, matrix) = source.name.split_once(".experts.")?;
        let matrix = match matrix.split_once('.')?.1 {
            "w1.weight" => "gate_proj.weight",
            "w2.weight" => "down_proj.weight",
            "w3.weight" => "up_proj.weight",
            matrix => matrix,
        };
        let name = format!("{block}.switch_mlp.{matrix}");
        self.find(&name)?;
        let Shape::Matrix { n, .. } = spec.shape else { return None };
        let slice = Some(Slice { index: first_row / spec.unit, of: n / spec.unit });
        Some(ParamSource { name, slice, ..source.clone() })
    }

    /// Plans the rows of a weight that come from one module.
    fn source(&mut self, spec: &ParamSpec, source: &ParamSource, first_row: usize) -> Result<Fit> {
        let ParamSource { rows, interleaved, mut by_columns, slice, .. } = *source;
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
            // Integer elements are codes, which need further tensors.
            elements => elements.float().is_some() || self.quantization.is_none(),
        };
        let mut place = self.find(&source.name);
        if place.is_none() {
            // Experts of gpt-oss outside MXFP4 are in column-major order, and not in modules.
            let name = source.name.strip_suffix(".weight").filter(|_| slice.is_some());
            place = name.and_then(|name| self.find(name));
            by_columns |= place.is_some();
        }
        if let Some(place) = place.filter(whole) {
            return match spec.shape {
                Shape::Vector { .. } => {
                    let float = expect_float(place.0, &sliced(slice, &[rows]))?;
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
                            let layout = expect_blocks(place.0, block, &sliced(slice, &[rows, k]))?;
                            (Encoding::Blocks(block), layout)
                        }
                        Elements::Plain(_) if by_columns => {
                            let float = expect_float(place.0, &sliced(slice, &[k, rows]))?;
                            (Encoding::FloatColumns(float), asked.unwrap_or(float.layout()))
                        }
                        Elements::Plain(_) => {
                            let float = expect_float(place.0, &sliced(slice, &[rows, k]))?;
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
            interleaved,
            slice,
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
        self.jobs[file][index].push(Job::Repack(job));
        Ok(())
    }

    /// Plans scales that have to be assembled; returns their index.
    pub(super) fn add_nested(&mut self, job: RepackJob) -> usize {
        self.nested.push(job);
        self.nested.len() - 1
    }

    pub(super) fn add_order(&mut self, (_, file, place): Place<'a>, job: OrderJob) {
        *self.ordered.entry(job.param).or_default() += 1;
        self.jobs[file][place].push(Job::Order(job));
    }

    pub(super) fn add_nested_part(
        &mut self,
        (tensor, file, place): Place<'a>,
        part: NestedPart,
        index: usize,
    ) -> Result<()> {
        ensure_piece(tensor, tensor.bytes)?;
        let bytes = tensor.bytes as usize;
        self.jobs[file][place].push(Job::Nested(NestedJob { part, index, bytes }));
        Ok(())
    }

    /// Refuses tensors whose number of bytes differs from that of their jobs: sizes beyond a 32-bit
    /// `usize` may have been mistaken.
    fn expect_whole(&self, headers: &[&Header]) -> Result<()> {
        let tensors = headers.iter().flat_map(|header| &header.tensors);
        for (tensor, jobs) in tensors.zip(self.jobs.iter().flatten()) {
            let taken = jobs.iter().map(|job| match job {
                Job::Repack(job) => job.bytes(),
                Job::Nested(job) => job.bytes as u64,
                Job::Order(job) => 4 * job.columns as u64,
            });
            let expected = taken.fold(0, u64::saturating_add);
            if !jobs.is_empty() && expected != tensor.bytes {
                return Err(Error::WrongTensor {
                    name: tensor.name.clone(),
                    found: format!("{} bytes", tensor.bytes),
                    expected: format!("{expected} bytes"),
                });
            }
        }
        Ok(())
    }

    /// Refuses tensors that share bytes but are converted differently: the bytes are read once.
    fn expect_alike(&self, headers: &[&Header]) -> Result<()> {
        for (header, jobs) in headers.iter().zip(&self.jobs) {
            let used = header.tensors.iter().zip(jobs).filter(|(_, jobs)| !jobs.is_empty());
            let used: Vec<_> = used.collect();
            let differ = used.windows(2).find(|pair| {
                let [(a, of_a), (b, of_b)] = [pair[0], pair[1]];
                let is_alike = || of_a.iter().zip(of_b).all(|(a, b)| a.is_alike(b));
                a.shares_bytes(b) && (of_a.len() != of_b.len() || !is_alike())
            });
            if let Some([(a, _), (b, _)]) = differ {
                return Err(Error::WrongTensor {
                    name: b.name.clone(),
                    found: format!("{:?} by another name", a.name),
                    expected: "one of its own: the two do not become the same".into(),
                });
            }
        }
        Ok(())
    }

    fn expect_all_used(&self, headers: &[&Header]) -> Result<()> {
        let tensors = headers.iter().flat_map(|header| &header.tensors);
        let unused = tensors.zip(self.jobs.iter().flatten()).find(|(_, jobs)| jobs.is_empty());
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

/// The layouts that one module's rows can be converted to.
struct Fit {
    /// The layout that keeps their values.
    layout: Layout,
    /// They can be converted to any other.
    convertible: bool,
}

/// Refuses pieces that have to be held at once and are too large for that.
fn ensure_piece(tensor: &TensorInfo, bytes: u64) -> Result<()> {
    if bytes > PIECE_BYTES {
        let what = format!("one piece of {:?}", tensor.name);
        return Err(Error::TooLarge { what, bytes, limit: PIECE_BYTES });
    }
    Ok(())
}

/// The shape of a tensor of which one part has this shape.
pub(super) fn sliced(slice: Option<Slice>, shape: &[usize]) -> Vec<usize> {
    slice.iter().map(|slice| &slice.of).chain(shape).copied().collect()
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
