//! Averages of what steps take.

/// How many times as long as usual a step may have taken; what is beyond does not count.
pub const ODD: f64 = 4.0;

/// An average of late values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    value: f64,
    /// Values so far, at most as many as count.
    count: f64,
}

impl Mean {
    /// Late values that count.
    pub const MOST: f64 = 32.0;
    /// So many are to be relied on: the host may notice two steps at once, and then the first seems to
    /// have taken all the time of both.
    pub const SOME: f64 = 8.0;

    pub fn add(&mut self, value: f64) {
        // One odd value should not say too much.
        let value = self.get(Mean::SOME).map_or(value, |mean| value.min(ODD * mean));
        self.count = (self.count + 1.0).min(Mean::MOST);
        self.value += (value - self.value) / self.count;
    }

    /// The average, if it is one of at least so many values.
    pub fn get(&self, least: f64) -> Option<f64> {
        (self.count >= least).then_some(self.value)
    }
}
