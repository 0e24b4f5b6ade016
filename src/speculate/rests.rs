//! When the executor's drafter rests, so that what steps without it cost is known.

/// Tells when sequences that have drafts go without them for a few steps.
///
/// Sequences that begin meanwhile stay without: steps with prompts are to be known, too, and a drafter
/// that has not read a prompt is seldom right.
#[derive(Clone, Debug, PartialEq)]
pub struct Rests {
    /// Steps since the last rest, and how many there are to be before the next.
    passed: f64,
    length: f64,
    /// Steps left of the one that goes on.
    left: f64,
    /// Further ones that it may take until a prompt has been seen.
    more: f64,
}

impl Default for Rests {
    /// Nothing is known: one is due.
    fn default() -> Rests {
        Rests { passed: Rests::LEAST, length: Rests::LEAST, left: 0.0, more: 0.0 }
    }
}

impl Rests {
    /// Steps of a rest. The first is slower than the others, which are submitted while the one before
    /// them runs.
    const STEPS: f64 = 8.0;
    /// Further steps in which a prompt may come.
    const MORE: f64 = 8.0;
    /// Steps between two rests: each time twice as many.
    const LEAST: f64 = 64.0;
    const MOST: f64 = 2048.0;

    /// Whether one of so many sequences that has drafts is to go without them this time.
    pub fn goes_without(&mut self, sequences: usize) -> bool {
        // It is asked for each of them.
        let step = 1.0 / sequences as f64;
        if !self.is_on() {
            self.passed += step;
            if self.passed >= self.length {
                let length = (2.0 * self.length).min(Rests::MOST);
                *self = Rests { passed: 0.0, length, left: Rests::STEPS, more: Rests::MORE };
            }
        }
        let rests = self.is_on();
        match self.left > 0.0 {
            true => self.left -= step,
            false => self.more -= step,
        }
        rests
    }

    /// Whether there is a rest now.
    pub fn is_on(&self) -> bool {
        self.left > 0.0 || self.more > 0.0
    }

    /// A prompt has been read without the drafter.
    pub fn saw_prompt(&mut self) {
        self.more = 0.0;
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
        assert_eq!((0..200).filter(goes_without).count(), 32);
    }

    #[test]
    fn a_rest_waits_for_a_prompt_but_not_for_ever() {
        let mut rests = Rests::default();
        assert_eq!((0..60).filter(|_| rests.goes_without(1)).count(), 16);
        assert!(!rests.is_on());
    }
}
