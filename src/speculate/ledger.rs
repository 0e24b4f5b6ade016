//! What an executor's drafter is worth by whole steps, those with prompts included.

/// How many times as long as usual a step may have taken; what is beyond does not count.
const ODD: f64 = 4.0;

/// Weighs the time of steps with the drafter against what the same work takes without it.
///
/// Costs of rows say how many drafts a step should have; they do not say what it takes to read prompts
/// with the drafter and to keep up with sequences that come and go. This does, and ends what loses.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    /// Seconds of late steps with the drafter, and what they would have been without.
    took: f64,
    without: f64,
    /// What is left of a trial: steps and sequences. Nothing is decided before either has run out.
    steps: usize,
    sequences: usize,
    /// Most sequences that run at a time.
    at_a_time: usize,
    /// Tokens that came without the drafter since it was last used, and how many have to before it is
    /// tried again.
    passed: usize,
    patience: usize,
}

impl Ledger {
    /// Steps of a trial.
    const STEPS: usize = 32;
    /// The same of sequences, for each of those that run at a time.
    const SEQUENCES: usize = 8;
    /// What remains of a step's weight after each later one.
    const MEMORY: f64 = 1.0 - 1.0 / 48.0;
    /// Tokens without the drafter before the next trial: twice as many each time that it fails.
    const LEAST: usize = 512;
    const MOST: usize = 16384;

    /// Nothing is known of steps of up to so many sequences: a trial begins.
    fn new(at_a_time: usize, patience: usize) -> Ledger {
        Ledger {
            took: 0.0,
            without: 0.0,
            steps: Ledger::STEPS,
            sequences: Ledger::SEQUENCES * at_a_time,
            at_a_time,
            passed: 0,
            patience,
        }
    }

    /// Takes in a step with the drafter: the seconds it took, and would have taken without.
    pub fn observe(&mut self, took: f64, without: f64) {
        let was_tried = self.is_tried();
        self.passed = 0;
        self.took = self.took * Ledger::MEMORY + took.min(ODD * without);
        self.without = self.without * Ledger::MEMORY + without;
        self.steps = self.steps.saturating_sub(1);
        if self.is_tried() && !was_tried && self.pays() {
            self.patience = Ledger::LEAST;
        }
    }

    /// A sequence begins with the drafter.
    pub fn begin(&mut self) {
        self.sequences = self.sequences.saturating_sub(1);
    }

    /// A token came to a sequence without the drafter.
    pub fn pass(&mut self) {
        self.passed += 1;
        if self.passed >= self.patience {
            let patience = (2 * self.patience).min(Ledger::MOST);
            *self = Ledger::new(self.at_a_time, patience);
        }
    }

    /// Whether enough is known to decide.
    pub fn is_tried(&self) -> bool {
        self.steps == 0 || self.sequences == 0
    }

    /// Whether sequences are to have drafts, for a trial or because they are worth it.
    pub fn pays(&self) -> bool {
        !self.is_tried() || self.took < self.without
    }
}

/// By the number of sequences: 1, 2, up to 4, more.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledgers([Ledger; 4]);

impl Default for Ledgers {
    fn default() -> Ledgers {
        Ledgers([1, 2, 4, 8].map(|at_a_time| Ledger::new(at_a_time, Ledger::LEAST)))
    }
}

impl Ledgers {
    /// That of steps with so many sequences.
    pub fn of(&mut self, sequences: usize) -> &mut Ledger {
        let last = self.0.len() - 1;
        let kind = sequences.max(1).next_power_of_two().ilog2() as usize;
        &mut self.0[kind.min(last)]
    }
}

/// How long steps take in which an executor's drafter has no part, on average.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainCosts {
    /// Of steps without prompts by their rows, then of those with prompts by half octaves of theirs.
    kinds: [Mean; PlainCosts::KINDS],
}

/// An average of late values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mean {
    value: f64,
    /// Values so far, at most as many as count.
    count: f64,
}

