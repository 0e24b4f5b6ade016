//! Splits an answer's text into pieces of whole tokens, for streaming.

use std::{collections::VecDeque, sync::Arc};

use super::{
    detokenizer::Detokenizer,
    stop::StopFilter,
    tokenizer::Tokenizer,
    tools::{Kind, Part, Reader, Reading, Span, Thinking, escaped},
};
use crate::{api::TextRules, error::Result};

/// Turns an answer's tokens into pieces of text. Each token comes with an item, such as its
/// log-probability, which is returned in the piece with the token's text.
///
/// Text is held back while it may be part of an incomplete character, a stop string or a marker. A
/// piece ends where a token's text ends, so the tokens of the emitted pieces are enough to resume a
/// stream: see [`Pieces::new`].
pub struct Pieces<T> {
    detokenizer: Detokenizer,
    stops: StopFilter,
    reader: Reader,
    /// Tokens not emitted yet: the end of each token's text in bytes, and its item.
    waiting: VecDeque<(usize, T)>,
    /// Text of those tokens.
    text: String,
    /// Bytes of text already emitted.
    emitted: usize,
    /// End and kind of each part of the text, from the first one that is not completely emitted.
    spans: VecDeque<(usize, Kind)>,
    /// Bytes of text whose kind is known: the end of the last span.
    settled: usize,
    /// The end of each token's text in bytes, if the answer may start with reasoning.
    ends: Option<Vec<usize>>,
}

/// What some tokens add to an answer, and these tokens' items.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece<T> {
    /// Content.
    pub text: String,
    pub reasoning: String,
    /// Tool calls.
    pub calls: Vec<CallPiece>,
    /// One per token.
    pub items: Vec<T>,
}

/// A piece of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPiece {
    /// The call's index in the answer.
    pub index: usize,
    /// Only in the first piece.
    pub name: Option<String>,
    pub arguments: String,
}

/// The end of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct End<T> {
    /// The text that was held back.
    pub piece: Piece<T>,
    /// Whether the answer has called tools.
    pub called: bool,
    /// Number of tokens of reasoning.
    pub reasoning_tokens: usize,
}

impl<T> Default for Piece<T> {
    fn default() -> Self {
        let text = String::new;
        Piece { text: text(), reasoning: text(), calls: Vec::new(), items: Vec::new() }
    }
}

impl<T> Piece<T> {
    /// Whether it adds no text, reasoning or call; it may still have tokens.
    fn is_silent(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    fn add(&mut self, part: Part, text: &str) {
        match part {
            Part::Content => self.text.push_str(text),
            Part::Reasoning => self.reasoning.push_str(text),
            Part::Arguments(index) => self.call(index, None, text),
        }
    }

    fn call(&mut self, index: usize, name: Option<String>, arguments: &str) {
        match self.calls.last_mut() {
            Some(last) if last.index == index => last.arguments.push_str(arguments),
            _ => self.calls.push(CallPiece { index, name, arguments: arguments.into() }),
        }
    }
}

impl<T> Pieces<T> {
    /// The pieces of an answer under these rules. `emitted` are the tokens of the pieces that were
    /// already sent when a stream is resumed.
    pub fn new(
        tokenizer: Arc<Tokenizer>,
        rules: &TextRules,
        reading: &Reading,
        emitted: &[u32],
    ) -> Result<Pieces<T>> {
        let shown = reading.markers.iter().map(|(id, _)| *id).collect();
        let detokenizer = Detokenizer::new(tokenizer, rules.shows_special).showing(shown);
        let thinks = reading.thinking != Thinking::Never;
        let mut pieces = Pieces {
            detokenizer: if reading.continues { detokenizer.amid() } else { detokenizer },
            stops: StopFilter::new(rules.stop.clone(), rules.keeps_stop),
            reader: Reader::new(reading.clone(), rules.shows_special),
            waiting: VecDeque::new(),
            text: String::new(),
            emitted: 0,
            spans: VecDeque::new(),
            settled: 0,
            ends: thinks.then(Vec::new),
        };
        for token in emitted {
            pieces.take(*token)?;
        }
        pieces.emitted = pieces.text.len();
        pieces.text.clear();
        pieces.spans.retain(|(end, _)| *end > pieces.emitted);
        Ok(pieces)
    }

    /// Takes the next token and its item; returns the next piece, unless it is empty.
    pub fn push(&mut self, token: u32, item: T) -> Result<Option<Piece<T>>> {
        let end = self.take(token)?;
        self.waiting.push_back((end, item));
        let ready = self.waiting.iter().take_while(|(end, _)| *end <= self.settled);
        let (count, end) = ready.fold((0, self.emitted), |(count, _), (end, _)| (count + 1, *end));
        let mut piece = self.piece(end);
        if piece.is_silent() {
            return Ok(None);
        }
        self.text.drain(..end - self.emitted);
        self.emitted = end;
        self.spans.retain(|(last, _)| *last > end);
        piece.items = self.waiting.drain(..count).map(|(_, item)| item).collect();
        Ok(Some(piece))
    }

