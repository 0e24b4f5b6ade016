//! What belongs to tokens, told when their text is.

use std::collections::VecDeque;

/// Holds one item per token until all of the token's text has come out.
///
/// Text goes in token by token and comes out in other pieces, because the beginnings of characters
/// and of stop strings are held back.
#[derive(Debug)]
pub struct Aligned<T> {
    /// Where each token's text begins and ends, in bytes.
    waiting: VecDeque<(usize, usize, T)>,
    pushed: usize,
    released: usize,
}

impl<T> Default for Aligned<T> {
    fn default() -> Self {
        Aligned { waiting: VecDeque::new(), pushed: 0, released: 0 }
    }
}

impl<T> Aligned<T> {
    /// Adds a token that brought so many bytes of text.
    pub fn push(&mut self, bytes: usize, item: T) {
        let start = self.pushed;
        self.pushed += bytes;
        self.waiting.push_back((start, self.pushed, item));
    }

    /// Tells that so many more bytes came out; returns the items of the tokens that are complete now.
    pub fn release(&mut self, bytes: usize) -> Vec<T> {
        self.released += bytes;
        let released = self.released;
        self.take(|_, end| end <= released)
    }

    /// Returns what is left at the end: if the text was cut short by a stop string, the items of the
    /// tokens of which some text came out.
    pub fn finish(&mut self, stopped: bool) -> Vec<T> {
        let released = self.released;
        self.take(|start, _| !stopped || start < released)
    }

    fn take(&mut self, ready: impl Fn(usize, usize) -> bool) -> Vec<T> {
        let count = self.waiting.iter().take_while(|(start, end, _)| ready(*start, *end)).count();
        self.waiting.drain(..count).map(|(_, _, item)| item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_with_the_last_of_their_text() {
        let mut aligned = Aligned::default();
        aligned.push(2, 'a');
        aligned.push(0, 'b');
        aligned.push(3, 'c');
        assert_eq!(aligned.release(1), []);
        assert_eq!(aligned.release(2), ['a', 'b']);
        aligned.push(1, 'd');
        assert_eq!(aligned.release(3), ['c', 'd']);
        assert_eq!(aligned.finish(false), []);
    }

    #[test]
    fn the_end_tells_the_rest_but_not_what_belongs_to_a_stop_string() {
        for (stopped, left) in [(false, vec!['b', 'c', 'd']), (true, vec!['b'])] {
            let mut aligned = Aligned::default();
            for (bytes, item) in [(2, 'a'), (2, 'b'), (0, 'c'), (2, 'd')] {
                aligned.push(bytes, item);
            }
            assert_eq!(aligned.release(3), ['a']);
            assert_eq!(aligned.finish(stopped), left);
        }
    }
}
