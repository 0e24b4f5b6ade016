//! Prompt lookup: n-gram matching in the sequence's own tokens.

use std::ops::RangeInclusive;

use super::Drafter;

/// Proposes the tokens after the first earlier occurrence of the sequence's last n tokens, for the
/// largest n that occurs (Saxena, "Prompt lookup decoding", 2023).
///
/// It costs almost nothing. Its acceptance rate is high where an answer repeats its prompt or itself:
/// in summaries, extracts, code and lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Ngram {
    /// Range of n; at least 1.
    pub sizes: RangeInclusive<usize>,
}

impl Default for Ngram {
    fn default() -> Ngram {
        Ngram { sizes: 2..=5 }
    }
}

impl Drafter for Ngram {
    fn propose(&self, tokens: &[u32], most: usize) -> Vec<u32> {
        let (least, longest) = (*self.sizes.start(), *self.sizes.end());
        // In reverse order the last tokens are a prefix, and `borders[i]` is the length of the longest
        // prefix that ends at place i: the prefix function of Knuth, Morris and Pratt, cut at the
        // longest n.
        let reversed = |i: usize| tokens[tokens.len() - 1 - i];
        let mut borders = vec![0; longest.min(tokens.len())];
        let (mut matched, mut best) = (0, (0, 0));
        for i in 1..tokens.len() {
            if matched == longest {
                matched = borders[matched - 1];
            }
            while matched > 0 && reversed(matched) != reversed(i) {
                matched = borders[matched - 1];
            }
            if reversed(matched) == reversed(i) {
                matched += 1;
            }
            if let Some(border) = borders.get_mut(i) {
                *border = matched;
            }
            // Of equal lengths, the last one in reverse order is the first one in the sequence.
            if matched >= least.max(best.0) {
                best = (matched, i);
            }
        }
        let (size, at) = best;
        if size == 0 {
            return Vec::new();
        }
        // The match begins at place `at` from the end.
        let next = tokens.len() - 1 - at + size;
        tokens[next..].iter().take(most).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn propose(tokens: &[u32], sizes: RangeInclusive<usize>, most: usize) -> Vec<u32> {
        Ngram { sizes }.propose(tokens, most)
    }

    #[test]
    fn the_tokens_after_the_first_longest_match_are_proposed() {
        type Case = (&'static [u32], RangeInclusive<usize>, usize, &'static [u32]);
        let table: [Case; 14] = [
            (&[1, 2, 3, 4, 1, 2, 3, 5, 6], 2..=2, 2, &[]),
            (&[1, 2, 3, 4, 1, 2, 3], 2..=2, 3, &[4, 1, 2]),
            (&[1, 2, 3, 4, 1, 2, 3], 2..=2, 2, &[4, 1]),
            (&[1, 2, 3, 4, 1, 2, 3], 1..=1, 3, &[4, 1, 2]),
            (&[1, 2, 3, 4, 1, 2, 3], 4..=4, 3, &[]),
            (&[1, 2, 3, 4, 1, 2, 3], 3..=3, 2, &[4, 1]),
            (&[1, 3, 6, 2, 3, 4, 1, 2, 3], 2..=2, 3, &[4, 1, 2]),
            (&[1, 3, 6, 2, 3, 4, 1, 2, 3], 1..=1, 2, &[6, 2]),
            (&[2, 3, 4, 5, 1, 2, 3, 4, 1, 2, 3, 4], 3..=4, 2, &[1, 2]),
            (&[3, 4, 5, 2, 3, 4, 1, 2, 3, 4], 2..=4, 2, &[1, 2]),
            (&[1, 2, 3, 100, 1, 2, 3, 200, 1, 2, 3, 300, 1, 2, 3], 3..=3, 2, &[100, 1]),
            (&[], 1..=3, 2, &[]),
            (&[7], 1..=3, 2, &[]),
            // Fewer than asked for.
            (&[7, 7], 1..=3, 4, &[7]),
        ];
        for (tokens, sizes, most, expected) in table {
            assert_eq!(propose(tokens, sizes.clone(), most), expected, "{tokens:?} {sizes:?}");
        }
    }

    #[test]
    fn it_finds_the_same_as_a_naive_search() {
        let search = |tokens: &[u32], sizes: RangeInclusive<usize>, most: usize| {
            for size in sizes.rev().filter(|size| *size < tokens.len()) {
                let last = &tokens[tokens.len() - size..];
                let places = tokens[..tokens.len() - 1].windows(size);
                if let Some(at) = places.into_iter().position(|place| place == last) {
                    return tokens[at + size..].iter().take(most).copied().collect();
                }
            }
            Vec::new()
        };
        let mut rng = fastrand::Rng::new();
        println!("seed {}", rng.get_seed());
        for _ in 0..5000 {
            let length = rng.usize(0..30);
            let tokens: Vec<u32> = (0..length).map(|_| rng.u32(0..3)).collect();
            let (least, more) = (rng.usize(1..4), rng.usize(0..4));
            let (sizes, most) = (least..=least + more, rng.usize(1..6));
            assert_eq!(
                propose(&tokens, sizes.clone(), most),
                search(&tokens, sizes.clone(), most),
                "{tokens:?} {sizes:?} {most}"
            );
        }
    }
}
