//! Quantises a model in 16 or 32 bits, one product at a time.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, stderr},
};

use anyhow::{Context, Result, ensure};
use tabloom::{
    layout::{FloatType, HostMatrix},
    model::{ModelConfig, Op, Param, ParamSpec, Product, Shape, program},
    step::Executor,
};

use super::{
    awq::{self, Producer},
    checkpoint::{self, Checkpoint},
    dense::Dense,
    gptq,
    gram::Gram,
    model::{Model, plan},
    rtn::{self, Format},
};

/// The quantisation method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// Round to nearest; needs no text.
    Rtn,
    /// Columns compensate for the rounding error of previous ones.
    Gptq,
    /// Round to nearest, after scaling up columns with large activations.
    Awq,
}

/// A quantised model.
pub struct Quantised {
    pub model: Model,
    /// The quantised matrices.
    pub rounded: Vec<ParamSpec>,
    /// Vectors that differ from the checkpoint.
    pub changed: Vec<Param>,
    /// The rounding error of each module of the checkpoint, by name.
    pub losses: BTreeMap<String, Loss>,
}

/// The rounding error of a module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loss {
    /// Σ ΔW² / Σ W²
    pub weights: f64,
    /// tr(ΔW H ΔWᵀ) / tr(W H Wᵀ); `None` without a calibration text.
    pub outputs: Option<f64>,
}

/// The matrices of the layers' products, which are quantised.
pub fn matrices(config: &ModelConfig) -> Vec<ParamSpec> {
    let weight = |op| match op {
        Op::Matmul(product) if product.weight != config.head() => Some(product.weight),
        _ => None,
    };
    let weights: Vec<Param> = program(config).into_iter().filter_map(weight).collect();
    config.params().into_iter().filter(|spec| weights.contains(&spec.param)).collect()
}

/// Quantises a model. With a text, each product's input is computed with the previous products already
/// quantised.
pub fn quantise(
    mut model: Model,
    checkpoint: &Checkpoint,
    format: &Format,
    method: Method,
    text: &[Vec<u32>],
) -> Result<Quantised> {
    let rounded = matrices(&model.config);
    let mut losses = BTreeMap::new();
    let mut changed = Vec::new();
    if method == Method::Awq {
        (model, changed) = equalise(model, checkpoint, format, text)?;
    }
    let mut round = |param: Param, parts: &mut Vec<HostMatrix>, gram: Option<&Gram>| {
        let matrix = Dense::of(parts);
        let codes = match (method, gram) {
            (Method::Gptq, Some(gram)) => gptq::quantise(format, &matrix, gram),
            _ => rtn::quantise(format, &matrix),
        };
        *parts = vec![codes];
        let spec = rounded.iter().find(|spec| spec.param == param);
        let spec = spec.with_context(|| format!("{param:?} is not a matrix of a layer"))?;
        losses.extend(loss(spec, &matrix, &matrix.difference(&Dense::of(parts)), gram));
        Ok(())
    };
    if text.is_empty() {
        for (done, spec) in rounded.iter().enumerate() {
            progress("Rounding", done, rounded.len());
            let parts = model.weights.matrices.get_mut(&spec.param);
            round(spec.param, parts.ok_or_else(|| spec.param.missing())?, None)?;
        }
    } else {
        let (name, total) = (format!("{method:?}"), rounded.len());
        let mut done = 0;
        model = over(model, text, |product, x, parts| {
            progress(&name, done, total);
            done += 1;
            round(product.weight, parts, Some(&gram(product, x, parts)?))
        })?;
    }
    finish();
    Ok(Quantised { model, rounded, changed, losses })
}

/// The Gram matrix of a product's input.
fn gram(product: &Product, x: &[f32], parts: &[HostMatrix]) -> Result<Gram> {
    let gram = Gram::of(x, parts[0].k);
    let is_finite = gram.diagonal().into_iter().all(f32::is_finite);
    ensure!(is_finite, "the input of {:?} is not finite: the weights are damaged", product.weight);
    Ok(gram)
}

/// Runs the layers over a text.
fn over(
    model: Model,
    text: &[Vec<u32>],
    observer: impl FnMut(&Product, &[f32], &mut Vec<HostMatrix>) -> Result<()>,
) -> Result<Model> {
    let config = model.config.clone();
    let longest = text.iter().map(Vec::len).max().unwrap_or(0);
    let rows = text.iter().map(Vec::len).sum();
    let mut executor = model.executor(text.len(), longest, rows, 0)?;
    let plan = plan(text, executor.capacity().groups);
    executor.observe(&plan, observer)?;
    Ok(Model { config, weights: executor.into_weights() })
}

/// Scales up columns and scales down their producers, with factors from the unquantised model's
/// activations; the model's output stays the same. Also returns the vectors that changed.
pub fn equalise(
    model: Model,
    checkpoint: &Checkpoint,
    format: &Format,
    text: &[Vec<u32>],
) -> Result<(Model, Vec<Param>)> {
    let config = model.config.clone();
    let program = program(&config);
    let readers = |norm| {
        let reads = |op: &&Op| matches!(op, Op::Matmul(product) if product.norm == Some(norm));
        program.iter().filter(reads).count()
    };
    let total = matrices(&config).len();
    let (mut found, mut done) = (Vec::new(), 0);
    let mut model = over(model, text, |product, x, parts| {
        progress("Enlarging", done, total);
        done += 1;
        let producer = Producer::of(&config, product);
        if let Some(producer) =
            producer.filter(|_| product.norm.is_none_or(|norm| readers(norm) == 1))
        {
            let gram = gram(product, x, parts)?;
            let factors = awq::search(format, &Dense::of(parts), &gram, &producer);
            found.push((product.weight, producer, factors));
        }
        Ok(())
    })?;
    finish();
    let mut types = BTreeMap::new();
    for spec in config.params() {
        if let Shape::Vector { .. } = spec.shape {
            types.insert(spec.param, (checkpoint.float(&spec.sources[0].name)?, spec.less_one));
        }
    }
    let round = |param: Param, value: f32| {
        let (float, less_one) = types.get(&param).copied().unwrap_or((FloatType::F32, false));
        match less_one {
            true => checkpoint::round(float, value - 1.0) + 1.0,
            false => checkpoint::round(float, value),
        }
    };
    let changed = awq::fold(found, &config, &mut model.weights, round)?;
    Ok((model, changed))
}

/// The rounding error of each module of a matrix.
fn loss(
    spec: &ParamSpec,
    matrix: &Dense,
    difference: &Dense,
    gram: Option<&Gram>,
) -> Vec<(String, Loss)> {
    let weights = [difference.squares(), matrix.squares()];
    let outputs = gram.map(|gram| [difference, matrix].map(|matrix| gram.energies(matrix)));
    let mut first = 0;
    let module = spec.sources.iter().map(|source| {
        let rows = first..first + source.rows;
        first = rows.end;
        let ratio = |[lost, whole]: &[Vec<f64>; 2]| {
            let sum = |values: &[f64]| values[rows.clone()].iter().sum::<f64>();
            sum(lost) / sum(whole).max(f64::MIN_POSITIVE)
        };
        let loss = Loss { weights: ratio(&weights), outputs: outputs.as_ref().map(ratio) };
        (source.name.clone(), loss)
    });
    module.collect()
}

fn progress(what: &str, done: usize, total: usize) {
    if stderr().is_terminal() {
        eprint!("\r\x1b[K{what}: {done} of {total} matrices");
    } else if done.is_multiple_of(8) {
        eprintln!("{what}: {done} of {total} matrices");
    }
}

fn finish() {
    if stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}
