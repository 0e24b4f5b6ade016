//! How much of what was drafted came true.

use serde::Serialize;

use crate::step::MAX_DRAFTS;

/// Drafts that have been verified, counted per round: a step in which a sequence had drafts.
///
/// A round brings one token more than it has drafts that are right: the mean acceptance length is
/// 1 + accepted / rounds, of counts or of their growth over any time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SpecDecode {
    /// Rounds.
    pub spec_decode_num_drafts: u64,
    /// Tokens drafted.
    pub spec_decode_num_draft_tokens: u64,
    /// Those of them that were right.
    pub spec_decode_num_accepted_tokens: u64,
    /// The same by their place in a round.
    pub spec_decode_num_accepted_tokens_per_pos: [u64; MAX_DRAFTS],
}

impl SpecDecode {
    /// Of `drafted` tokens of a round the first `accepted` were right. Without drafts there is no round.
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
    fn rounds_are_counted_with_their_drafts_and_what_came_true() {
        // (drafted and accepted of each round) → drafts, proposed, accepted, by place
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
