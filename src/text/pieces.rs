//! The text of an answer in pieces, each of whole tokens.

use std::{collections::VecDeque, sync::Arc};

use super::{detokenizer::Detokenizer, stop::StopFilter, tokenizer::Tokenizer};
use crate::{api::TextRules, error::Result};

/// Turns the tokens of an answer into pieces of text, and tells what belongs to each token with its
/// text.
///
/// Text is held back while it may be part of a character or of a stop string. A piece ends where a
/// token's text ends: the tokens of the pieces so far therefore say all about the text so far, and
/// [`Pieces::new`] goes on from them.
pub struct Pieces<T> {
    detokenizer: Detokenizer,
    stops: StopFilter,
    /// The tokens that are not told yet: where the text of each ends, in bytes.
    waiting: VecDeque<(usize, T)>,
    /// Their text.
    text: String,
    /// Bytes of text before that.
    told: usize,
    /// Bytes of text that come before any stop string.
    certain: usize,
}

/// Some text, and what belongs to its tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece<T> {
    pub text: String,
    /// One per token.
    pub items: Vec<T>,
}

impl<T> Pieces<T> {
    /// The pieces of an answer whose text is as `rules` say; those of the tokens `told` have been told
    /// before.
    pub fn new(tokenizer: Arc<Tokenizer>, rules: &TextRules, told: &[u32]) -> Result<Pieces<T>> {
        let mut pieces = Pieces {
            detokenizer: Detokenizer::new(tokenizer, rules.shows_special),
            stops: StopFilter::new(rules.stop.clone(), rules.keeps_stop),
            waiting: VecDeque::new(),
            text: String::new(),
            told: 0,
            certain: 0,
        };
        for token in told {
            let text = pieces.detokenizer.push(*token)?;
            pieces.told += text.len();
            pieces.certain += pieces.stops.push(&text).len();
        }
        Ok(pieces)
    }

    /// Takes the next token and what belongs to it; returns the next piece if that has any text.
    pub fn push(&mut self, token: u32, item: T) -> Result<Option<Piece<T>>> {
        let text = self.detokenizer.push(token)?;
        self.text.push_str(&text);
        self.certain += self.stops.push(&text).len();
        self.waiting.push_back((self.told + self.text.len(), item));
        let ready = self.waiting.iter().take_while(|(end, _)| *end <= self.certain);
        let (count, end) = ready.fold((0, self.told), |(count, _), (end, _)| (count + 1, *end));
        if end == self.told {
            return Ok(None);
        }
        let rest = self.text.split_off(end - self.told);
        let text = std::mem::replace(&mut self.text, rest);
        self.told = end;
        let items = self.waiting.drain(..count).map(|(_, item)| item).collect();
        Ok(Some(Piece { text, items }))
    }

    /// Whether a stop string has ended the text.
    pub fn stopped(&self) -> bool {
        self.stops.stopped()
    }

