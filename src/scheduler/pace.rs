//! How many rows a step may have to stay within the time target, and whether copies of blocks are faster.

use std::time::Duration;

use crate::speculate::{Mean, Rate};

/// Estimates the cost of a row from measured steps.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Target for the longest step, in seconds.
    target: f64,
    /// The executor's limit of rows per step.
    most: usize,
    /// Lower limit of rows from the second step on.
    least: usize,
    rows: usize,
    /// Seconds per row of the last large step; 0 while unknown.
    per_row: f64,
    /// Seconds of small steps, which hardly depend on their rows.
    small: Mean,
    /// Seconds per token whose keys and values were restored from host memory.
    restored: Rate,
    /// Steps since something was.
    since_restored: u32,
}

impl Pace {
    /// Rows of the first steps, while nothing is measured.
    const FIRST: usize = 64;
    /// Lower limit: the weights are read once for this many rows, so fewer are hardly faster.
    const LEAST: usize = 16;
    /// Seconds of a long step.
    const LONG: f64 = 0.03;
    /// On a slow device a step may take this many times as long as a small one, and miss the target by
    /// this factor: shorter ones would compute hardly anything but what small ones do.
    const SLOW: (f64, f64) = (2.0, 10.0);

    /// Steps that have restored something before their time counts: memory is allocated in the first.
    const COPIES: f64 = 4.0;
    /// Steps without any after which their time is forgotten: it may have been something else that took it.
    const FORGOTTEN: u32 = 500;

    pub fn new(target: f64, most: usize) -> Pace {
        let rows = if target.is_finite() { most.min(Pace::FIRST) } else { most };
        Pace {
            target,
            most,
            least: Pace::LEAST,
            rows,
            per_row: 0.0,
            small: Mean::default(),
            restored: Rate::default(),
            since_restored: 0,
        }
    }

    /// For a device on which each row may take a second: its first step has one.
    pub fn row_by_row(self) -> Pace {
        let rows = if self.target.is_finite() { 1 } else { self.rows };
        Pace { least: 2, rows, ..self }
    }

    /// Rows that the next step may have.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether a step of this many rows takes much longer than the host needs between two steps.
    pub fn is_long(&self, rows: usize) -> bool {
        rows >= self.least && rows as f64 * self.per_row > Pace::LONG
    }

    /// Time for a row of a prompt, once known.
    pub fn row_time(&self) -> Option<Duration> {
        (self.per_row > 0.0).then(|| Duration::from_secs_f64(self.per_row))
    }

    /// Records the time of a step that restored this many tokens from host memory, beside its rows if it has any.
    /// Returns how much of it that took.
    pub fn observe_restored(&mut self, tokens: usize, rows: usize, took: Duration) -> Duration {
        self.since_restored = 0;
        let computing = match rows {
            0 => Some(0.0),
            _ if rows < self.least => self.small.get(),
            _ => self.row_time().map(|row| rows as f64 * row.as_secs_f64()),
        };
        if let Some(computing) = computing {
            self.restored.add_capped(tokens as f64, (took.as_secs_f64() - computing).max(0.0));
        }
        let token = self.restored.get().unwrap_or(0.0);
        Duration::from_secs_f64(token * tokens as f64)
    }

    /// Whether tokens are restored sooner than computed. So unless the opposite was measured.
    pub fn restoring_pays(&self) -> bool {
        let token = self.restored.get().filter(|_| self.restored.count() >= Pace::COPIES);
        token.is_none_or(|token| self.per_row == 0.0 || token < self.per_row)
    }

