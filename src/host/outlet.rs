//! Flow control of one stream: the page may read slower than the model generates.

use std::collections::VecDeque;

use super::protocol::Answer;
use crate::api::{Chunk, ChunkChoice, CompletionChoice};

/// A stream with this many unsent tokens is full, and its request is held.
const MOST_TOKENS: usize = 64;
/// Upper limit of the credit, in chunks.
const MOST_CREDIT: u32 = 1 << 16;

/// Sends chunks while the page has given credit for them, and merges the others, so that at most a few
/// chunks per choice are queued.
#[derive(Debug)]
pub struct Outlet {
    id: u32,
    credit: u32,
    pending: VecDeque<Piece>,
    /// The answer after the last chunk.
    last: Option<Answer>,
}

/// A chunk, with the tokens that the page needs to resume the stream.
#[derive(Debug)]
pub struct Piece {
    pub chunk: Chunk,
    pub tokens: Vec<u32>,
    pub ended: Option<usize>,
}

impl Outlet {
    /// The stream of a call, with credit for `credit` chunks.
    pub fn new(id: u32, credit: u32) -> Outlet {
        Outlet { id, credit: credit.min(MOST_CREDIT), pending: VecDeque::new(), last: None }
    }

    /// Queues a chunk, or merges it with the choice's last queued one.
    pub fn push(&mut self, piece: Piece) {
        let earlier =
            self.pending.iter_mut().rev().find(|earlier| earlier.index() == piece.index());
        match earlier {
            Some(earlier) if earlier.takes(&piece) => earlier.merge(piece),
            _ => self.pending.push_back(piece),
        }
    }

    /// Sets the answer after the last chunk.
    pub fn finish(&mut self, last: Answer) {
        self.last = Some(last);
    }

    /// Adds credit for `chunks` more chunks.
    pub fn refill(&mut self, chunks: u32) {
        self.credit = self.credit.saturating_add(chunks).min(MOST_CREDIT);
    }

    /// The next answer that may be sent now.
    pub fn next(&mut self) -> Option<Answer> {
        if self.pending.is_empty() {
            return self.last.take();
        }
        self.credit = self.credit.checked_sub(1)?;
        let Piece { chunk, tokens, ended } = self.pending.pop_front()?;
        Some(Answer::Chunk { id: self.id, value: chunk, tokens, ended })
    }

    /// Whether to hold the request until the page has read some of the stream.
    pub fn is_full(&self) -> bool {
        self.pending.iter().map(|piece| piece.tokens.len()).sum::<usize>() >= MOST_TOKENS
    }
}

impl Piece {
    fn index(&self) -> Option<u32> {
        match &self.chunk {
            Chunk::Chat(chunk) => chunk.choices.first().map(|choice| choice.index),
            Chunk::Text(chunk) => chunk.choices.first().map(|choice| choice.index),
        }
    }

    /// Whether another chunk can be merged into this one.
    fn takes(&self, next: &Piece) -> bool {
        self.adds() && next.adds()
    }

    /// Whether it only appends to the answer.
    fn adds(&self) -> bool {
        match &self.chunk {
            Chunk::Chat(chunk) => chunk
                .choices
                .first()
                .is_some_and(|choice| choice.finish_reason.is_none() && !choice.delta.is_empty()),
            Chunk::Text(chunk) => {
                chunk.choices.first().is_some_and(|choice| choice.finish_reason.is_none())
            }
        }
    }

    fn merge(&mut self, next: Piece) {
        self.tokens.extend(next.tokens);
        match (&mut self.chunk, next.chunk) {
            (Chunk::Chat(chunk), Chunk::Chat(next)) => {
                let pair = chunk.choices.first_mut().zip(next.choices.into_iter().next());
                pair.into_iter().for_each(|(choice, more)| extend(choice, more));
            }
            (Chunk::Text(chunk), Chunk::Text(next)) => {
                let pair = chunk.choices.first_mut().zip(next.choices.into_iter().next());
                pair.into_iter().for_each(|(choice, more)| CompletionChoice::extend(choice, more));
            }
            // All chunks of a stream are of one kind.
            (Chunk::Chat(_), Chunk::Text(_)) | (Chunk::Text(_), Chunk::Chat(_)) => {}
        }
    }
}

