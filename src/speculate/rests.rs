//! When nothing is guessed, so that what steps without drafts cost is known.

/// Tells when sequences that have drafts go without them for a few steps.
///
/// Sequences that begin meanwhile stay without the executor's drafter: steps with prompts are to be
/// known, too, and a drafter that has not read a prompt is seldom right.
#[derive(Clone, Debug, PartialEq)]
pub struct Rests {
    /// Steps with drafts since the last rest, and how many there are before the next.
    passed: usize,
    length: usize,
    /// Steps left of the one that goes on.
    left: usize,
    /// Further ones that it may take until a prompt has been read.
    more: usize,
}

impl Default for Rests {
    fn default() -> Rests {
        Rests { passed: 0, length: Rests::LEAST, left: 0, more: 0 }
    }
}

impl Rests {
    /// Steps of a rest. The first two are slower than the others, which are submitted while the one
    /// before them runs.
    const STEPS: usize = 10;
    /// Further steps in which a prompt may come.
    const MORE: usize = 8;
    /// Steps before a rest while it is not known what those without drafts cost: one is due soon,
    /// but not in the first words of an answer.
    const FIRST: usize = 4;
    /// Steps between two rests: each time twice as many.
    const LEAST: usize = 16;
    const MOST: usize = 512;

    /// Takes in that a step has been made: whether a drafter had a part in it, whether it had prompts,
    /// and whether it is known what such steps cost without drafts.
    pub fn step(&mut self, drafter: bool, prompts: bool, is_known: bool) {
        if self.is_on() {
            match self.left {
                0 => self.more -= 1,
                _ => self.left -= 1,
            }
            if prompts && !drafter {
                self.more = 0;
            }
        } else if drafter {
            self.passed += 1;
            let (due, next) = match is_known {
                true => (self.length, (2 * self.length).min(Rests::MOST)),
                false => (Rests::FIRST, self.length),
            };
            if self.passed > due {
                *self = Rests { passed: 0, length: next, left: Rests::STEPS, more: Rests::MORE };
            }
        }
    }

    /// Whether there is a rest now.
    pub fn is_on(&self) -> bool {
        self.left + self.more > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps without drafts, of so many: the others have some.
    fn rests(steps: usize, prompts: bool, is_known: bool) -> Vec<usize> {
        let mut rests = Rests::default();
        let without = |step: &usize| {
            let is_on = rests.is_on();
            rests.step(!is_on, prompts && step.is_multiple_of(4), is_known);
            is_on
        };
        (0..steps).filter(without).collect()
    }

    #[test]
    fn there_is_a_rest_soon_and_then_ever_less_often() {
        let expected: Vec<usize> =
            [17..27, 60..70, 135..145, 274..284].into_iter().flatten().collect();
        assert_eq!(rests(400, true, true), expected);
    }

    #[test]
    fn a_rest_waits_for_a_prompt_but_not_for_ever() {
        assert_eq!(rests(100, false, true), Vec::from_iter((17..35).chain(68..86)));
    }

    #[test]
    fn what_is_not_known_yet_is_looked_for_again_soon() {
        assert_eq!(rests(40, true, false), Vec::from_iter((5..15).chain(20..30).chain(35..40)));
    }
}
