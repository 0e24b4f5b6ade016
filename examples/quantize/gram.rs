//! The Gram matrix of a product's input: it determines the output error of rounding the weights.

use rayon::prelude::*;

use tabloom::kernels::matmul::dot;

use super::dense::Dense;

/// H = Σ x xᵀ / rows over the rows x of a product's input.
///
/// When weights change by D, the product's mean squared change is tr(D H Dᵀ).
pub struct Gram {
    pub k: usize,
    /// `[k][k]`
    values: Vec<f32>,
}

/// Rows of x per chunk of the sum.
const CHUNK: usize = 256;
/// Rows per pass over the other operand.
const BLOCK: usize = 8;

impl Gram {
    /// Sums over the rows of x, `[rows][k]`.
    pub fn of(x: &[f32], k: usize) -> Gram {
        let mut values = vec![0.0; k * k];
        let mut columns = vec![0.0; k * CHUNK]; // [k][CHUNK]
        for chunk in x.chunks(CHUNK * k) {
            let rows = chunk.len() / k;
            let transposed = columns.par_chunks_exact_mut(CHUNK).enumerate();
            transposed.for_each(|(column, out)| {
                out[..rows]
                    .iter_mut()
                    .zip(chunk.chunks_exact(k))
                    .for_each(|(out, x)| *out = x[column]);
            });
            let column = |i: usize| &columns[i * CHUNK..][..rows];
            values.par_chunks_mut(BLOCK * k).enumerate().for_each(|(block, sums)| {
                let first = block * BLOCK;
                for j in 0..(first + BLOCK).min(k) {
                    for (i, sums) in sums.chunks_exact_mut(k).enumerate() {
                        sums[j] += dot(column(first + i), column(j));
                    }
                }
            });
        }
        let mean = k as f32 / x.len().max(1) as f32;
        for i in 0..k {
            for j in 0..=i {
                values[i * k + j] *= mean;
                values[j * k + i] = values[i * k + j];
            }
        }
        Gram { k, values }
    }

    /// A row of H.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.k..][..self.k]
    }

    /// The mean square of each column of x.
    pub fn diagonal(&self) -> Vec<f32> {
        (0..self.k).map(|i| self.row(i)[i]).collect()
    }

    /// d H dᵀ of each row d of a matrix.
    pub fn energies(&self, matrix: &Dense) -> Vec<f64> {
        let blocks = matrix.values.par_chunks(BLOCK * self.k);
        let energies = blocks.flat_map_iter(|rows| {
            let mut energies = [0.0; BLOCK];
            for i in 0..self.k {
                // H is symmetric: values below the diagonal count twice.
                let (below, diagonal) = (&self.row(i)[..i], self.row(i)[i]);
                for (energy, d) in energies.iter_mut().zip(rows.chunks_exact(self.k)) {
                    let sum = 2.0 * dot(below, &d[..i]) + diagonal * d[i];
                    *energy += f64::from(d[i]) * f64::from(sum);
                }
            }
            energies.into_iter().take(rows.len() / self.k)
        });
        energies.collect()
    }
}
