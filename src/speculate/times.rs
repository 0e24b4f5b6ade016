//! How long steps take, by the draft tokens in them.

use super::mean::Mean;

/// Seconds of the steps in which a certain number of sequences decode, one row each, by the number of
/// draft tokens beside these rows.
#[derive(Clone, Debug, Default)]
pub struct Times {
    entries: [Entry; Times::DRAFTS],
    /// Measured steps with drafts.
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    seconds: Mean,
    /// The step in which it was last measured.
    at: usize,
}

impl Times {
    /// Steps of more rows are not measured: they read the weights more than once.
    const DRAFTS: usize = 16;
    /// What a draft adds to a step, as a share of it, where nothing is measured.
    const DRAFT: f64 = 0.05;
    /// Measured steps to rely on.
    const SOME: usize = 16;
    /// Measured times count as at most this multiple of what was expected: a page that slept between two
    /// steps shows nothing about them, and a device that became slower is believed in a few steps.
    const ODD: f64 = 2.0;

    /// Whether enough steps with drafts were measured to rely on these times.
    pub fn is_known(&self) -> bool {
        self.count >= Times::SOME
    }

    /// Records the time of the step number `at`. `plain`: seconds of steps without drafts, if known.
    pub fn observe(&mut self, drafts: usize, seconds: f64, plain: Option<f64>, at: usize) {
        let expected = self.curve(plain).map(|curve| curve.seconds(drafts));
        let Some(entry) = self.entries.get_mut(drafts) else { return };
        self.count += usize::from(drafts > 0);
        // A single value counts as much as what was expected before it.
        if let (Some(expected), None) = (expected, entry.seconds.get()) {
            entry.seconds.add(expected);
        }
        entry.seconds.add(expected.map_or(seconds, |expected| seconds.min(Times::ODD * expected)));
        entry.at = at;
    }

    /// The expected times by drafts, at least those without any: `plain`. None if nothing is known.
    pub fn curve(&self, plain: Option<f64>) -> Option<Curve> {
        let first = plain.filter(|_| self.entries[0].seconds.get().is_none());
        let measured = self.entries.iter().enumerate();
        let measured = measured.filter_map(|(at, entry)| Some((at, entry.seconds.get()?)));
        let points: Vec<(usize, f64)> =
            first.map(|plain| (0, plain)).into_iter().chain(measured).collect();
        (!points.is_empty()).then(|| Curve { points, least: plain.unwrap_or(0.0) })
    }

    /// The number of the last step with this many drafts.
    pub fn measured(&self, drafts: usize) -> usize {
        self.entries.get(drafts).map_or(0, |entry| entry.at)
    }
}

/// Seconds of steps by drafts.
#[derive(Debug)]
pub struct Curve {
    /// (drafts, seconds), one or more.
    points: Vec<(usize, f64)>,
    least: f64,
}

impl Curve {
    /// The expected time of a step with this many drafts.
    pub fn seconds(&self, drafts: usize) -> f64 {
        let below = self.points.iter().rfind(|(at, _)| *at <= drafts);
        let above = self.points.iter().find(|(at, _)| *at >= drafts);
        let seconds = match (below, above) {
            (Some((low, less)), Some((high, more))) if low < high => {
                less + (more - less) * (drafts - low) as f64 / (high - low) as f64
            }
            (_, Some((_, more))) => *more,
            (Some((low, less)), None) => less * (1.0 + Times::DRAFT * (drafts - low) as f64),
            (None, None) => 0.0,
        };
        seconds.max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(times: &mut Times, drafts: usize, seconds: f64, count: usize) {
        (0..count).for_each(|at| times.observe(drafts, seconds, Some(1.0), at));
    }

    /// The expected time with `plain` seconds without drafts.
    fn seconds(times: &Times, drafts: usize, plain: Option<f64>) -> Option<f64> {
        times.curve(plain).map(|curve| curve.seconds(drafts))
    }

    fn close(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 0.02 * expected)
    }

    #[test]
    fn times_between_measured_ones_are_interpolated() {
        let mut times = Times::default();
        assert_eq!(seconds(&times, 3, None), None);
        assert_eq!(seconds(&times, 4, Some(1.0)), Some(1.2), "a little more, to be tried");
        observe(&mut times, 4, 3.0, 500);
        for (drafts, expected) in [(0, 1.0), (2, 2.0), (4, 3.0), (6, 3.3)] {
            let found = seconds(&times, drafts, Some(1.0));
            assert!(close(found, expected), "{drafts} drafts: {found:?}");
        }
    }

    #[test]
    fn a_single_odd_step_says_little_and_many_are_believed() {
        let mut times = Times::default();
        observe(&mut times, 4, 1.2, 100);
        observe(&mut times, 4, 1e9, 1);
        assert!(close(seconds(&times, 4, Some(1.0)), 1.2), "{times:?}");
        observe(&mut times, 4, 2.4, 1000);
        assert!(close(seconds(&times, 4, Some(1.0)), 2.4), "{times:?}");
    }

    #[test]
    fn few_measured_steps_are_not_relied_on() {
        let mut times = Times::default();
        observe(&mut times, 0, 1.0, 100);
        observe(&mut times, 4, 1.2, 15);
        assert!(!times.is_known());
        observe(&mut times, 3, 1.2, 1);
        assert!(times.is_known());
    }
}