impl Default for PlainCosts {
    fn default() -> PlainCosts {
        PlainCosts { kinds: [Mean::default(); PlainCosts::KINDS] }
    }
}

impl PlainCosts {
    /// Most rows of steps without prompts.
    const DECODED: usize = 16;
    const KINDS: usize = 48;
    /// Late steps that count, and how many there have to be before they say anything: what a step took
    /// is not known well where it ran while others did.
    const STEPS: f64 = 16.0;
    const LEAST: f64 = 4.0;

    /// Takes in how long a step took, with prompts or without.
    pub fn observe(&mut self, rows: usize, prompts: bool, seconds: f64) {
        let found = seconds / rows as f64;
        if let Some(Mean { value, count }) = self.kinds.get_mut(PlainCosts::kind(rows, prompts)) {
            // One odd step should not say too much.
            let found = if *count > 0.0 { found.min(ODD * *value) } else { found };
            *count = (*count + 1.0).min(PlainCosts::STEPS);
            *value += (found - *value) / *count;
        }
    }

    /// How long a step of so many rows should take, if there were enough such.
    pub fn seconds(&self, rows: usize, prompts: bool) -> Option<f64> {
        let kind = self
            .kinds
            .get(PlainCosts::kind(rows, prompts))
            .filter(|kind| kind.count >= PlainCosts::LEAST);
        kind.map(|kind| kind.value * rows as f64)
    }

    fn kind(rows: usize, prompts: bool) -> usize {
        match prompts {
            true => PlainCosts::DECODED + 1 + (2.0 * (rows.max(1) as f64).log2()) as usize,
            false => rows.min(PlainCosts::DECODED),
        }
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
    fn what_loses_is_given_up_after_a_trial_and_tried_ever_less_often() {
        let mut ledger = Ledger::new(1, Ledger::LEAST);
        let mut without = Vec::new();
        for _ in 0..4 {
            assert_eq!(steps(&mut ledger, 1.1, 1000), Ledger::STEPS);
            assert!(!ledger.pays());
            let mut passed = 0;
            while !ledger.pays() {
                ledger.pass();
                passed += 1;
            }
            without.push(passed);
        }
        assert_eq!(without, [512, 1024, 2048, 4096]);
    }

    #[test]
    fn what_pays_goes_on_until_it_does_not() {
        let mut ledger = Ledger::new(1, Ledger::LEAST);
        assert_eq!(steps(&mut ledger, 0.8, 1000), 1000);
        ledger.pass();
        assert!(ledger.is_tried() && ledger.pays());
        let more = steps(&mut ledger, 1.2, 1000);
        assert!((10..100).contains(&more), "{more} steps");
    }

    #[test]
    fn a_trial_ends_though_its_sequences_draft_nothing() {
        let mut ledger = Ledger::new(1, Ledger::LEAST);
        for _ in 0..Ledger::SEQUENCES {
            assert!(ledger.pays());
            ledger.begin();
        }
        assert!(!ledger.pays());
    }

    #[test]
    fn steps_cost_what_those_of_their_size_did() {
        let mut costs = PlainCosts::default();
        (0..3).for_each(|_| costs.observe(40, true, 4.0));
        assert_eq!(costs.seconds(40, true), None);
        costs.observe(40, true, 4.0);
        assert_eq!(costs.seconds(40, true), Some(4.0));
        assert_eq!(costs.seconds(44, true), Some(4.4));
        assert_eq!(costs.seconds(80, true), None);
        (0..4).for_each(|_| costs.observe(4, false, 1.0));
        assert_eq!([3, 4, 5].map(|rows| costs.seconds(rows, false)), [None, Some(1.0), None]);
        assert_eq!(costs.seconds(4, true), None);
        costs.observe(1 << 40, true, 1.0);
        (0..200).for_each(|_| costs.observe(40, true, 8.0));
        assert!((costs.seconds(40, true).unwrap() - 8.0).abs() < 1e-3);
    }
}
