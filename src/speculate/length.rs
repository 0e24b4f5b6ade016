//! How many draft tokens are worth verifying.

use super::mean::Mean;
use crate::step::MAX_DRAFTS;

/// The acceptance rate of drafts by their place.
#[derive(Clone, Debug, PartialEq)]
pub struct Acceptance {
    /// The share of drafts that were accepted where all drafts before them were.
    rates: [f64; MAX_DRAFTS],
}

impl Default for Acceptance {
    /// Optimistic: drafting has to be tried at first.
    fn default() -> Acceptance {
        Acceptance { rates: [0.7; MAX_DRAFTS] }
    }
}

impl Acceptance {
    /// Weight of one round in the moving average.
    const WEIGHT: f64 = 0.1;
    /// Records that the first `accepted` of `drafted` drafts were accepted.
    pub fn observe(&mut self, drafted: usize, accepted: usize) {
        for (place, rate) in self.rates.iter_mut().enumerate().take(drafted.min(accepted + 1)) {
            let hit = if place < accepted { 1.0 } else { 0.0 };
            *rate += Acceptance::WEIGHT * (hit - *rate);
        }
    }

    /// The expected number of accepted tokens of this many drafts.
    pub fn expected(&self, drafts: usize) -> f64 {
        let chances = self.rates.iter().take(drafts).scan(1.0, |chance, rate| {
            *chance *= rate;
            Some(*chance)
        });
        chances.sum()
    }
}

/// The draft tokens available for one sequence.
#[derive(Clone, Copy, Debug)]
pub struct SeqDrafts<'a> {
    /// The acceptance rate of such drafts.
    pub acceptance: &'a Acceptance,
    /// Tokens in flight: the drafter's tokens for them have to match first.
    pub pending: usize,
    /// Drafts behind these.
    pub drafts: usize,
}

impl SeqDrafts<'_> {
    /// The expected number of accepted tokens of the first `most` drafts.
    fn expected(self, most: usize) -> f64 {
        let drafts = self.drafts.min(most);
        self.acceptance.expected(self.pending + drafts) - self.acceptance.expected(self.pending)
    }
}

/// What drafts are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Worth<'a> {
    /// Seconds of a step without drafts, if known.
    pub plain: Option<f64>,
    /// Costs of steps with drafts.
    pub costs: &'a Costs,
    /// Seconds that the executor idles after a step with drafts.
    pub wait: f64,
    /// Decoding sequences: without drafts, a step has one row and brings one token for each.
    pub sequences: usize,
}

impl Worth<'_> {
    /// Steps with drafts have to be better by this factor.
    const MARGIN: f64 = 1.05;

    /// The number of drafts per sequence, at most `most`, that brings the most tokens per second.
    /// Sequences with fewer drafts use what they have. 0 if drafts do not pay.
    pub fn best(self, proposed: &[SeqDrafts], most: usize) -> usize {
        let costs = self.costs.anchored(self.sequences, self.plain);
        let plain = costs.seconds(self.sequences);
        let sequences = self.sequences as f64;
        let mut best = (0, Worth::MARGIN * sequences / plain);
        for drafts in 1..=most {
            let more: usize = proposed.iter().map(|proposed| proposed.drafts.min(drafts)).sum();
            let expected: f64 = proposed.iter().map(|proposed| proposed.expected(drafts)).sum();
            let seconds = costs.seconds(self.sequences + more) + self.wait;
            let found = (sequences + expected) / seconds;
            if found > best.1 {
                best = (drafts, found);
            }
        }
        best.0
    }
}

/// Measured times of steps with drafts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// Seconds of steps with 1, 2, … rows, draft rows included.
    steps: [Mean; Costs::ROWS],
}

impl Costs {
    /// Steps with more rows are not recorded: they read the weights more than once.
    pub const ROWS: usize = 16;
    /// Cost of a further row as a share of the first, where nothing is measured.
    const ROW: f64 = 0.05;

    /// Records the time of a step with drafts and without prefill rows.
    pub fn observe(&mut self, rows: usize, seconds: f64) {
        if let Some(mean) = rows.checked_sub(1).and_then(|at| self.steps.get_mut(at)) {
            mean.add(seconds);
        }
    }

    /// The same costs, but with `seconds`, if known, for steps of `rows` rows, and without measurements
    /// of smaller steps.
    fn anchored(&self, rows: usize, seconds: Option<f64>) -> Costs {
        let mut costs = self.clone();
        if let Some(seconds) = seconds {
            let before = rows.min(Costs::ROWS);
            costs.steps[..before].fill(Mean::default());
            costs.observe(before, seconds);
        }
        costs
    }

