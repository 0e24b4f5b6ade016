//! Averages and quantiles of measured step times.

/// Values are capped at this multiple of the average.
pub const ODD: f64 = 4.0;

/// A moving average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    value: f64,
    /// Values so far, at most [`Mean::MOST`].
    count: f64,
}

impl Mean {
    /// Weight of the newest value: 1 in this many.
    pub const MOST: f64 = 32.0;
    /// Values needed for a reliable average: the host may notice the end of two steps at once, and then
    /// the first seems to have taken the time of both.
    pub const SOME: f64 = 8.0;

    pub fn add(&mut self, value: f64) {
        // Caps outliers.
        let value = self.get(Mean::SOME).map_or(value, |mean| value.min(ODD * mean));
        self.count = (self.count + 1.0).min(Mean::MOST);
        self.value += (value - self.value) / self.count;
    }

    /// The average, if it has at least this many values.
    pub fn get(&self, least: f64) -> Option<f64> {
        (self.count >= least).then_some(self.value)
    }
}

/// The latest values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latest {
    values: [f64; Latest::MOST],
    /// Values so far; the next one replaces the oldest.
    count: usize,
}

impl Latest {
    /// Values kept.
    const MOST: usize = 32;
    /// Values needed for a reliable quantile.
    const SOME: usize = 8;

    pub fn add(&mut self, value: f64) {
        self.values[self.count % Latest::MOST] = value;
        self.count += 1;
    }

    /// Whether there are enough values.
    pub fn is_known(&self) -> bool {
        self.count >= Latest::SOME
    }

    /// The quantile at `share`, which is less than 1.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut values = self.values;
        let values = &mut values[..self.count.min(Latest::MOST)];
        let at = (share * values.len() as f64) as usize;
        (at < values.len()).then(|| *values.select_nth_unstable_by(at, f64::total_cmp).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_latest_values() {
        let mut latest = Latest::default();
        assert_eq!(latest.quantile(0.5), None);
        for value in [9.0, 2.0, 5.0, 3.0, 4.0, 1e9, 7.0] {
            latest.add(value);
        }
        assert!(!latest.is_known());
        latest.add(8.0);
        assert!(latest.is_known());
        let expected = [2.0, 4.0, 7.0, 1e9].map(Some);
        assert_eq!([0.0, 0.25, 0.5, 0.9].map(|share| latest.quantile(share)), expected);
        (0..32).for_each(|value| latest.add(value.into()));
        assert_eq!(latest.quantile(0.25), Some(8.0));
    }
}
