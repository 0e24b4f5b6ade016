//! Counters of speculative decoding.

use serde::Serialize;

use crate::step::MAX_DRAFTS;

/// Verified drafts. A draft is the draft tokens of one sequence in one step.
///
/// A draft gives one token more than it has accepted draft tokens: the mean acceptance length is
/// 1 + accepted / drafts, of the counts or of their growth over any time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SpecDecode {
    /// Number of drafts.
    pub spec_decode_num_drafts: u64,
    /// Number of draft tokens.
    pub spec_decode_num_draft_tokens: u64,
    /// Number of accepted draft tokens.
    pub spec_decode_num_accepted_tokens: u64,
    /// Accepted draft tokens by position in the draft.
    pub spec_decode_num_accepted_tokens_per_pos: [u64; MAX_DRAFTS],
}

impl SpecDecode {
    /// Counts a draft of `drafted` tokens, of which the first `accepted` were accepted; nothing if
    /// `drafted` is 0.
    pub fn observe(&mut self, drafted: usize, accepted: usize) {
        self.spec_decode_num_drafts += u64::from(drafted > 0);
        self.spec_decode_num_draft_tokens += drafted as u64;
        self.spec_decode_num_accepted_tokens += accepted as u64;
        let places = self.spec_decode_num_accepted_tokens_per_pos.iter_mut();
        places.take(accepted).for_each(|count| *count += 1);
    }

    pub(super) fn add(&mut self, other: &SpecDecode) {
        self.spec_decode_num_drafts += other.spec_decode_num_drafts;
        self.spec_decode_num_draft_tokens += other.spec_decode_num_draft_tokens;
        self.spec_decode_num_accepted_tokens += other.spec_decode_num_accepted_tokens;
        let others = other.spec_decode_num_accepted_tokens_per_pos;
        let places = self.spec_decode_num_accepted_tokens_per_pos.iter_mut();
        places.zip(others).for_each(|(count, more)| *count += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_and_accepted_tokens_are_counted() {
        // (drafted, accepted) of each draft → drafts, draft tokens, accepted tokens; accepted by position
        type Case = (&'static [(usize, usize)], [u64; 3], [u64; 3]);
        let table: [Case; 5] = [
            (&[(3, 3)], [1, 3, 3], [1, 1, 1]),
            (&[(3, 1)], [1, 3, 1], [1, 0, 0]),
            (&[(2, 2), (1, 1)], [2, 3, 3], [2, 1, 0]),
            (&[(0, 0)], [0, 0, 0], [0, 0, 0]),
            (&[(3, 2), (3, 1)], [2, 6, 3], [2, 1, 0]),
        ];
        for (rounds, expected, places) in table {
            let mut counts = SpecDecode::default();
            rounds.iter().for_each(|(drafted, accepted)| counts.observe(*drafted, *accepted));
            let found = [
                counts.spec_decode_num_drafts,
                counts.spec_decode_num_draft_tokens,
                counts.spec_decode_num_accepted_tokens,
            ];
            assert_eq!(found, expected, "{rounds:?}");
            assert_eq!(counts.spec_decode_num_accepted_tokens_per_pos[..3], places, "{rounds:?}");
        }
    }
}