    /// Expected seconds of a step with this many rows; in an arbitrary unit while nothing is measured.
    pub fn seconds(&self, rows: usize) -> f64 {
        let known = || {
            let means = self.steps.iter().enumerate();
            means.filter_map(|(at, mean)| Some((at + 1, mean.get(1.0)?)))
        };
        let below = known().rfind(|(at, _)| *at <= rows);
        let above = known().find(|(at, _)| *at >= rows);
        match (below, above) {
            (Some((low, least)), Some((high, most))) if low < high => {
                least + (most - least) * (rows - low) as f64 / (high - low) as f64
            }
            (_, Some((_, seconds))) => seconds,
            (Some((at, seconds)), None) => {
                // Extrapolates with the slope of the last two.
                let before = known().rfind(|(other, _)| *other < at);
                let slope = before.map_or(Costs::ROW * seconds, |(other, less)| {
                    ((seconds - less) / (at - other) as f64).max(0.0)
                });
                seconds + slope * (rows - at) as f64
            }
            (None, None) => 1.0 + Costs::ROW * rows as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(of: impl Fn(usize) -> f64) -> Costs {
        let mut costs = Costs::default();
        for rows in [1, 2, 4, 8, 16] {
            costs.observe(rows, of(rows));
        }
        costs
    }

    fn learned(drafted: usize, accepted: usize) -> Acceptance {
        let mut acceptance = Acceptance::default();
        for _ in 0..100 {
            acceptance.observe(drafted, accepted);
        }
        acceptance
    }

    /// The best number of drafts for this many equal sequences.
    fn best(acceptance: &Acceptance, costs: &Costs, sequences: usize, most: usize) -> usize {
        let worth = Worth { plain: None, costs, wait: 0.0, sequences };
        worth.best(&vec![SeqDrafts { acceptance, pending: 0, drafts: 7 }; sequences], most)
    }

    #[test]
    fn the_number_of_drafts_is_the_best_one() {
        let flat = costs(|rows| 1.0 + 0.02 * rows as f64);
        let steep = costs(|rows| rows as f64);
        assert_eq!(best(&learned(7, 7), &flat, 1, 7), 7, "always accepted, nearly free");
        assert_eq!(best(&learned(7, 7), &flat, 1, 3), 3);
        assert_eq!(best(&learned(7, 0), &flat, 1, 7), 0, "always rejected");
        assert_eq!(best(&learned(7, 2), &flat, 1, 7), 2, "the first two are accepted");
        assert_eq!(best(&learned(7, 7), &steep, 1, 7), 0, "each row costs what it brings");
        assert_eq!(best(&learned(7, 7), &flat, 1, 0), 0);
        assert!(best(&Acceptance::default(), &Costs::default(), 1, 7) > 0, "it is tried");
    }

    #[test]
    fn drafts_that_few_sequences_have_are_counted_for_these_alone() {
        // Rows are computed in fours: the fifth is expensive, and the next three cost nothing more.
        let mut costs = Costs::default();
        (1..=16).for_each(|rows| costs.observe(rows, 0.3 + 0.7 * rows.div_ceil(4) as f64));
        let acceptance = learned(7, 7);
        let worth = Worth { plain: None, costs: &costs, wait: 0.0, sequences: 4 };
        let proposed = |drafts| SeqDrafts { acceptance: &acceptance, pending: 0, drafts };
        assert_eq!(worth.best(&[proposed(3)], 3), 0, "7 tokens in the time of 1.7 steps");
        assert_eq!(worth.best(&[proposed(3); 2], 3), 2, "8 tokens; more would take more");
        let some = [proposed(3), proposed(1), proposed(1)];
        assert_eq!(worth.best(&some, 3), 2, "as far as they reach");
        let wait = Worth { wait: 0.5, ..worth };
        assert_eq!(wait.best(&[proposed(3); 2], 3), 0);
    }

    #[test]
    fn drafts_behind_tokens_in_flight_need_these_to_be_accepted() {
        let flat = costs(|rows| 1.0 + 0.02 * rows as f64);
        let (mut acceptance, best) = (learned(7, 7), |acceptance: &Acceptance, pending| {
            let worth = Worth { plain: None, costs: &flat, wait: 0.0, sequences: 1 };
            worth.best(&[SeqDrafts { acceptance, pending, drafts: 2 }], 2)
        });
        assert_eq!(best(&acceptance, 1), 2);
        // The first one is rejected.
        (0..100).for_each(|_| acceptance.observe(1, 0));
        assert_eq!((best(&acceptance, 0), best(&acceptance, 1)), (0, 0));
        acceptance.rates = [0.2, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        assert_eq!((best(&acceptance, 0), best(&acceptance, 1)), (2, 2));
        acceptance.rates[1] = 0.1;
        assert_eq!((best(&acceptance, 0), best(&acceptance, 1)), (1, 0));
    }

    #[test]
    fn costs_of_drafts_start_from_those_of_steps_without() {
        let mut costs = Costs::default();
        let acceptance = Acceptance::default();
        let best = |costs: &Costs, sequences| {
            let worth = Worth { plain: Some(1e-3), costs, wait: 0.0, sequences };
            let proposed = SeqDrafts { acceptance: &acceptance, pending: 0, drafts: 7 };
            worth.best(&vec![proposed; sequences], 7)
        };
        assert!(best(&costs, 1) > 0, "nothing is known of drafts: they are tried");
        costs.observe(8, 8e-3);
        assert_eq!(best(&costs, 1), 0, "each row costs as much as a step");
        costs.observe(3, 1.1e-3);
        assert_eq!(best(&costs, 1), 2, "the first two drafts cost little");
        let mut of_two = Costs::default();
        of_two.observe(1, 1.0);
        of_two.observe(8, 1.5e-3);
        assert_eq!(best(&of_two, 2), 3, "steps of fewer rows say nothing");
    }

    #[test]
    fn costs_between_measured_ones_are_interpolated() {
        let mut costs = Costs::default();
        costs.observe(1, 2.0);
        assert_eq!(costs.seconds(1), 2.0);
        assert!((costs.seconds(3) - 2.2).abs() < 1e-9, "a little more, to be tried");
        costs.observe(5, 4.0);
        assert_eq!([3, 5, 7].map(|rows| costs.seconds(rows)), [3.0, 4.0, 5.0]);
        costs.observe(17, 1e9);
        assert_eq!(costs.seconds(7), 5.0, "long steps say nothing");
        (0..9).for_each(|_| costs.observe(5, 4.0));
        costs.observe(5, 1e9);
        assert!(costs.seconds(5) < 6.0, "nor does one odd step say much");
    }
}
