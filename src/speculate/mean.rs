//! Moving averages of measured values.

/// A moving average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    value: f64,
    /// Values so far, at most [`Mean::MOST`].
    count: f64,
}

impl Mean {
    /// Weight of the newest value: 1 in this many.
    const MOST: f64 = 128.0;

    /// Adds a value that counts as at most twice the average: a page that slept in a step shows nothing about
    /// steps, and if they really became slower, a few of them are believed.
    pub fn add_capped(&mut self, value: f64) {
        self.add(self.get().map_or(value, |mean| value.min(2.0 * mean)));
    }

    pub fn add(&mut self, value: f64) {
        self.count = (self.count + 1.0).min(Mean::MOST);
        self.value += (value - self.value) / self.count;
    }

    /// Values that it is the average of, at most [`Mean::MOST`].
    pub fn count(&self) -> f64 {
        self.count
    }

    /// The average; none before the first value.
    pub fn get(&self) -> Option<f64> {
        (self.count > 0.0).then_some(self.value)
    }
}

/// Seconds per unit of something, from averages of both.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    amount: Mean,
    seconds: Mean,
}

impl Rate {
    pub fn add(&mut self, amount: f64, seconds: f64) {
        self.amount.add(amount);
        self.seconds.add(seconds);
    }

    /// Adds a measurement that counts as at most twice what was expected.
    pub fn add_capped(&mut self, amount: f64, seconds: f64) {
        let most = self.get().map_or(seconds, |rate| 2.0 * rate * amount);
        self.add(amount, seconds.min(most));
    }

    /// Measurements that it is the average of, at most [`Mean::MOST`].
    pub fn count(&self) -> f64 {
        self.amount.count()
    }

    /// Seconds per unit; none before the first measurement.
    pub fn get(&self) -> Option<f64> {
        let amount = self.amount.get().filter(|amount| *amount > 0.0)?;
        Some(self.seconds.get()? / amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_is_of_the_latest_values() {
        let mut mean = Mean::default();
        assert_eq!(mean.get(), None);
        for (value, expected) in [(4.0, 4.0), (2.0, 3.0), (6.0, 4.0)] {
            mean.add(value);
            assert_eq!(mean.get(), Some(expected));
        }
        (0..4000).for_each(|_| mean.add(7.0));
        assert!(mean.get().is_some_and(|mean| (mean - 7.0).abs() < 1e-9));
    }
}