    /// Whether a stop string has ended the text.
    pub fn stopped(&self) -> bool {
        self.stops.stopped()
    }

    /// Ends the answer and returns the text that was held back. If a stop string was found, this is the
    /// text before it, with the tokens that have some of that text.
    pub fn finish(mut self) -> End<T> {
        let tail = self.detokenizer.finish();
        self.text.push_str(&tail);
        let certain = self.stops.push(&tail);
        let stopped = self.stops.stopped();
        let certain = certain + &self.stops.finish();
        let spans = self.reader.push(&certain);
        self.settle(spans);
        let spans = self.reader.finish();
        self.settle(spans);
        let end = self.settled.max(self.emitted);
        let mut piece = self.piece(end);
        let mut start = self.emitted;
        let of_text =
            |(last, _): &(usize, T)| !stopped || std::mem::replace(&mut start, *last) < end;
        piece.items = self.waiting.into_iter().take_while(of_text).map(|(_, item)| item).collect();
        let thought = self.reader.thought();
        let ends = self.ends.unwrap_or_default();
        let reasoning_tokens = ends.iter().take_while(|end| **end <= thought).count();
        let reasoning_tokens = if thought == 0 { 0 } else { reasoning_tokens };
        End { piece, called: self.reader.calls() > 0, reasoning_tokens }
    }

    /// Appends a token's text and returns where it ends.
    fn take(&mut self, token: u32) -> Result<usize> {
        let text = self.detokenizer.push(token)?;
        self.text.push_str(&text);
        let certain = self.stops.push(&text);
        let spans = self.reader.push(&certain);
        self.settle(spans);
        let end = self.emitted + self.text.len();
        self.ends.iter_mut().for_each(|ends| ends.push(end));
        Ok(end)
    }

    fn settle(&mut self, spans: Vec<Span>) {
        for span in spans {
            self.settled += span.len;
            self.spans.push_back((self.settled, span.kind));
        }
    }

    /// The piece from the emitted text to `end`, without its items.
    fn piece(&self, end: usize) -> Piece<T> {
        let mut piece = Piece::default();
        let mut start = self.emitted;
        for (last, kind) in &self.spans {
            let stop = end.min(*last);
            if start >= stop {
                continue;
            }
            let text = &self.text[start - self.emitted..stop - self.emitted];
            let whole = *last <= end;
            match kind {
                Kind::Text(part) => piece.add(*part, text),
                Kind::Escaped(index) => piece.add(Part::Arguments(*index), &escaped(text)),
                Kind::Instead(part, text) if whole => piece.add(*part, text),
                Kind::Call { index, name, arguments } if whole => {
                    piece.call(*index, Some(name.clone()), arguments);
                }
                Kind::Call { .. } | Kind::Instead(..) | Kind::Silent => {}
            }
            start = stop;
        }
        piece
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    /// The pieces after the first `emitted` tokens; items are the tokens' indices. The last one is the
    /// piece of [`Pieces::finish`].
    fn pieces(
        tokenizer: &Arc<Tokenizer>,
        rules: &TextRules,
        ids: &[u32],
        emitted: usize,
    ) -> (Vec<Piece<usize>>, bool) {
        let plain = Reading::default();
        let mut pieces =
            Pieces::new(tokenizer.clone(), rules, &plain, &ids[..emitted]).expect("valid ids");
        let mut found = Vec::new();
        for (place, id) in ids.iter().enumerate().skip(emitted) {
            if !pieces.stopped() {
                found.extend(pieces.push(*id, place).expect("a valid id"));
            }
        }
        let stopped = pieces.stopped();
        found.push(pieces.finish().piece);
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
        fn pieces_resume_after_every_cut(
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

                let (mut emitted, mut detokenizer) = (0, detokenizer());
                for (cut, piece) in whole.iter().enumerate() {
                    prop_assert_eq!(&pieces(&tokenizer, &rules, &ids, emitted).0, &whole[cut..]);
                    if cut + 1 < whole.len() {
                        prop_assert!(!piece.text.is_empty());
                        let texts = ids[emitted..].iter().map(|id| detokenizer.push(*id));
                        let texts = texts.take(piece.items.len()).collect::<Result<String>>();
                        prop_assert_eq!(&piece.text, &texts.expect("valid ids"));
                    }
                    emitted += piece.items.len();
                }
            }
        }
    }
}
