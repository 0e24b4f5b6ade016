//! All limits on the tokens that a request may sample.

use super::{
    Constraint,
    thinking::{Thinking, ThinkingBudget},
};
use crate::{
    Error, Result,
    step::{MAX_DRAFTS, Mask},
};

/// The tokens that may be sampled for one request: allowed tokens, bad words, minimum length of the
/// answer, thinking budget and a constraint.
#[derive(Debug)]
pub struct TokenLimits {
    /// The limits of every position, one bit per token.
    fixed: Vec<u32>,
    /// Token sequences of length 2 or more that may not appear.
    bad_words: Vec<Vec<u32>>,
    min_tokens: usize,
    end_tokens: Vec<u32>,
    thinking: Option<Thinking>,
    constraint: Option<Box<dyn Constraint>>,
    full: Vec<u32>,
    /// The masks that the executor has for the slot, by place in a step.
    sent: [Option<Vec<u32>>; 1 + MAX_DRAFTS],
}

impl TokenLimits {
    /// The limits of a request: only the `allowed` tokens (none: all), no `bad_words`, and no
    /// `end_tokens` among the first `min_tokens` tokens. Ids from `vocab` on are ignored.
    pub fn new(
        vocab: usize,
        allowed: Option<&[u32]>,
        mut bad_words: Vec<Vec<u32>>,
        min_tokens: usize,
        end_tokens: &[u32],
    ) -> TokenLimits {
        let mut full = vec![u32::MAX; vocab.div_ceil(32)];
        if let Some(last) = full.last_mut() {
            *last >>= (32 - vocab % 32) % 32;
        }
        let mut fixed = full.clone();
        if let Some(allowed) = allowed {
            let mut only = vec![0; full.len()];
            allowed.iter().for_each(|token| insert(&mut only, *token));
            intersect(&mut fixed, &only);
        }
        bad_words.retain(|word| match word[..] {
            [] => false,
            [token] => {
                remove(&mut fixed, token);
                false
            }
            _ => true,
        });
        let end_tokens = end_tokens.to_vec();
        TokenLimits {
            fixed,
            bad_words,
            min_tokens,
            end_tokens,
            thinking: None,
            constraint: None,
            full,
            sent: [const { None }; 1 + MAX_DRAFTS],
        }
    }

    /// Limits the thinking part of the answer to `prompt`.
    pub fn limit_thinking(&mut self, budget: ThinkingBudget, prompt: &[u32]) {
        self.thinking = Some(Thinking::new(budget, prompt));
    }

    /// Sets a constraint that has accepted no token yet.
    pub fn set_constraint(&mut self, constraint: Box<dyn Constraint>) {
        self.constraint = Some(constraint);
    }

    /// Whether the next mask depends on the last `pending` tokens, which the host does not know yet.
    /// The sequence then samples only once they are known.
    pub fn waits(&self, pending: usize) -> bool {
        pending > 0
            && (self.constraint.is_some()
                || !self.bad_words.is_empty()
                || self.thinking.as_ref().is_some_and(|thinking| thinking.may_end(pending)))
    }

    /// The mask of the token after `sampled` tokens, and the masks of the tokens after each of
    /// `drafts`. They end before a draft that is not allowed, and where the answer is complete.
    ///
    /// `output`: the sampled tokens that the host knows. It may lack the last ones unless the limits
    /// [wait](TokenLimits::waits) or there are drafts.
    ///
    /// # Errors
    /// [`Error::NoTokenAllowed`] if no token is allowed; what the constraint reports.
    pub fn masks(&mut self, output: &[u32], sampled: usize, drafts: &[u32]) -> Result<Vec<Mask>> {
        let mut permitted = self.permitted(output, sampled)?;
        let mut masks = Vec::with_capacity(1 + drafts.len());
        let (thinking, mut accepted) = (self.thinking.clone(), 0);
        // Bad words look at no more than their length.
        let longest = self.bad_words.iter().map(Vec::len).max().unwrap_or(0);
        let mut output = output[output.len().saturating_sub(longest)..].to_vec();
        for draft in drafts {
            if !contains(&permitted, *draft) || self.accept(*draft).is_err() {
                break;
            }
            accepted += 1;
            output.push(*draft);
            if self.is_complete() {
                break;
            }
            let Ok(next) = self.permitted(&output, sampled + accepted) else { break };
            masks.push(self.mask_for(masks.len(), std::mem::replace(&mut permitted, next)));
        }
        masks.push(self.mask_for(masks.len(), permitted));
        self.thinking = thinking;
        if let Some(constraint) = self.constraint.as_mut().filter(|_| accepted > 0) {
            constraint.rollback(accepted)?;
        }
        Ok(masks)
    }

