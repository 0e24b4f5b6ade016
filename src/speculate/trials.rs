//! When what does not seem to pay is tried all the same.

/// Tells when to try an executor's drafter again, and when to do without it for a while, so that what
/// either costs is known.
///
/// A drafter that has not read all of a sequence is seldom right. So drafts are tried with new
/// sequences, from their prompts on.
#[derive(Clone, Debug, PartialEq)]
pub struct Trials {
    drafts: Interval,
    plain: Interval,
    /// Choices left that are to go without.
    left: usize,
}

impl Default for Trials {
    /// Nothing is known: both are due.
    fn default() -> Trials {
        let due = Interval { passed: Interval::LEAST, length: Interval::LEAST };
        Trials { drafts: due.clone(), plain: due, left: 0 }
    }
}

impl Trials {
    /// Rounds of a sequence that tries drafts.
    pub const ROUNDS: usize = 4;
    /// Steps without drafts of a trial. The first is slower than the others, which are submitted while
    /// the one before them runs.
    const STEPS: usize = 8;

    /// Whether a new sequence is to try drafts; `pays` says whether it has them anyhow.
    pub fn begin(&mut self, pays: bool) -> bool {
        if pays && self.drafts.passed > 0 && self.drafts.length > Interval::LEAST {
            self.drafts = Interval { passed: 0, length: Interval::LEAST };
        }
        self.drafts.is_due()
    }

    /// A sequence goes without drafts.
    pub fn pass(&mut self) {
        self.drafts.passed += 1;
    }

    /// Whether one of so many sequences that has drafts is to go without them this time.
    pub fn goes_without(&mut self, sequences: usize) -> bool {
        if self.left == 0 {
            self.plain.passed += 1;
            if self.plain.is_due() {
                self.left = Trials::STEPS * sequences;
            }
        }
        let goes_without = self.left > 0;
        self.left = self.left.saturating_sub(1);
        goes_without
    }
}

/// Becomes longer each time.
#[derive(Clone, Debug, PartialEq)]
struct Interval {
    passed: usize,
    length: usize,
}

impl Interval {
    const LEAST: usize = 64;
    const MOST: usize = 2048;

    fn is_due(&mut self) -> bool {
        let is_due = self.passed >= self.length;
        if is_due {
            *self = Interval { passed: 0, length: (2 * self.length).min(Interval::MOST) };
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_are_tried_at_first_and_then_less_and_less_often() {
        let mut trials = Trials::default();
        let mut tried = Vec::new();
        for token in 0..1000 {
            if trials.begin(false) {
                tried.push(token);
            }
            trials.pass();
        }
        assert_eq!(tried, [0, 128, 384, 896]);
        // Once they pay it is not long until the next trial.
        assert!(!trials.begin(true));
        (0..64).for_each(|_| trials.pass());
        assert!(trials.begin(false));
    }

    #[test]
    fn steps_without_drafts_are_measured_at_first_and_then_now_and_then() {
        let mut trials = Trials::default();
        let without: Vec<usize> = (0..400).filter(|_| trials.goes_without(1)).collect();
        let expected: Vec<usize> = [0..8, 135..143, 398..400].into_iter().flatten().collect();
        assert_eq!(without, expected);
        let mut of_four = Trials::default();
        assert_eq!((0..100).filter(|_| of_four.goes_without(4)).count(), 32);
    }
}