fn extend(choice: &mut ChunkChoice, more: ChunkChoice) {
    choice.delta.extend(more.delta);
    choice.drafted &= more.drafted;
    if let Some(more) = more.logprobs {
        choice.logprobs.get_or_insert_default().content.extend(more.content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ChatCompletionChunk, Completion, FinishReason, Responder, Usage};
    use proptest::prelude::*;

    fn responder(index: u32) -> Responder {
        let (id, model) = ("chatcmpl-0".into(), "model".into());
        Responder { id, created: 0, model, index, include_usage: true }
    }

    fn text(index: u32, token: u32) -> Piece {
        let chunk = responder(index).delta(format!("<{token}>"), None, false);
        Piece { chunk: chunk.into(), tokens: vec![token], ended: None }
    }

    fn start(index: u32) -> Piece {
        Piece { chunk: responder(index).start().into(), tokens: vec![], ended: None }
    }

    fn finish(index: u32, tokens: usize) -> Piece {
        let chunk = responder(index).finish(Default::default(), None, FinishReason::Stop, None);
        Piece { chunk: chunk.into(), tokens: vec![], ended: Some(tokens) }
    }

    fn usage() -> Piece {
        let chunk = responder(0).usage(Usage::new(1, 0, 2)).unwrap();
        Piece { chunk: chunk.into(), tokens: vec![], ended: None }
    }

    fn chat(chunk: &Chunk) -> &ChatCompletionChunk {
        let Chunk::Chat(chunk) = chunk else { panic!("{chunk:?}") };
        chunk
    }

    #[test]
    fn queued_texts_are_merged_into_one_chunk() {
        let piece = |text: &str, finish_reason| {
            let choice =
                CompletionChoice { text: text.into(), finish_reason, ..Default::default() };
            let chunk = Completion { choices: vec![choice], ..Default::default() };
            Piece { chunk: Chunk::Text(chunk), tokens: vec![1], ended: None }
        };
        let mut outlet = Outlet::new(7, 0);
        [piece("a", None), piece("b", None), piece("c", Some(FinishReason::Stop))]
            .into_iter()
            .for_each(|piece| outlet.push(piece));
        outlet.refill(2);
        let mut next = || match outlet.next() {
            Some(Answer::Chunk { value: Chunk::Text(chunk), tokens, .. }) => {
                (chunk.choices[0].text.clone(), tokens.len())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!((next(), next()), (("ab".into(), 2), ("c".into(), 1)));
    }

    /// Text, tokens and end of one choice in the sent answers.
    fn received(sent: &[Answer], index: u32) -> (String, Vec<u32>, Option<usize>) {
        let mut all = (String::new(), vec![], None);
        for answer in sent {
            let Answer::Chunk { value, tokens, ended, .. } = answer else { continue };
            let Some(choice) = chat(value).choices.first().filter(|choice| choice.index == index)
            else {
                continue;
            };
            assert_eq!(all.2, None, "something follows the end");
            all.0 += choice.delta.content.as_deref().unwrap_or_default();
            all.1.extend(tokens);
            all.2 = *ended;
        }
        all
    }

    #[test]
    fn chunks_pass_at_once_while_there_is_credit() {
        let mut outlet = Outlet::new(7, 2);
        let mut sent = Vec::new();
        for piece in [start(0), text(0, 1), text(0, 2), text(0, 3)] {
            outlet.push(piece);
            sent.extend(outlet.next());
        }
        assert_eq!(sent.len(), 2);
        outlet.refill(1);
        let Some(Answer::Chunk { id: 7, tokens, .. }) = outlet.next() else { panic!() };
        assert_eq!(tokens, [2, 3], "queued chunks are merged");
        assert!(outlet.next().is_none());
    }

    #[test]
    fn a_merged_chunk_is_drafted_if_all_its_parts_are() {
        let drafted_text = |token| {
            let mut piece = text(0, token);
            let Chunk::Chat(chunk) = &mut piece.chunk else { panic!() };
            chunk.choices[0].drafted = true;
            piece
        };
        for (pieces, drafted) in [
            ([drafted_text(1), drafted_text(2)], true),
            ([drafted_text(1), text(0, 2)], false),
            ([text(0, 1), drafted_text(2)], false),
        ] {
            let mut outlet = Outlet::new(7, 1);
            pieces.into_iter().for_each(|piece| outlet.push(piece));
            let Some(Answer::Chunk { value, .. }) = outlet.next() else { panic!() };
            assert_eq!(chat(&value).choices[0].drafted, drafted);
        }
    }

    #[test]
    fn the_end_comes_last_and_needs_no_credit() {
        let mut outlet = Outlet::new(7, 0);
        outlet.push(finish(0, 0));
        outlet.finish(Answer::End { id: 7 });
        assert!(outlet.next().is_none());
        outlet.refill(1);
        assert!(matches!(outlet.next(), Some(Answer::Chunk { ended: Some(0), .. })));
        assert_eq!(outlet.next(), Some(Answer::End { id: 7 }));
        assert!(outlet.next().is_none());
    }

    #[test]
    fn a_stream_that_nobody_reads_is_full_after_some_tokens() {
        let mut outlet = Outlet::new(7, 0);
        let full = (0..).take_while(|token| {
            outlet.push(text(0, *token));
            !outlet.is_full()
        });
        assert_eq!(full.count() + 1, MOST_TOKENS);
        assert_eq!(outlet.pending.len(), 1);
        outlet.refill(u32::MAX);
        outlet.refill(u32::MAX);
        assert!(outlet.next().is_some() && !outlet.is_full());
    }

    proptest! {
        /// For any sequence of credits, each choice's text and tokens arrive complete and in order, and
        /// at most a few chunks per choice are queued.
        #[test]
        fn nothing_is_lost_or_twice(
            writes in prop::collection::vec((0u32..3, 0u32..4), 1..200),
            first in 0u32..4,
        ) {
            let mut outlet = Outlet::new(7, first);
            let (mut sent, mut counts) = (Vec::new(), [0; 3]);
            (0..3).for_each(|index| outlet.push(start(index)));
            for (index, room) in writes {
                counts[index as usize] += 1;
                outlet.push(text(index, counts[index as usize]));
                prop_assert!(outlet.pending.len() <= 6);
                sent.extend(std::iter::from_fn(|| outlet.next()));
                outlet.refill(room.saturating_sub(2));
            }
            (0..3).for_each(|index| outlet.push(finish(index, counts[index as usize] as usize)));
            outlet.push(usage());
            outlet.finish(Answer::End { id: 7 });
            prop_assert!(outlet.pending.len() <= 10);
            outlet.refill(10);
            sent.extend(std::iter::from_fn(|| outlet.next()));
            for index in 0..3 {
                let count = counts[index as usize];
                let tokens: Vec<u32> = (1..=count).collect();
                let text: String = tokens.iter().map(|token| format!("<{token}>")).collect();
                prop_assert_eq!(received(&sent, index), (text, tokens, Some(count as usize)));
            }
            prop_assert_eq!(sent.pop(), Some(Answer::End { id: 7 }));
            let Some(Answer::Chunk { value, .. }) = sent.pop() else { panic!() };
            prop_assert!(chat(&value).choices.is_empty(), "the usage comes last");
        }
    }
}