    /// The tokens allowed after `sampled` tokens, one bit per token.
    fn permitted(&mut self, output: &[u32], sampled: usize) -> Result<Vec<u32>> {
        let mut mask = self.fixed.clone();
        if sampled < self.min_tokens {
            self.end_tokens.iter().for_each(|token| remove(&mut mask, *token));
        }
        for word in &self.bad_words {
            if let [begun @ .., last] = &word[..]
                && output.ends_with(begun)
            {
                remove(&mut mask, *last);
            }
        }
        if let Some(end) = self.thinking.as_ref().and_then(Thinking::must_end) {
            let mut only = vec![0; mask.len()];
            insert(&mut only, end);
            intersect(&mut mask, &only);
        }
        if let Some(constraint) = &mut self.constraint {
            intersect(&mut mask, &constraint.mask()?);
        }
        match mask.iter().all(|word| *word == 0) {
            true => Err(Error::NoTokenAllowed { sampled }),
            false => Ok(mask),
        }
    }

    /// Compares a mask with the one the executor has for this place of a step.
    fn mask_for(&mut self, place: usize, mask: Vec<u32>) -> Mask {
        if mask == self.full {
            return Mask::None;
        }
        let Some(sent) = self.sent.get_mut(place) else { return Mask::New(mask) };
        if sent.as_ref() == Some(&mask) {
            return Mask::Same;
        }
        *sent = Some(mask.clone());
        Mask::New(mask)
    }

    /// Forgets the masks of the executor: the sequence has moved to another slot.
    pub fn restart(&mut self) {
        self.sent.fill(None);
    }

    /// Records a sampled token.
    /// Records a sampled token.
    /// # Errors
    /// What the constraint reports.
    pub fn accept(&mut self, token: u32) -> Result<()> {
        if let Some(thinking) = &mut self.thinking {
            thinking.accept(token);
        }
        self.constraint.as_mut().map_or(Ok(()), |constraint| constraint.accept(token))
    }

    /// Whether the constraint calls the answer complete.
    pub fn is_complete(&self) -> bool {
        self.constraint.as_ref().is_some_and(|constraint| constraint.is_complete())
    }
}

fn insert(mask: &mut [u32], token: u32) {
    if let Some(word) = mask.get_mut(token as usize / 32) {
        *word |= 1 << (token % 32);
    }
}

fn remove(mask: &mut [u32], token: u32) {
    if let Some(word) = mask.get_mut(token as usize / 32) {
        *word &= !(1 << (token % 32));
    }
}

fn contains(mask: &[u32], token: u32) -> bool {
    mask.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
}

