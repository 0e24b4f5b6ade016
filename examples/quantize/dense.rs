//! Dense matrices in f32.

use rayon::prelude::*;
use tabloom::layout::HostMatrix;

/// A matrix in f32.
pub struct Dense {
    pub n: usize,
    pub k: usize,
    /// `[n][k]`
    pub values: Vec<f32>,
}

impl Dense {
    /// Dequantises a matrix that is stored in parts, stacked from the top.
    pub fn of(parts: &[HostMatrix]) -> Dense {
        let (n, k) = (parts.iter().map(|part| part.n).sum(), parts[0].k);
        let mut values = vec![0.0; n * k];
        let mut rest = &mut values[..];
        for part in parts {
            let (rows, below) = rest.split_at_mut(part.n * k);
            let rows = rows.par_chunks_exact_mut(k).enumerate();
            rows.for_each(|(row, out)| part.dequantise_row(row, out));
            rest = below;
        }
        Dense { n, k, values }
    }

    /// `other` − `self`.
    pub fn difference(&self, other: &Dense) -> Dense {
        let values = self.values.iter().zip(&other.values).map(|(a, b)| b - a).collect();
        Dense { n: self.n, k: self.k, values }
    }

    /// Multiplies each column and divides each row by its factor; an empty list changes nothing.
    pub fn scale(&mut self, columns: &[f32], rows: &[f32]) {
        for (row, values) in self.values.chunks_exact_mut(self.k).enumerate() {
            let divisor = rows.get(row).copied().unwrap_or(1.0);
            values.iter_mut().for_each(|value| *value /= divisor);
            values.iter_mut().zip(columns).for_each(|(value, factor)| *value *= factor);
        }
    }

    /// Σ w² of each row.
    pub fn squares(&self) -> Vec<f64> {
        let square = |row: &[f32]| row.iter().map(|w| f64::from(w * w)).sum();
        self.values.chunks_exact(self.k).map(square).collect()
    }
}