    /// Ends the answer and returns what was held back, up to the stop string if there is one: then of
    /// the tokens that have some text before it.
    pub fn finish(self) -> Piece<T> {
        let Pieces { detokenizer, mut stops, waiting, mut text, told, mut certain } = self;
        let tail = detokenizer.finish();
        text.push_str(&tail);
        certain += stops.push(&tail).len();
        let stopped = stops.stopped();
        certain += stops.finish().len();
        text.truncate(certain.saturating_sub(told));
        let mut start = told;
        let of_text =
            |(end, _): &(usize, T)| !stopped || std::mem::replace(&mut start, *end) < certain;
        let items = waiting.into_iter().take_while(of_text).map(|(_, item)| item).collect();
        Piece { text, items }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    /// The pieces after the first `told` tokens, whose items are the tokens' places; the last is what
    /// the end brings.
    fn pieces(
        tokenizer: &Arc<Tokenizer>,
        rules: &TextRules,
        ids: &[u32],
        told: usize,
    ) -> (Vec<Piece<usize>>, bool) {
        let mut pieces = Pieces::new(tokenizer.clone(), rules, &ids[..told]).expect("valid ids");
        let mut found = Vec::new();
        for (place, id) in ids.iter().enumerate().skip(told) {
            if !pieces.stopped() {
                found.extend(pieces.push(*id, place).expect("a valid id"));
            }
        }
        let stopped = pieces.stopped();
        found.push(pieces.finish());
        (found, stopped)
    }

    fn tokenizer() -> Arc<Tokenizer> {
        Arc::new(Tokenizer::from_bytes(&samples::bytes()).expect("a valid tokenizer"))
    }

    #[test]
    fn a_piece_waits_for_the_end_of_a_token_a_character_and_a_stop_string() {
        let tokenizer = tokenizer();
        let encode = |text: &str| tokenizer.encode_plain(text, false).expect("a valid text");
        let [h, hi, x, end] =
            ["h", "hi", "x", "<|end|>"].map(|token| tokenizer.token_id(token).expect("a token"));
        let emoji = encode("🙂");
        assert_eq!(emoji.len(), 3);
        let cut = &emoji[..2];
        for (stop, ids, expected) in [
            ("", vec![h, end, x], vec![("h", 1), ("x", 2), ("", 0)]),
            ("", [&emoji[..], &[x]].concat(), vec![("🙂", 3), ("x", 1), ("", 0)]),
            ("", [&[h], cut, &[x]].concat(), vec![("h", 1), ("\u{FFFD}x", 3), ("", 0)]),
            ("", [&[h], cut].concat(), vec![("h", 1), ("\u{FFFD}", 2)]),
            ("ix", vec![h, hi, h], vec![("h", 1), ("hih", 2), ("", 0)]),
            ("ix", vec![h, hi, end, x], vec![("h", 1), ("h", 1)]),
            ("ix", vec![h, hi, end], vec![("h", 1), ("hi", 2)]),
            ("h", vec![x, hi, x], vec![("x", 1), ("", 0)]),
            ("x\u{FFFD}", [&[h, x], cut].concat(), vec![("h", 1), ("", 0)]),
        ] {
            let rules = TextRules { stop: vec![stop.into()], ..Default::default() };
            let (found, _) = pieces(&tokenizer, &rules, &ids, 0);
            let found: Vec<_> =
                found.iter().map(|piece| (piece.text.as_str(), piece.items.len())).collect();
            assert_eq!(found, expected, "{ids:?} until {stop:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_go_on_after_every_cut(
            choices in prop::collection::vec((0..4, any::<prop::sample::Index>()), 0..40),
            stop in prop::collection::vec("[hi🙂\u{FFFD} ]{1,3}", 0..4),
            (keeps_stop, shows_special) in any::<(bool, bool)>(),
        ) {
            let rules = TextRules { stop, keeps_stop, shows_special };
            let words = Tokenizer::from_bytes(&samples::words()).expect("a valid tokenizer");
            for tokenizer in [tokenizer(), Arc::new(words)] {
                let common = tokenizer.encode_plain("🙂h i hi", false).expect("a valid text");
                let ids: Vec<u32> = choices
                    .iter()
                    .map(|(kind, index)| match kind {
                        0 => index.index(tokenizer.max_id() as usize + 2) as u32,
                        _ => common[index.index(common.len())],
                    })
                    .collect();
                let detokenizer = || Detokenizer::new(tokenizer.clone(), shows_special);
                let mut whole = detokenizer();
                let texts = ids.iter().map(|id| whole.push(*id));
                let decoded = texts.collect::<Result<String>>().expect("valid ids");
                let mut filter = StopFilter::new(rules.stop.clone(), keeps_stop);
                let text = filter.push(&(decoded + &whole.finish()));
                let stop = filter.stopped();
                let text = text + &filter.finish();

                let (whole, stopped) = pieces(&tokenizer, &rules, &ids, 0);
                let joined: String = whole.iter().map(|piece| piece.text.as_str()).collect();
                prop_assert_eq!(&joined, &text);
                prop_assert!(stop || !stopped);
                let places: Vec<usize> = whole.iter().flat_map(|piece| piece.items.clone()).collect();
                prop_assert!(places.iter().copied().eq(0..places.len()));
                prop_assert!(stop || places.len() == ids.len());

                let (mut told, mut detokenizer) = (0, detokenizer());
                for (cut, piece) in whole.iter().enumerate() {
                    prop_assert_eq!(&pieces(&tokenizer, &rules, &ids, told).0, &whole[cut..]);
                    if cut + 1 < whole.len() {
                        prop_assert!(!piece.text.is_empty());
                        let texts = ids[told..].iter().map(|id| detokenizer.push(*id));
                        let texts = texts.take(piece.items.len()).collect::<Result<String>>();
                        prop_assert_eq!(&piece.text, &texts.expect("valid ids"));
                    }
                    told += piece.items.len();
                }
            }
        }
    }
}