/// Keeps the bits set in both; words that `other` lacks count as 0.
fn intersect(mask: &mut [u32], other: &[u32]) {
    for (word, other) in mask.iter_mut().zip(other.iter().chain(std::iter::repeat(&0))) {
        *word &= other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(mask: &Mask, vocab: u32) -> Vec<u32> {
        match mask {
            Mask::None => (0..vocab).collect(),
            Mask::Same => panic!("the same as before"),
            Mask::New(words) => {
                assert_eq!(words.len(), vocab.div_ceil(32) as usize);
                (0..words.len() as u32 * 32)
                    .filter(|t| words[*t as usize / 32] >> (t % 32) & 1 == 1)
                    .collect()
            }
        }
    }

    fn all_but(vocab: u32, missing: &[u32]) -> Vec<u32> {
        (0..vocab).filter(|token| !missing.contains(token)).collect()
    }

    impl TokenLimits {
        fn mask(&mut self, output: &[u32], sampled: usize) -> Result<Mask> {
            self.masks(output, sampled, &[]).map(|mut masks| masks.remove(0))
        }
    }

    /// Lets an answer say 3, 4, 3, 4 … and end with 0 after a 4.
    #[derive(Debug, Default)]
    struct Alternate(Vec<u32>);

    impl Constraint for Alternate {
        fn mask(&mut self) -> Result<Vec<u32>> {
            Ok(vec![if self.0.len().is_multiple_of(2) { 1 << 3 | 1 } else { 1 << 4 }])
        }

        fn accept(&mut self, token: u32) -> Result<()> {
            self.0.push(token);
            Ok(())
        }

        fn rollback(&mut self, count: usize) -> Result<()> {
            self.0.truncate(self.0.len() - count);
            Ok(())
        }

        fn is_complete(&self) -> bool {
            self.0.last() == Some(&0)
        }
    }

    #[test]
    fn each_limit_forbids_its_tokens() {
        let bad = |words: &[&[u32]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        let none = bad(&[]);
        // (vocabulary, allowed, bad words, min_tokens, end tokens, output, sampled, tokens)
        #[allow(clippy::type_complexity)]
        let table: [(
            u32,
            Option<&[u32]>,
            Vec<Vec<u32>>,
            usize,
            &[u32],
            &[u32],
            usize,
            Vec<u32>,
        ); 14] = [
            (40, None, none.clone(), 0, &[2], &[], 0, all_but(40, &[])),
            (64, None, none.clone(), 0, &[2], &[], 0, all_but(64, &[])),
            (
                40,
                Some(&[39, 1, 33, 1, 40, 63, 9999]),
                none.clone(),
                0,
                &[],
                &[],
                0,
                vec![1, 33, 39],
            ),
            (40, None, bad(&[&[5], &[], &[39], &[77]]), 0, &[], &[], 0, all_but(40, &[5, 39])),
            // The end tokens, until `min_tokens` are sampled, even if the host does not know them yet.
            (40, None, none.clone(), 2, &[2, 39], &[], 0, all_but(40, &[2, 39])),
            (40, None, none.clone(), 2, &[2, 39], &[], 1, all_but(40, &[2, 39])),
            (40, None, none.clone(), 2, &[2, 39], &[7], 2, all_but(40, &[])),
            // The last token of a longer bad word is forbidden only where it would complete the word.
            (40, None, bad(&[&[5, 6]]), 0, &[], &[], 0, all_but(40, &[])),
            (40, None, bad(&[&[5, 6]]), 0, &[], &[6, 5], 2, all_but(40, &[6])),
            (40, None, bad(&[&[5, 6]]), 0, &[], &[5, 1], 2, all_but(40, &[])),
            (40, None, bad(&[&[5, 5, 5]]), 0, &[], &[5], 1, all_but(40, &[])),
            (40, None, bad(&[&[5, 5, 5], &[5, 7]]), 0, &[], &[5, 5], 2, all_but(40, &[5, 7])),
            (40, None, bad(&[&[9, 5, 6], &[4]]), 0, &[], &[5], 1, all_but(40, &[4])),
            (40, Some(&[2, 3]), bad(&[&[1, 3]]), 2, &[2, 4], &[1, 1], 2, vec![2]),
        ];
        for (vocab, allowed, bad, min_tokens, end, output, sampled, expected) in table {
            let mut limits =
                TokenLimits::new(vocab as usize, allowed, bad.clone(), min_tokens, end);
            let mask = limits.mask(output, sampled).unwrap();
            assert_eq!(
                tokens(&mask, vocab),
                expected,
                "{allowed:?} {bad:?} {min_tokens} {output:?}"
            );
            assert_eq!(mask == Mask::None, expected.len() == vocab as usize);
            assert_eq!(limits.waits(1), bad.iter().any(|word| word.len() > 1));
            assert!(!limits.waits(0));
        }
    }

    #[test]
    fn a_mask_is_sent_once() {
        let mut limits = TokenLimits::new(40, None, vec![vec![5, 6], vec![1]], 2, &[0]);
        let steps: [(&[u32], Option<&[u32]>); 7] = [
            (&[], Some(&[0, 1])),
            (&[7], None),
            (&[7, 7], Some(&[1])),
            (&[7, 7, 5], Some(&[1, 6])),
            (&[7, 7, 5, 5], None),
            (&[7, 7, 5, 5, 7], Some(&[1])),
            (&[7, 7, 5, 5, 7, 7], None),
        ];
        for (output, missing) in steps {
            let mask = limits.mask(output, output.len()).unwrap();
            match missing {
                Some(missing) => assert_eq!(tokens(&mask, 40), all_but(40, missing)),
                None => assert_eq!(mask, Mask::Same),
            }
        }
        limits.restart();
        assert!(matches!(limits.mask(&[7], 7).unwrap(), Mask::New(_)));
    }

    #[test]
    fn a_mask_stays_valid_while_no_mask_is_needed() {
        let mut limits = TokenLimits::new(8, None, vec![vec![1, 2]], 0, &[]);
        assert_eq!(tokens(&limits.mask(&[1], 1).unwrap(), 8), all_but(8, &[2]));
        assert_eq!(limits.mask(&[1, 3], 2).unwrap(), Mask::None);
        assert_eq!(limits.mask(&[1, 3, 1], 3).unwrap(), Mask::Same);
    }

    #[test]
    fn drafts_have_the_same_masks_as_sampled_tokens() {
        let bad = vec![vec![5, 6], vec![6, 6, 6]];
        let limits = || {
            let mut limits = TokenLimits::new(40, None, bad.clone(), 3, &[0]);
            let thinking = ThinkingBudget { begin: 9, end: 10, tokens: 2 };
            limits.limit_thinking(thinking, &[]);
            limits
        };
        let answer: [u32; 8] = [6, 6, 5, 9, 5, 7, 10, 0];
        let alone: Vec<Vec<u32>> = {
            let mut limits = limits();
            let masks = (0..answer.len()).map(|sampled| {
                limits.restart();
                let mask = tokens(&limits.mask(&answer[..sampled], sampled).unwrap(), 40);
                limits.accept(answer[sampled]).unwrap();
                mask
            });
            masks.collect()
        };
        for known in 0..answer.len() {
            for drafts in 0..answer.len() - known {
                let mut limits = limits();
                answer[..known].iter().for_each(|token| limits.accept(*token).unwrap());
                let (output, rest) = answer.split_at(known);
                for _ in 0..2 {
                    limits.restart();
                    let masks = limits.masks(output, known, &rest[..drafts]).unwrap();
                    let masks: Vec<_> = masks.iter().map(|mask| tokens(mask, 40)).collect();
                    assert_eq!(masks, alone[known..=known + drafts], "{known} and {drafts}");
                }
            }
        }
        // A forbidden draft ends the masks.
        assert_eq!(limits().masks(&[], 0, &[5, 6, 7]).unwrap().len(), 2);
    }

    #[test]
    fn a_constraint_is_unchanged_after_masks_for_drafts() {
        let mut limits = TokenLimits::new(70, None, Vec::new(), 0, &[]);
        limits.set_constraint(Box::new(Alternate::default()));
        // The last draft is allowed, but completes the answer.
        let masks = limits.masks(&[], 0, &[3, 4, 0]).unwrap();
        let masks: Vec<_> = masks.iter().map(|mask| tokens(mask, 70)).collect();
        assert_eq!(masks, [vec![0, 3], vec![4], vec![0, 3]]);
        assert_eq!(limits.masks(&[], 0, &[4]).unwrap(), [Mask::Same]);
        assert_eq!(limits.masks(&[], 0, &[3, 4]).unwrap(), [Mask::Same, Mask::Same, Mask::Same]);
        assert!(!limits.is_complete());
    }

    #[test]
    fn a_constraint_accepts_the_tokens_and_combines_with_other_limits() {
        let mut limits = TokenLimits::new(70, None, Vec::new(), 2, &[0]);
        assert!(!limits.waits(1));
        limits.set_constraint(Box::new(Alternate::default()));
        assert!(limits.waits(1));
        let mut output = Vec::new();
        for (expected, token) in [(vec![3], 3), (vec![4], 4), (vec![0, 3], 0)] {
            assert_eq!(tokens(&limits.mask(&output, output.len()).unwrap(), 70), expected);
            assert!(!limits.is_complete());
            limits.accept(token).unwrap();
            output.push(token);
        }
        assert!(limits.is_complete());
    }

    #[test]
    fn limits_that_allow_no_token_are_an_error() {
        let mut ends_only = TokenLimits::new(40, Some(&[0]), Vec::new(), 2, &[0]);
        assert_eq!(ends_only.mask(&[], 1), Err(Error::NoTokenAllowed { sampled: 1 }));
        assert_eq!(tokens(&ends_only.mask(&[], 2).unwrap(), 40), [0]);
        let mut contradiction = TokenLimits::new(40, Some(&[5]), vec![vec![5]], 0, &[]);
        assert_eq!(contradiction.mask(&[], 0), Err(Error::NoTokenAllowed { sampled: 0 }));
        let mut constrained = TokenLimits::new(40, Some(&[5]), Vec::new(), 0, &[]);
        constrained.set_constraint(Box::new(Alternate::default()));
        assert_eq!(constrained.mask(&[], 0), Err(Error::NoTokenAllowed { sampled: 0 }));
    }
}
