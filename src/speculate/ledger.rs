//! What drafting gains or loses in whole steps, prefill included.

use super::mean::{Latest, ODD};

/// Compares the time of steps with drafts with the time of the same work without, and limits the total
/// loss to a small share of all time.
///
/// The cost per row decides how many drafts a step has. It does not cover the rest: prefill by a draft
/// model of the executor's, waiting for tokens in flight, sequences that come and go. This ledger does.
/// Steps with drafts add their gain or loss. Steps without add a small budget, up to the cost of one
/// trial, so that drafting is tried again from time to time. The unit is the time of one step without
/// drafts.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    balance: f64,
    /// What a trial may lose.
    trial: f64,
    is_open: bool,
    /// Times that drafting was skipped as it did not seem to pay, and rounds of the trial after them.
    passed: usize,
}

impl Ledger {
    /// The share of the time without drafts that drafting may lose.
    const SHARE: f64 = 1.0 / 128.0;
    /// Factor on the time without drafts: a smaller gain than this counts as a loss.
    const WITHOUT: f64 = 0.97;
    /// Drafts per sequence in a trial.
    pub const DRAFTS: usize = 2;
    /// Rounds of a trial.
    pub const ROUNDS: usize = 4;
    /// Times that drafting is skipped before a trial.
    const PATIENCE: usize = 64;
    /// Upper limit of the balance: gains of long ago do not pay for long losses.
    const MOST: f64 = 64.0;

    /// A ledger for steps of up to this many sequences.
    pub fn new(sequences: usize) -> Ledger {
        // Running sequences have no drafts. Until they end, drafts of others pay less than they could.
        let trial = 8.0 + sequences as f64;
        Ledger { balance: trial, trial, is_open: true, passed: 0 }
    }

    /// Records a step with drafts: its time, and the time that the same work takes without.
    pub fn observe(&mut self, took: f64, without: f64) {
        let won = Ledger::WITHOUT * without - took.min(ODD * without);
        self.balance = (self.balance + won).min(Ledger::MOST);
        self.is_open &= self.balance > 0.0;
    }

    /// Records the time of a step without drafts.
    pub fn earn(&mut self, took: f64) {
        if self.balance < self.trial {
            self.balance += Ledger::SHARE * took;
        }
        self.is_open |= self.may_try();
    }

    /// Whether sequences should have drafts.
    pub fn pays(&self) -> bool {
        self.is_open
    }

    /// Whether the balance suffices for a trial.
    pub fn may_try(&self) -> bool {
        self.balance >= self.trial
    }

    /// Whether to try drafts now although they do not seem to pay.
    pub fn tries(&mut self) -> bool {
        let has_begun = self.passed > Ledger::PATIENCE;
        if !has_begun && !self.may_try() {
            return false;
        }
        self.passed += 1;
        let tries = self.passed > Ledger::PATIENCE;
        if self.passed == Ledger::PATIENCE + Ledger::ROUNDS {
            self.passed = 0;
        }
        tries
    }
}

/// One value per batch size: 1, 2, up to 4 sequences, more.
#[derive(Clone, Debug, PartialEq)]
pub struct ByBatch<T>([T; 4]);

impl<T> ByBatch<T> {
    /// Calls `new` with the largest batch of each size.
    pub fn new(new: impl Fn(usize) -> T) -> ByBatch<T> {
        ByBatch([1, 2, 4, 8].map(new))
    }

    /// The value for a batch of this many sequences.
    pub fn of(&mut self, sequences: usize) -> &mut T {
        let last = self.0.len() - 1;
        let kind = sequences.max(1).next_power_of_two().ilog2() as usize;
        &mut self.0[kind.min(last)]
    }
}

/// How long steps without drafts take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlainCosts {
    /// Seconds of steps in which 1, 2, … sequences sample, one row each.
    steps: [Latest; PlainCosts::SEQUENCES],
    /// Seconds that each further (prefill) row adds.
    more: Latest,
}

impl PlainCosts {
    const SEQUENCES: usize = 16;
    /// Few steps are measured in a pause, and times vary. So the cost is this quantile of the measured
    /// times, not their mean.
    const SHARE: f64 = 1.0 / 3.0;

    /// Records the time of a step in which `sampling` sequences sample, with `more` rows besides one
    /// for each.
    pub fn observe(&mut self, sampling: usize, more: usize, seconds: f64) {
        if more > 0 {
            if let Some(step) = self.usual(sampling) {
                self.more.add((seconds - step).max(0.0) / more as f64);
            }
        } else if let Some(steps) = sampling.checked_sub(1).and_then(|at| self.steps.get_mut(at)) {
            steps.add(seconds);
        }
    }

    /// Median seconds of a step without prefill rows in which `sampling` sequences sample.
    pub fn usual(&self, sampling: usize) -> Option<f64> {
        self.step(sampling, 0.5)
    }

