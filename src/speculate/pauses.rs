//! Pauses of drafting, in which the cost of steps without drafts is measured.

/// Decides when drafting pauses for a few steps.
///
/// Sequences that begin in a pause do not use the executor's drafter: prefill steps without it have to
/// be measured too, and a drafter that has not read the prompt has a low acceptance rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Pauses {
    /// Steps with drafts since the last pause, and how many there are before the next.
    passed: usize,
    length: usize,
    /// Steps left of the current pause.
    left: usize,
    /// Further steps that it may take until a prefill step was measured.
    more: usize,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses { passed: 0, length: Pauses::LEAST, left: 0, more: 0 }
    }
}

impl Pauses {
    /// Steps of a pause. The first two are slower than the others, which are submitted while the step
    /// before runs.
    const STEPS: usize = 10;
    /// Further steps to wait for a prefill step.
    const MORE: usize = 8;
    /// Steps before a pause while the cost without drafts is unknown: soon, but not in the first words
    /// of an answer.
    const FIRST: usize = 4;
    /// Steps between two pauses; doubles each time.
    const LEAST: usize = 16;
    const MOST: usize = 512;

    /// Records a step: whether a drafter took part, whether it had prefill rows, and whether the cost
    /// of such steps without drafts is known.
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
                true => (self.length, (2 * self.length).min(Pauses::MOST)),
                false => (Pauses::FIRST, self.length),
            };
            if self.passed > due {
                *self = Pauses { passed: 0, length: next, left: Pauses::STEPS, more: Pauses::MORE };
            }
        }
    }

    /// Whether drafting pauses now.
    pub fn is_on(&self) -> bool {
        self.left + self.more > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps without drafts, of the first `steps`.
    fn pauses(steps: usize, prompts: bool, is_known: bool) -> Vec<usize> {
        let mut pauses = Pauses::default();
        let without = |step: &usize| {
            let is_on = pauses.is_on();
            pauses.step(!is_on, prompts && step.is_multiple_of(4), is_known);
            is_on
        };
        (0..steps).filter(without).collect()
    }

    #[test]
    fn the_first_pause_comes_early_and_later_ones_ever_less_often() {
        let expected: Vec<usize> =
            [17..27, 60..70, 135..145, 274..284].into_iter().flatten().collect();
        assert_eq!(pauses(400, true, true), expected);
    }

    #[test]
    fn a_pause_waits_for_a_prefill_step_for_a_limited_time() {
        assert_eq!(pauses(100, false, true), Vec::from_iter((17..35).chain(68..86)));
    }

    #[test]
    fn while_costs_are_unknown_the_next_pause_comes_soon() {
        assert_eq!(pauses(40, true, false), Vec::from_iter((5..15).chain(20..30).chain(35..40)));
    }
}
