//! Histograms with fixed buckets.

use serde::Serialize;

/// Counts of observed values per bucket, for Prometheus.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Histogram {
    /// Upper bound of each bucket, ascending. A last bucket without a bound follows.
    pub bounds: &'static [f64],
    /// Observations per bucket, not cumulative: `[bounds + 1]`.
    pub counts: Vec<u64>,
    /// Sum of all observations.
    pub sum: f64,
    /// Number of observations.
    pub count: u64,
}

impl Histogram {
    /// A histogram without observations.
    pub fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0, count: 0 }
    }

    /// Counts a value.
    pub fn observe(&mut self, value: f64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
        self.count += 1;
    }

    /// An estimate of the `q`-quantile: values are assumed to be spread evenly within their bucket, which
    /// starts at 0 or the bound below. In the last bucket it is the last bound. `None` without
    /// observations.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = q.clamp(0.0, 1.0) * self.count as f64;
        let (mut below, mut lower) = (0, 0.0);
        for (count, upper) in self.counts.iter().zip(self.bounds) {
            if *count > 0 && (below + count) as f64 >= rank {
                let share = (rank - below as f64) / *count as f64;
                return Some(lower + (upper - lower) * share);
            }
            (below, lower) = (below + count, *upper);
        }
        (self.count > 0).then_some(lower)
    }

    /// Cumulative counts: observations up to each bound, then all of them.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(&self.counts).scan(0, |total, (bound, count)| {
            *total += count;
            Some((bound, *total))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(histogram: &mut Histogram, values: &[f64]) {
        values.iter().for_each(|value| histogram.observe(*value));
    }

    #[test]
    fn a_value_counts_in_the_first_bucket_that_contains_it() {
        let mut histogram = Histogram::new(&[1.0, 2.0, 4.0]);
        observe(&mut histogram, &[0.0, 1.0, 1.5, 2.0, 4.0, 4.1, 100.0]);
        assert_eq!(histogram.counts, [2, 2, 1, 2]);
        assert_eq!((histogram.count, histogram.sum), (7, 112.6));
        let cumulative: Vec<_> = histogram.cumulative().collect();
        assert_eq!(cumulative, [(1.0, 2), (2.0, 4), (4.0, 5), (f64::INFINITY, 7)]);
    }

    #[test]
    fn quantiles_are_between_the_bounds_of_their_bucket() {
        let mut histogram = Histogram::new(&[1.0, 2.0, 4.0]);
        assert_eq!(histogram.quantile(0.5), None);
        observe(&mut histogram, &[1.5; 4]);
        assert_eq!(
            [0.0, 0.25, 0.5, 1.0].map(|q| histogram.quantile(q).unwrap()),
            [1.0, 1.25, 1.5, 2.0]
        );
        observe(&mut histogram, &[3.0; 4]);
        assert_eq!([0.5, 0.75, 1.0].map(|q| histogram.quantile(q).unwrap()), [2.0, 3.0, 4.0]);
        observe(&mut histogram, &[9.0; 8]);
        assert_eq!([0.25, 0.51, 1.0].map(|q| histogram.quantile(q).unwrap()), [2.0, 4.0, 4.0]);
    }
}
