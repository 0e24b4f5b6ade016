//! What drafts are worth by whole steps, those with prompts included.

use super::mean::{Latest, ODD};

/// Weighs the time of steps with a drafter's drafts against what the same work takes without, and lets
/// them lose no more than a small share of all time.
///
/// Costs of rows say how many drafts a step should have; they do not say what it takes to read prompts
/// with a drafter of the executor's, to wait for tokens in flight, and to keep up with sequences that
/// come and go. This does: an account that steps with drafts pay into or draw from. Those without pay a
/// little into it, up to what a trial takes, to find out whether drafts are worth more now. Its unit is
/// the time of a step without drafts.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    balance: f64,
    /// What a trial may lose.
    trial: f64,
    is_open: bool,
    /// Chances passed over because drafts did not seem to pay, and those of a trial.
    passed: usize,
}

impl Ledger {
    /// The share of the time without drafts that may be lost with them.
    const SHARE: f64 = 1.0 / 128.0;
    /// What the time without drafts counts: what wins less may as well lose.
    const WITHOUT: f64 = 0.97;
    /// Drafts of a sequence in a trial of what does not seem to pay.
    pub const DRAFTS: usize = 2;
    /// Rounds of such a trial.
    pub const ROUNDS: usize = 4;
    /// Chances that are passed over before it.
    const PATIENCE: usize = 64;
    /// What has been won counts up to here: it is a loss as well if that is lost again.
    const MOST: f64 = 64.0;

    /// Nothing is known of steps of up to so many sequences.
    pub fn new(sequences: usize) -> Ledger {
        // Sequences that run already have no drafts: until they end, others do not pay as they could.
        let trial = 8.0 + sequences as f64;
        Ledger { balance: trial, trial, is_open: true, passed: 0 }
    }

    /// Takes in a step with drafts: the time it took, and would have taken without.
    pub fn observe(&mut self, took: f64, without: f64) {
        let won = Ledger::WITHOUT * without - took.min(ODD * without);
        self.balance = (self.balance + won).min(Ledger::MOST);
        self.is_open &= self.balance > 0.0;
    }

    /// Takes in the time of a step without drafts.
    pub fn earn(&mut self, took: f64) {
        if self.balance < self.trial {
            self.balance += Ledger::SHARE * took;
        }
        self.is_open |= self.may_try();
    }

    /// Whether sequences are to have drafts.
    pub fn pays(&self) -> bool {
        self.is_open
    }

    /// Whether there is enough for a trial.
    pub fn may_try(&self) -> bool {
        self.balance >= self.trial
    }

    /// Whether drafts that do not seem to pay are to be tried now.
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

/// Something for each size of batch: 1, 2, up to 4 sequences, more.
#[derive(Clone, Debug, PartialEq)]
pub struct ByBatch<T>([T; 4]);

impl<T> ByBatch<T> {
    /// `new` is told the most sequences of such a batch.
    pub fn new(new: impl Fn(usize) -> T) -> ByBatch<T> {
        ByBatch([1, 2, 4, 8].map(new))
    }

    /// That of steps with so many sequences.
    pub fn of(&mut self, sequences: usize) -> &mut T {
        let last = self.0.len() - 1;
        let kind = sequences.max(1).next_power_of_two().ilog2() as usize;
        &mut self.0[kind.min(last)]
    }
}

/// How long steps without drafts take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlainCosts {
    /// Steps in which 1, 2, … sequences draw, of a row each.
    steps: [Latest; PlainCosts::SEQUENCES],
    /// Seconds that each further row added to these, those of prompts.
    more: Latest,
}

impl PlainCosts {
    const SEQUENCES: usize = 16;
    /// Rests are short, and where steps differ much they may seem longer than they are: what counts is
    /// what this share of them took at most.
    const SHARE: f64 = 1.0 / 3.0;

    /// Takes in how long a step took in which so many sequences drew, with so many rows more than one
    /// for each.
    pub fn observe(&mut self, drawing: usize, more: usize, seconds: f64) {
        if more > 0 {
            if let Some(step) = self.usual(drawing) {
                self.more.add((seconds - step).max(0.0) / more as f64);
            }
        } else if let Some(steps) = drawing.checked_sub(1).and_then(|at| self.steps.get_mut(at)) {
            steps.add(seconds);
        }
    }

    /// How long steps take in which so many sequences draw, without prompts.
    pub fn usual(&self, drawing: usize) -> Option<f64> {
        self.step(drawing, 0.5)
    }

