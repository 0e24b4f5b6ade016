//! Repetitive answers.

use std::ops::RangeInclusive;

/// Ends an answer whose last tokens repeat a pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Repetition {
    /// Length of a pattern in tokens, at least 1.
    pub sizes: RangeInclusive<usize>,
    /// How many times in a row the pattern has to occur, at least 2.
    pub count: usize,
}

impl Repetition {
    /// Returns true if and only if the answer ends with such a pattern.
    pub fn ends(&self, answer: &[u32]) -> bool {
        let most = answer.len() / self.count;
        let sizes = *self.sizes.start()..=most.min(*self.sizes.end());
        sizes.into_iter().any(|size| {
            let tail = &answer[answer.len() - size * self.count..];
            tail[size..] == tail[..tail.len() - size]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_found_at_the_end_only() {
        // (sizes, count, answer, whether it ends in circles)
        let table: [(_, _, &[u32], _); 11] = [
            (1..=1, 3, &[5, 5, 5], true),
            (1..=1, 3, &[5, 5], false),
            (1..=1, 3, &[5, 5, 5, 6], false),
            (2..=2, 2, &[9, 1, 2, 1, 2], true),
            (2..=2, 2, &[1, 2, 1, 2, 1], true), // 2 1 2 1
            (2..=2, 2, &[1, 2, 1, 3], false),
            (2..=4, 2, &[1, 2, 3, 4, 1, 2, 3, 4], true),
            (2..=3, 2, &[1, 2, 3, 4, 1, 2, 3, 4], false),
            (2..=3, 2, &[7, 7, 7, 7], true),
            (1..=usize::MAX, 2, &[1, 2, 3], false),
            (1..=3, usize::MAX, &[1, 1, 1], false),
        ];
        for (sizes, count, answer, expected) in table {
            let repetition = Repetition { sizes, count };
            assert_eq!(repetition.ends(answer), expected, "{repetition:?} {answer:?}");
        }
    }
}