    /// Records the time of a step. `decoding`: seconds that the sequences which decode, and their drafts, took
    /// of it, if known.
    pub fn observe(&mut self, rows: usize, took: Duration, decoding: Option<f64>) {
        let took = took.as_secs_f64();
        self.since_restored = self.since_restored.saturating_add(1);
        if self.since_restored > Pace::FORGOTTEN {
            self.restored = Rate::default();
        }
        if rows >= self.least {
            self.per_row = took / rows as f64;
        } else {
            self.small.add_capped(took);
        }
        let (times, factor) = Pace::SLOW;
        let small = self.small.get().unwrap_or(0.0).max(decoding.unwrap_or(0.0));
        let target = self.target.max((times * small).min(factor * self.target));
        // Aims below the target, because rows of longer contexts take longer.
        let room = 0.8 * target / took.max(1e-6);
        // Short steps do not predict long ones, and a single outlier must not change much.
        if room < 1.0 || 2 * rows > self.rows {
            let wanted = rows as f64 * room.clamp(0.5, 2.0);
            // How slow small steps are has to be measured before large ones are called slow.
            let least = if self.small.count() > 0.0 { self.least } else { self.least / 2 };
            self.rows = (wanted as usize).clamp(least.min(self.most), self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs steps of as many rows as allowed on a device with these costs.
    fn settle(pace: &mut Pace, fixed: f64, row: f64) -> f64 {
        for _ in 0..20 {
            let took = fixed + row * pace.rows() as f64;
            pace.observe(pace.rows(), Duration::from_secs_f64(took), None);
        }
        fixed + row * pace.rows() as f64
    }

    #[test]
    fn steps_come_close_to_the_target_and_stay_below() {
        for (fixed, row) in [(0.001, 0.001), (0.05, 0.002), (0.0, 0.01)] {
            let mut pace = Pace::new(0.2, 1024);
            let took = settle(&mut pace, fixed, row);
            assert!((0.1..0.2).contains(&took), "{took} s a step at {fixed} + {row} n");
        }
    }

    #[test]
    fn fast_devices_get_all_rows_and_slow_ones_the_least() {
        let mut pace = Pace::new(0.2, 256);
        settle(&mut pace, 0.001, 1e-6);
        assert_eq!(pace.rows(), 256);
        settle(&mut pace, 1.0, 0.1);
        assert_eq!(pace.rows(), Pace::LEAST);
        settle(&mut pace, 0.001, 1e-6);
        assert_eq!(pace.rows(), 256);
    }

    #[test]
    fn a_device_whose_small_steps_are_slow_gets_rows_that_cost_little_more() {
        let (mut pace, took) = (Pace::new(0.1, 256), |rows| 0.08 + 0.0005 * rows as f64);
        for _ in 0..50 {
            for rows in [2, pace.rows()] {
                pace.observe(rows, Duration::from_secs_f64(took(rows)), None);
            }
        }
        assert!((96..=160).contains(&pace.rows()), "{} rows", pace.rows());
        pace.observe(pace.rows(), Duration::from_secs(5), None);
        assert!(pace.rows() >= 48, "one outlier halves them: {} rows", pace.rows());
    }

    #[test]
    fn where_only_large_steps_come_a_small_one_is_measured() {
        let mut pace = Pace::new(0.1, 256);
        settle(&mut pace, 0.08, 0.0005);
        assert!((96..=160).contains(&pace.rows()), "{} rows", pace.rows());
    }

    #[test]
    fn what_drafts_take_of_a_step_is_not_taken_from_prompts() {
        let mut pace = Pace::new(0.1, 256);
        settle(&mut pace, 0.08, 0.0005);
        for _ in 0..20 {
            let took = Duration::from_secs_f64(0.13 + 0.0005 * pace.rows() as f64);
            pace.observe(pace.rows(), took, Some(0.13));
        }
        assert!((96..=160).contains(&pace.rows()), "{} rows", pace.rows());
    }

    #[test]
    fn a_device_that_computes_row_by_row_begins_with_one() {
        let (mut pace, mut longest) = (Pace::new(0.1, 256).row_by_row(), 0.0f64);
        assert_eq!(pace.rows(), 1);
        for _ in 0..20 {
            let took = 0.36 * pace.rows() as f64;
            longest = longest.max(took);
            pace.observe(pace.rows(), Duration::from_secs_f64(took), None);
        }
        // Two cost twice as much as one, and no more.
        assert_eq!((pace.rows(), longest), (2, 0.72));
        let took = settle(&mut Pace::new(0.1, 256).row_by_row(), 0.0, 0.001);
        assert!((0.05..0.1).contains(&took), "{took} s a step");
        assert_eq!(Pace::new(f64::INFINITY, 256).row_by_row().rows(), 256);
    }

    #[test]
    fn what_copies_took_is_forgotten() {
        let mut pace = Pace::new(0.2, 256);
        let step = Duration::from_millis(64);
        pace.observe(64, step, None);
        for _ in 0..4 {
            assert!(pace.restoring_pays());
            assert_eq!(pace.observe_restored(16, 64, 2 * step), step);
        }
        assert!(!pace.restoring_pays());
        (0..=Pace::FORGOTTEN).for_each(|_| pace.observe(64, step, None));
        assert!(pace.restoring_pays());
    }

    #[test]
    fn decode_steps_say_nothing_about_prompts() {
        let mut pace = Pace::new(0.2, 256);
        pace.observe(1, Duration::from_millis(1), None);
        assert_eq!(pace.rows(), Pace::FIRST);
    }
}
