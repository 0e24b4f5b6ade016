//! GPTQ (<https://arxiv.org/abs/2210.17323>): later columns compensate for a column's rounding error.
//!
//! With H = R Rᵀ, R upper triangular, the output error of a row is ‖e R‖², where e = w − ŵ. Column
//! j of e R depends only on e_0 .. e_j, so rounding w_j + Σ_{i<j} e_i R_ij / R_jj makes it as small as
//! possible. The codes equal those of the paper, without the inverse of H
//! (<https://arxiv.org/abs/2507.18553>).

use rayon::prelude::*;
use tabloom::layout::HostMatrix;

use super::{
    dense::Dense,
    gram::Gram,
    rtn::{Format, put, rows_mut},
};

/// Damping: added to the diagonal of H, as a fraction of its mean.
const DAMPING: f64 = 0.01;
/// Rows of W per pass over R.
const ROWS: usize = 8;

/// Rounds the columns in order. A group's scale is chosen when its first column is reached.
pub fn quantise(format: &Format, matrix: &Dense, gram: &Gram) -> HostMatrix {
    let Dense { n, k, ref values } = *matrix;
    let feedback = feedback(gram);
    let mut rounded = HostMatrix::zeroed(format.layout(), n, k);
    let blocks = rows_mut(&mut rounded, ROWS).zip(values.par_chunks(ROWS * k));
    blocks.for_each(|((words, scales), values)| {
        let rows = values.len() / k;
        let (row_words, groups) = (words.len() / rows, k / format.group);
        let mut errors = values.to_vec();
        for (g, start) in (0..k).step_by(format.group).enumerate() {
            let columns = start..start + format.group;
            for i in 0..start {
                let feedback = &feedback[i * k..][columns.clone()];
                for errors in errors.chunks_exact_mut(k) {
                    let error = errors[i];
                    add(&mut errors[columns.clone()], error, feedback);
                }
            }
            for (row, errors) in errors.chunks_exact_mut(k).enumerate() {
                // The columns of this group, if none of them were rounded.
                let mut free = errors[columns.clone()].to_vec();
                for (c, i) in columns.clone().enumerate() {
                    let error = values[row * k + i] - free[c];
                    add(&mut free[c + 1..], error, &feedback[i * k..][i + 1..columns.end]);
                }
                let group = format.fit(&free);
                scales[row * groups + g] = group.pair;
                for i in columns.clone() {
                    let (code, value) = group.round(errors[i]);
                    put(&mut words[row * row_words..][..row_words], format.bits, i, code);
                    // e = w − ŵ; the target is w plus the error of other columns.
                    let error = values[row * k + i] - value;
                    errors[i] = error;
                    let later = i + 1..columns.end;
                    add(&mut errors[later.clone()], error, &feedback[i * k..][later]);
                }
            }
        }
    });
    rounded
}

/// a += factor · b
fn add(a: &mut [f32], factor: f32, b: &[f32]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += factor * b);
}

/// R_ij / R_jj above the diagonal, else 0: `[k][k]`.
fn feedback(gram: &Gram) -> Vec<f32> {
    let k = gram.k;
    let mut r = factor(gram);
    let diagonal: Vec<f64> = (0..k).map(|j| r[j * k + j]).collect();
    for (i, row) in r.chunks_exact_mut(k).enumerate() {
        row[..=i].fill(0.0);
        row.iter_mut().zip(&diagonal).for_each(|(r, diagonal)| *r /= diagonal);
    }
    r.into_iter().map(|r| r as f32).collect()
}

/// The upper triangular R with R Rᵀ = H, damped: `[k][k]`; values below the diagonal are undefined.
fn factor(gram: &Gram) -> Vec<f64> {
    /// Columns per block.
    const BLOCK: usize = 64;
    let k = gram.k;
    let mean = gram.diagonal().iter().copied().map(f64::from).sum::<f64>() / k as f64;
    // Without any input, all codes are equally good.
    let damping = if mean > 0.0 { DAMPING * mean } else { 1.0 };
    let mut r: Vec<f64> = (0..k).flat_map(|i| gram.row(i)).copied().map(f64::from).collect();
    (0..k).for_each(|i| r[i * k + i] += damping);
    for end in (1..=k).rev().step_by(BLOCK) {
        let start = end.saturating_sub(BLOCK);
        let (above, block) = r.split_at_mut(start * k);
        for j in (start..end).rev() {
            let (rows, row) = block[..(j + 1 - start) * k].split_at_mut((j - start) * k);
            row[j] = (row[j] - dot(&row[j + 1..], &row[j + 1..])).max(damping * 1e-6).sqrt();
            rows.chunks_exact_mut(k).for_each(|other| solve(other, row, j));
        }
        above.par_chunks_exact_mut(k).for_each(|other| {
            for j in (start..end).rev() {
                solve(other, &block[(j - start) * k..][..k], j);
            }
        });
    }
    r
}

/// R_ij of a row i above row j.
fn solve(row: &mut [f64], row_j: &[f64], j: usize) {
    row[j] = (row[j] - dot(&row[j + 1..], &row_j[j + 1..])) / row_j[j];
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}
