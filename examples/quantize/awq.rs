//! AWQ (<https://arxiv.org/abs/2306.00978>): weight columns with large activations are scaled up before
//! rounding, and the operation that produces these activations is scaled down by the same factor.

use std::collections::{BTreeSet, HashMap};

use anyhow::Result;
use tabloom::{
    layout::{HostMatrix, Layout},
    model::{ModelConfig, Param, Product},
    weights::HostWeights,
};

use super::{
    dense::Dense,
    gram::Gram,
    rtn::{self, Format},
};

/// Exponents to try: 0, 1/STEPS, …
const STEPS: usize = 20;

/// The parameter that produces a product's input.
pub struct Producer {
    /// A norm, or a matrix with or without a bias.
    pub param: Param,
    /// The element or row that produces each column; several columns may share one.
    pub rows: Vec<usize>,
}

impl Producer {
    /// The producer of a product's input, if nothing else depends on it.
    pub fn of(config: &ModelConfig, product: &Product) -> Option<Producer> {
        let (q, dim) = (config.attention_width(), config.head_dim);
        match (product.norm, product.weight) {
            // A bias would have to be scaled together with its norm.
            (Some(_), _) if config.layer_norm => None,
            (Some(norm), _) => Some(Producer { param: norm, rows: (0..config.hidden).collect() }),
            // The output is linear in the up rows, but not in the gate rows.
            (None, Param::Down(i)) if config.gated && !config.mlp_bias => {
                let up = config.intermediate;
                Some(Producer { param: Param::GateUp(i), rows: (up..2 * up).collect() })
            }
            (None, Param::Output(i)) => {
                let values = q + config.kv_heads * dim;
                let shared = config.heads / config.kv_heads;
                let row = |column| values + column / dim / shared * dim + column % dim;
                Some(Producer { param: Param::Qkv(i), rows: (0..q).map(row).collect() })
            }
            _ => None,
        }
    }

    /// Its elements or rows that produce columns.
    fn distinct(&self) -> BTreeSet<usize> {
        self.rows.iter().copied().collect()
    }

    /// Number of elements or rows, up to the last that produces a column.
    fn len(&self) -> usize {
        self.rows.iter().max().map_or(0, |row| row + 1)
    }
}

/// Finds the factor of each row of the producer: the row is divided by it, its columns are multiplied
/// by it. The factor is the row's mean square output to a power; the power with the least error is
/// chosen.
pub fn search(format: &Format, matrix: &Dense, gram: &Gram, producer: &Producer) -> Vec<f32> {
    let mut squares = vec![(0.0, 0.0); producer.len()];
    for (row, square) in producer.rows.iter().zip(gram.diagonal()) {
        squares[*row].0 += square;
        squares[*row].1 += 1.0;
    }
    let candidates = (0..STEPS).map(|step| {
        let power = 0.5 * step as f32 / STEPS as f32; // of the root
        let factor = |&(sum, count): &(f32, f32)| match sum > 0.0 {
            true => (sum / count).powf(power).max(1e-4),
            false => 1.0,
        };
        let mut factors: Vec<f32> = squares.iter().map(factor).collect();
        let given = || producer.rows.iter().map(|row| factors[*row]);
        let (least, most) = (given().fold(f32::INFINITY, f32::min), given().fold(0.0, f32::max));
        let middle = (least * most).sqrt();
        factors.iter_mut().for_each(|factor| *factor /= middle);
        (error(format, matrix, gram, &columns(producer, &factors)), factors)
    });
    candidates.min_by(|a, b| a.0.total_cmp(&b.0)).map(|best| best.1).unwrap_or_default()
}

/// The output error of rounding a matrix with scaled columns.
fn error(format: &Format, matrix: &Dense, gram: &Gram, factors: &[f32]) -> f64 {
    let mut scaled = Dense { values: matrix.values.clone(), ..*matrix };
    scaled.scale(factors, &[]);
    let mut rounded = Dense::of(&[rtn::quantise(format, &scaled)]);
    let inverse: Vec<f32> = factors.iter().map(|factor| 1.0 / factor).collect();
    rounded.scale(&inverse, &[]);
    gram.energies(&matrix.difference(&rounded)).iter().sum()
}

/// The factor of each column.
fn columns(producer: &Producer, factors: &[f32]) -> Vec<f32> {
    producer.rows.iter().map(|row| factors[*row]).collect()
}

/// Divides the producers and multiplies the columns that read them; the model's output stays the same.
///
/// Returns the vectors that changed. `round` rounds an element to the file's number type.
pub fn fold(
    found: Vec<(Param, Producer, Vec<f32>)>,
    config: &ModelConfig,
    weights: &mut HostWeights,
    round: impl Fn(Param, f32) -> f32,
) -> Result<Vec<Param>> {
    let mut changed = Vec::new();
    let (mut columns_of, mut rows_of) = (HashMap::new(), HashMap::new());
    for (reader, producer, mut factors) in found {
        let vector = match producer.param {
            Param::Qkv(i) if config.qkv_bias => Some(Param::QkvBias(i)),
            param => param.is_norm().then_some(param),
        };
        if let Some(param) = vector {
            let vector = weights.vectors.get_mut(&param).ok_or_else(|| param.missing())?;
            for row in producer.distinct() {
                let rounded = round(param, vector[row] / factors[row]);
                if param.is_norm() {
                    // The columns also compensate for the rounding.
                    let factor = vector[row] / rounded;
                    factors[row] = if factor.is_normal() { factor } else { 1.0 };
                }
                vector[row] = rounded;
            }
            changed.push(param);
        }
        columns_of.insert(reader, columns(&producer, &factors));
        if !producer.param.is_norm() {
            rows_of.insert(producer.param, divisors(&producer, &factors));
        }
    }
    for (param, parts) in &mut weights.matrices {
        let (columns, rows) = (columns_of.get(param), rows_of.get(param));
        if columns.is_some() || rows.is_some() {
            let mut dense = Dense::of(parts);
            let or_none = |factors: Option<&Vec<f32>>| factors.cloned().unwrap_or_default();
            dense.scale(&or_none(columns), &or_none(rows));
            *parts = vec![HostMatrix::pack(Layout::F32, dense.n, dense.k, &dense.values)];
        }
    }
    Ok(changed)
}

/// The divisors of a producing matrix's rows: 1 for rows that produce no column.
fn divisors(producer: &Producer, factors: &[f32]) -> Vec<f32> {
    let mut divisors = vec![1.0; producer.len()];
    producer.rows.iter().for_each(|row| divisors[*row] = factors[*row]);
    divisors
}