    /// How long such a step should take, rather less than more, as far as that is known.
    pub fn seconds(&self, drawing: usize, more: usize) -> Option<f64> {
        let step = self.step(drawing, PlainCosts::SHARE)?;
        match more {
            0 => Some(step),
            _ => Some(step + self.more.quantile(PlainCosts::SHARE)? * more as f64),
        }
    }

    /// What a share of the steps without prompts took at most.
    fn step(&self, drawing: usize, share: f64) -> Option<f64> {
        let drawing = drawing.max(1);
        let known = || {
            let steps = self.steps.iter().enumerate();
            steps.filter(|(_, steps)| steps.is_known()).map(|(at, steps)| (at + 1, steps))
        };
        let (low, least) = known().rfind(|(at, _)| *at <= drawing)?;
        let (high, most) = known().find(|(at, _)| *at >= drawing)?;
        let part = (drawing - low) as f64 / (high - low).max(1) as f64;
        let (least, most) = (least.quantile(share)?, most.quantile(share)?);
        Some(least + (most - least) * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps with the drafter until it is given up, at most `most`.
    fn steps(ledger: &mut Ledger, took: f64, most: usize) -> usize {
        let pays = |_: &usize| {
            let pays = ledger.pays();
            ledger.observe(took, 1.0);
            pays
        };
        (0..most).take_while(pays).count()
    }

    #[test]
    fn no_more_is_lost_than_a_small_share() {
        for took in [1.02, 1.1, 1.5, 3.0] {
            let mut ledger = Ledger::new(1);
            let (mut with, mut without) = (0.0, 0.0);
            for step in 0..100_000 {
                match ledger.pays() {
                    true => ledger.observe(took, 1.0),
                    false => ledger.earn(1.0),
                }
                // What is known at first has to be found out.
                if step > 1000 {
                    *(if ledger.pays() { &mut with } else { &mut without }) += 1.0;
                }
            }
            let slower = (with * took + without) / (with + without);
            assert!(with > 0.0 && slower < 1.0 + 1.5 * Ledger::SHARE, "{slower} for {took}");
        }
    }

    #[test]
    fn what_pays_goes_on_until_it_does_not() {
        let mut ledger = Ledger::new(1);
        assert_eq!(steps(&mut ledger, 0.8, 1000), 1000);
        let more = steps(&mut ledger, 1.2, 1000);
        assert!((100..400).contains(&more), "{more} steps that have been won before");
        // One odd step does not end it.
        let mut ledger = Ledger::new(1);
        ledger.observe(1e9, 1.0);
        assert!(ledger.pays());
    }

    #[test]
    fn what_does_not_seem_to_pay_is_tried_now_and_then_as_long_as_a_trial_can_be_lost() {
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
    fn batches_are_of_four_sizes() {
        let mut sizes = ByBatch::new(|most| most);
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9, 16].map(|n| *sizes.of(n)), [1, 1, 2, 4, 4, 8, 8, 8, 8]);
    }

    #[test]
    fn steps_cost_what_those_of_their_size_did() {
        let mut costs = PlainCosts::default();
        let observe = |costs: &mut PlainCosts, count, drawing, more, seconds| {
            (0..count).for_each(|_| costs.observe(drawing, more, seconds));
        };
        observe(&mut costs, 7, 2, 0, 4.0);
        assert_eq!(costs.seconds(2, 0), None);
        observe(&mut costs, 1, 2, 0, 4.0);
        assert_eq!([1, 2, 3].map(|drawing| costs.seconds(drawing, 0)), [None, Some(4.0), None]);
        observe(&mut costs, 8, 4, 0, 6.0);
        assert_eq!(costs.seconds(3, 0), Some(5.0));
        assert_eq!(costs.seconds(2, 10), None);
        observe(&mut costs, 1, 2, 20, 6.0);
        assert_eq!(costs.seconds(2, 10), Some(5.0));
        observe(&mut costs, 1, 2, 80, 1e9);
        observe(&mut costs, 1, 2, 80, 12.0);
        assert_eq!(costs.seconds(4, 100), Some(16.0), "one odd step says nothing");
        // Nothing is learnt from what there is no room for.
        costs.observe(1 << 40, 0, 1.0);
        observe(&mut costs, 200, 2, 0, 8.0);
        assert!((costs.seconds(2, 0).unwrap() - 8.0).abs() < 0.1);
    }
}
