//! Plans, and checks, which tensor of a checkpoint fills which weight, before anything is allocated.

use super::formats::{self, Module};
use super::header::{Elements, Header, TensorInfo};
use super::jobs::{Job, Jobs, Place, expect_float, has_shape, sliced, wrong};
use super::sink::{Encoding, Part, RepackJob, Weight};
use crate::error::{Error, Result};
use crate::layout::{BlockType, Layout};
use crate::model::{
    ModelConfig, Naming, Param, ParamSource, ParamSpec, Quantization, Shape, Slice,
};

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
        let plan = LoadPlan::of(&config.params(), quantization, quantise, headers)?;
        if let Naming::Gguf { .. } = config.naming {
            expect_all_used(headers, &plan.jobs)?;
        }
        Ok(plan)
    }

    /// Plans how the files with these headers fill other weights than those of a [`ModelConfig`].
    /// Unused tensors are ignored.
    pub fn of(
        params: &[ParamSpec],
        quantization: Option<Quantization>,
        quantise: &Quantise,
        headers: &[&Header],
    ) -> Result<LoadPlan> {
        quantise.check()?;
        let mut planner = Planner { jobs: Jobs::new(headers)?, quantization, quantise };
        let weights = params.iter().map(|spec| planner.weight(spec)).collect::<Result<_>>()?;
        let Planner { jobs, .. } = planner;
        jobs.expect_whole(headers)?;
        jobs.expect_alike(headers)?;
        Ok(LoadPlan { weights, jobs: jobs.jobs, nested: jobs.nested })
    }

    /// Bytes of all weights together.
    pub fn bytes(&self) -> u64 {
        self.weights.iter().map(Weight::bytes).sum()
    }
}

struct Planner<'a> {
    jobs: Jobs<'a>,
    quantization: Option<Quantization>,
    quantise: &'a Quantise,
}

impl Planner<'_> {
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
        // An expert's product needs all its rows in one part. A gated product is faster with both rows of
        // a pair in one part; gate and up rows that cannot be made alike are multiplied apart.
        let of_experts = spec.param.is_of_experts();
        let joins = of_experts || matches!(spec.param, Param::GateUp(_));
        match other.filter(|_| joins) {
            Some(_) if convertible => {
                let floats = parts.iter().all(|part| part.layout.record().is_none());
                let widest = if floats { Layout::F32 } else { Layout::W8 { group: 32 } };
                let layout = self.quantise.layout(spec.param).unwrap_or(widest);
                parts = vec![Part { rows: first_row, layout }];
            }
            Some((name, layout)) if of_experts => {
                return Err(Error::WrongTensor {
                    name: name.clone(),
                    found: format!("{layout:?}"),
                    expected: format!("{:?} like {:?}", parts[0].layout, spec.sources[0].name),
                });
            }
            _ => {}
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
        self.jobs.find(&name)?;
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
        let mut place = self.jobs.find(&source.name);
        if place.is_none() {
            // Experts of gpt-oss outside MXFP4 are in column-major order, and not in modules.
            let name = source.name.strip_suffix(".weight").filter(|_| slice.is_some());
            place = name.and_then(|name| self.jobs.find(name));
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
                    self.jobs.add(place, job(encoding, 1))?;
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
                    self.jobs.add(place, job(encoding, k))?;
                    Ok(Fit { layout, convertible: true })
                }
            };
        }

        let missing = || Error::MissingTensor { name: source.name.clone() };
        let Shape::Matrix { k, .. } = spec.shape else { return Err(missing()) };
        let quantization = self.quantization;
        let mut module = Module {
            jobs: &mut self.jobs,
            name: source.name.strip_suffix(".weight").ok_or_else(missing)?,
            param: spec.param,
            first_row,
            rows,
            k,
            interleaved,
            slice,
        };
        Ok(Fit { layout: formats::plan(&mut module, quantization)?, convertible: false })
    }
}

fn expect_all_used(headers: &[&Header], jobs: &[Vec<Vec<Job>>]) -> Result<()> {
    let tensors = headers.iter().flat_map(|header| &header.tensors);
    let unused = tensors.zip(jobs.iter().flatten()).find(|(_, jobs)| jobs.is_empty());
    match unused {
        None => Ok(()),
        Some((tensor, _)) => Err(Error::WrongTensor {
            name: tensor.name.clone(),
            found: "there".into(),
            expected: "absent: this architecture, as far as it is supported, has none".into(),
        }),
    }
}

/// The layouts that one module's rows can be converted to.
struct Fit {
    /// The layout that keeps their values.
    layout: Layout,
    /// They can be converted to any other.
    convertible: bool,
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
