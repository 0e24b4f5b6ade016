//! When the executor's drafter rests, so that what steps without it cost is known.

/// Tells when sequences that have drafts go without them for a few steps.
///
/// Sequences that begin meanwhile stay without: steps with prompts are to be known, too, and a drafter
/// that has not read a prompt is seldom right.
#[derive(Clone, Debug, PartialEq)]
pub struct Rests {
    /// Choices since the last rest, and how many there are to be before the next.
    passed: usize,
    length: usize,
    /// Choices left of the one that goes on.
    left: usize,
    /// Further ones that it may take until a prompt has been seen.
    more: usize,
}

impl Default for Rests {
    /// Nothing is known: one is due.
    fn default() -> Rests {
        Rests { passed: Rests::LEAST, length: Rests::LEAST, left: 0, more: 0 }
    }
}

impl Rests {
    /// Steps of a rest. The first is slower than the others, which are submitted while the one before
    /// them runs.
    const STEPS: usize = 8;
    /// Further steps in which a prompt may come.
    const MORE: usize = 24;
    /// Choices between two rests: each time twice as many.
    const LEAST: usize = 64;
    const MOST: usize = 2048;

    /// Whether one of so many sequences that has drafts is to go without them this time.
    pub fn goes_without(&mut self, sequences: usize) -> bool {
        if self.left == 0 && self.more == 0 {
            self.passed += 1;
            if self.passed >= self.length {
                self.passed = 0;
                self.length = (2 * self.length).min(Rests::MOST);
                (self.left, self.more) = (Rests::STEPS * sequences, Rests::MORE * sequences);
            }
        }
        let rests = self.is_on();
        match self.left {
            0 => self.more = self.more.saturating_sub(1),
            _ => self.left -= 1,
        }
        rests
    }

    /// Whether there is a rest now.
    pub fn is_on(&self) -> bool {
        self.left + self.more > 0
    }

    /// A prompt has been read without the drafter.
    pub fn saw_prompt(&mut self) {
        self.more = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_rest_at_first_and_then_ever_less_often() {
        let mut rests = Rests::default();
        let mut without = Vec::new();
        for token in 0..400 {
            if rests.goes_without(1) {
                without.push(token);
            }
            rests.saw_prompt();
        }
        let expected: Vec<usize> = [0..8, 135..143, 398..400].into_iter().flatten().collect();
        assert_eq!(without, expected);
        let mut of_four = Rests::default();
        let goes_without = |_: &usize| {
            let goes_without = of_four.goes_without(4);
            of_four.saw_prompt();
            goes_without
        };
        assert_eq!((0..100).filter(goes_without).count(), 32);
    }

    #[test]
    fn a_rest_waits_for_a_prompt_but_not_for_ever() {
        let mut rests = Rests::default();
        assert_eq!((0..60).filter(|_| rests.goes_without(1)).count(), 32);
        assert!(!rests.is_on());
    }
}