    /// Seconds that such a step should take, estimated on the low side; none if too little is known.
    pub fn seconds(&self, sampling: usize, more: usize) -> Option<f64> {
        let step = self.step(sampling, PlainCosts::SHARE)?;
        match more {
            0 => Some(step),
            _ => Some(step + self.more.quantile(PlainCosts::SHARE)? * more as f64),
        }
    }

    /// A quantile of the steps without prefill rows.
    fn step(&self, sampling: usize, share: f64) -> Option<f64> {
        let sampling = sampling.max(1);
        let known = || {
            let steps = self.steps.iter().enumerate();
            steps.filter(|(_, steps)| steps.is_known()).map(|(at, steps)| (at + 1, steps))
        };
        let (low, least) = known().rfind(|(at, _)| *at <= sampling)?;
        let (high, most) = known().find(|(at, _)| *at >= sampling)?;
        let part = (sampling - low) as f64 / (high - low).max(1) as f64;
        let (least, most) = (least.quantile(share)?, most.quantile(share)?);
        Some(least + (most - least) * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps with drafts until the ledger ends drafting, at most `most`.
    fn steps(ledger: &mut Ledger, took: f64, most: usize) -> usize {
        let pays = |_: &usize| {
            let pays = ledger.pays();
            ledger.observe(took, 1.0);
            pays
        };
        (0..most).take_while(pays).count()
    }

    #[test]
    fn at_most_a_small_share_of_time_is_lost() {
        for took in [1.02, 1.1, 1.5, 3.0] {
            let mut ledger = Ledger::new(1);
            let (mut with, mut without) = (0.0, 0.0);
            for step in 0..100_000 {
                match ledger.pays() {
                    true => ledger.observe(took, 1.0),
                    false => ledger.earn(1.0),
                }
                // At first it has to find out.
                if step > 1000 {
                    *(if ledger.pays() { &mut with } else { &mut without }) += 1.0;
                }
            }
            let slower = (with * took + without) / (with + without);
            assert!(with > 0.0 && slower < 1.0 + 1.5 * Ledger::SHARE, "{slower} for {took}");
        }
    }

    #[test]
    fn drafting_goes_on_as_long_as_it_pays() {
        let mut ledger = Ledger::new(1);
        assert_eq!(steps(&mut ledger, 0.8, 1000), 1000);
        let more = steps(&mut ledger, 1.2, 1000);
        assert!((100..400).contains(&more), "{more} steps that have been won before");
        // One outlier does not end it.
        let mut ledger = Ledger::new(1);
        ledger.observe(1e9, 1.0);
        assert!(ledger.pays());
    }

    #[test]
    fn unprofitable_drafting_is_tried_now_and_then_within_the_budget() {
        let mut ledger = Ledger::new(1);
        let tries = |ledger: &mut Ledger| (0..200).filter(|_| ledger.tries()).collect::<Vec<_>>();
        let expected: Vec<usize> = [64..68, 132..136].into_iter().flatten().collect();
        assert_eq!(tries(&mut ledger), expected);
        ledger.observe(2.0, 1.0);
        assert!(ledger.pays() && tries(&mut ledger).is_empty());
        (0..200).for_each(|_| ledger.earn(1.0));
        assert!(!tries(&mut ledger).is_empty());
    }

    #[test]
    fn there_are_four_batch_sizes() {
        let mut sizes = ByBatch::new(|most| most);
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9, 16].map(|n| *sizes.of(n)), [1, 1, 2, 4, 4, 8, 8, 8, 8]);
    }

    #[test]
    fn step_costs_are_estimated_by_batch_size() {
        let mut costs = PlainCosts::default();
        let observe = |costs: &mut PlainCosts, count, sampling, more, seconds| {
            (0..count).for_each(|_| costs.observe(sampling, more, seconds));
        };
        observe(&mut costs, 7, 2, 0, 4.0);
        assert_eq!(costs.seconds(2, 0), None);
        observe(&mut costs, 1, 2, 0, 4.0);
        assert_eq!([1, 2, 3].map(|sampling| costs.seconds(sampling, 0)), [None, Some(4.0), None]);
        observe(&mut costs, 8, 4, 0, 6.0);
        assert_eq!(costs.seconds(3, 0), Some(5.0));
        assert_eq!(costs.seconds(2, 10), None);
        observe(&mut costs, 1, 2, 20, 6.0);
        assert_eq!(costs.seconds(2, 10), Some(5.0));
        observe(&mut costs, 1, 2, 80, 1e9);
        observe(&mut costs, 1, 2, 80, 12.0);
        assert_eq!(costs.seconds(4, 100), Some(16.0), "one odd step says nothing");
        // Batch sizes beyond the table are ignored.
        costs.observe(1 << 40, 0, 1.0);
        observe(&mut costs, 200, 2, 0, 8.0);
        assert!((costs.seconds(2, 0).unwrap() - 8.0).abs() < 0.1);
    }
}
