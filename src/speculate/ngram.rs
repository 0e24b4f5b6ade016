//! Prompt lookup: n-gram matching in the sequence's own tokens.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
    ops::RangeInclusive,
};

use super::Proposer;

/// Proposes the tokens after the first earlier occurrence of the sequence's last n tokens, for the
/// largest n that occurs (Saxena, "Prompt lookup decoding", 2023).
///
/// It costs almost nothing. Its acceptance rate is high where an answer repeats its prompt or itself:
/// in summaries, extracts, code and lists.
#[derive(Clone, Debug)]
pub struct Ngram {
    /// Range of n; at least 1.
    sizes: RangeInclusive<usize>,
    hasher: RandomState,
    /// The place after the first occurrence of an n-gram, by its hash.
    first: HashMap<u64, u32>,
    /// The n-grams that end before this place are in `first`.
    indexed: usize,
}

impl Ngram {
    /// Matches of `sizes` tokens, each at least 1; the longest first.
    pub fn new(sizes: RangeInclusive<usize>) -> Ngram {
        Ngram { sizes, hasher: RandomState::new(), first: HashMap::new(), indexed: 0 }
    }
}

impl Default for Ngram {
    fn default() -> Ngram {
        Ngram::new(2..=5)
    }
}

impl Proposer for Ngram {
    fn fresh(&self) -> Box<dyn Proposer> {
        Box::new(Ngram::new(self.sizes.clone()))
    }

    fn read(&mut self, tokens: &[u32]) {
        // The last n-grams have no token after them yet.
        for end in self.indexed..tokens.len() {
            for size in self.sizes.clone().take_while(|size| *size <= end) {
                let hash = self.hasher.hash_one(&tokens[end - size..end]);
                self.first.entry(hash).or_insert(end as u32);
            }
        }
        self.indexed = tokens.len();
    }

    fn propose(&mut self, tokens: &[u32], most: usize) -> Vec<u32> {
        self.read(tokens);
        let sizes = self.sizes.clone().rev().filter(|size| *size < tokens.len());
        let next = sizes.into_iter().find_map(|size| {
            let last = &tokens[tokens.len() - size..];
            let next = *self.first.get(&self.hasher.hash_one(last))? as usize;
            // Hashes can collide.
            tokens[..next].ends_with(last).then_some(next)
        });
        next.map_or(Vec::new(), |next| tokens[next..].iter().take(most).copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn propose(tokens: &[u32], sizes: RangeInclusive<usize>, most: usize) -> Vec<u32> {
        Ngram::new(sizes).propose(tokens, most)
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

    #[test]
    fn each_token_is_indexed_once() {
        let (mut index, mut tokens) = (Ngram::new(2..=5), Vec::new());
        for step in 0..1000 {
            tokens.extend([3 * step, 3 * step + 1, 3 * step + 2]);
            assert!(index.propose(&tokens, 7).is_empty());
            // If it read the tokens before its longest n-gram again, it would find new n-grams in them.
            let old = tokens.len().saturating_sub(5);
            tokens[..old].iter_mut().for_each(|token| *token += 1_000_000);
        }
        let all: usize = (2..=5).map(|size| tokens.len() - size).sum();
        assert_eq!(index.first.len(), all);
    }

    #[test]
    fn an_index_that_grows_finds_the_same_as_a_new_one() {
        let mut rng = fastrand::Rng::new();
        println!("seed {}", rng.get_seed());
        for _ in 0..100 {
            let (mut grown, mut tokens) = (Ngram::default(), Vec::new());
            for _ in 0..rng.usize(1..20) {
                tokens.extend((0..rng.usize(1..5)).map(|_| rng.u32(0..3)));
                let mut new = Ngram::default();
                assert_eq!(grown.propose(&tokens, 7), new.propose(&tokens, 7), "{tokens:?}");
            }
        }
    }
}
