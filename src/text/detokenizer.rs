//! Tokens to text, one token at a time.

use std::sync::Arc;

use super::tokenizer::Tokenizer;
use crate::error::Result;

/// Turns a stream of token ids into pieces of text.
///
/// The joined pieces equal [`Tokenizer::decode`] of all ids. A piece never holds part of a character:
/// the bytes of an incomplete one wait for the next token.
pub struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    /// Whether special tokens appear by name; otherwise they give no text.
    shows_special: bool,
    /// Special tokens that always appear by name.
    shown: Vec<u32>,
    /// An incomplete character: at most 3 bytes between calls.
    pending: Vec<u8>,
    /// Characters that may still be stripped from the start of the text.
    strip: Option<(char, usize)>,
}

impl Detokenizer {
    /// A detokeniser at the start of a text; special tokens appear by name if `shows_special`.
    pub fn new(tokenizer: Arc<Tokenizer>, shows_special: bool) -> Self {
        let strip = tokenizer.leading_strip();
        Detokenizer { tokenizer, shows_special, shown: Vec::new(), pending: Vec::new(), strip }
    }

    /// The same, but these special tokens always appear by name.
    pub fn showing(self, shown: Vec<u32>) -> Self {
        Detokenizer { shown, ..self }
    }

    /// The same in the middle of a text: nothing is stripped.
    pub fn amid(self) -> Self {
        Detokenizer { strip: None, ..self }
    }

    /// Takes the next token and returns the text that is now complete, possibly none.
    pub fn push(&mut self, id: u32) -> Result<String> {
        self.pending.extend(match self.shows_special || self.shown.contains(&id) {
            true => self.tokenizer.spell(id)?,
            false => self.tokenizer.bytes(id)?,
        });
        let complete = self.pending.len() - unfinished(&self.pending);
        let rest = self.pending.split_off(complete);
        let text = self.take(rest);
        Ok(text)
    }

    /// Ends the text; an incomplete character becomes U+FFFD.
    pub fn finish(&mut self) -> String {
        self.take(Vec::new())
    }

    /// Takes the pending bytes as text and leaves `rest` in their place.
    fn take(&mut self, rest: Vec<u8>) -> String {
        let bytes = std::mem::replace(&mut self.pending, rest);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if !text.is_empty()
            && let Some((content, most)) = self.strip
        {
            let cut = text.chars().take(most).take_while(|&c| c == content).count();
            text.drain(..cut * content.len_utf8());
            let all_stripped = text.is_empty() && cut < most;
            self.strip = all_stripped.then_some((content, most - cut));
        }
        text
    }
}

/// Number of bytes at the end that belong to an incomplete character.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    // `error_len` is `None` only if the invalid part is at the end of input and may be completed.
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    fn stream(tokenizer: &Arc<Tokenizer>, ids: &[u32]) -> Vec<String> {
        let mut detokenizer = Detokenizer::new(tokenizer.clone(), false);
        let mut pieces: Vec<_> = ids.iter().map(|&id| detokenizer.push(id).unwrap()).collect();
        pieces.push(detokenizer.finish());
        pieces
    }

    fn bytes() -> Arc<Tokenizer> {
        Arc::new(Tokenizer::from_bytes(&samples::bytes()).unwrap())
    }

    fn words() -> Arc<Tokenizer> {
        Arc::new(Tokenizer::from_bytes(&samples::words()).unwrap())
    }

    #[test]
    fn characters_come_out_whole() {
        for tokenizer in [bytes(), words()] {
            let text = "hi é👩‍👩‍👧 日";
            let pieces = stream(&tokenizer, &tokenizer.encode_plain(text, false).unwrap());
            assert_eq!(pieces.concat(), text);
            assert!(pieces.len() > 10, "{pieces:?}");
            assert!(pieces.iter().any(|piece| piece == "👩"));
        }
    }

    #[test]
    fn invalid_bytes_are_replaced_as_soon_as_they_are_known() {
        let words = words();
        let byte = |byte: u8| words.token_id(&format!("<0x{byte:02X}>")).unwrap();
        let a = words.token_id("a").unwrap();
        let pieces = stream(&words, &[byte(0xE2), byte(0x82), a, byte(0xFF), byte(0xF0)]);
        assert_eq!(pieces, ["", "", "\u{FFFD}a", "\u{FFFD}", "", "\u{FFFD}"]);
    }

    #[test]
    fn only_one_space_at_the_start_is_stripped() {
        let words = words();
        let [hi, blank] = ["▁hi", "▁"].map(|token| words.token_id(token).unwrap());
        assert_eq!(stream(&words, &[1, hi, hi]), ["", "hi", " hi", ""]);
        assert_eq!(stream(&words, &[blank, 2, hi]), ["", "", " hi", ""]);
        assert_eq!(stream(&words, &[]), [""]);
    }

    #[test]
    fn special_tokens_appear_where_requested() {
        for tokenizer in [bytes(), words()] {
            let ids: Vec<u32> = (0..=tokenizer.max_id()).collect();
            let special = |id: &&u32| tokenizer.bytes(**id).unwrap().is_empty();
            let names = ids.iter().filter(special).map(|id| tokenizer.spell(*id).unwrap());
            let names = String::from_utf8(names.collect::<Vec<_>>().concat()).unwrap();
            assert!(!names.is_empty());
            let text = |shows_special| {
                let mut detokenizer = Detokenizer::new(tokenizer.clone(), shows_special);
                let text = ids.iter().filter(special).map(|id| detokenizer.push(*id).unwrap());
                text.collect::<String>()
            };
            assert_eq!((text(true), text(false)), (names, String::new()));
        }
    }

    proptest! {
        #[test]
        fn the_pieces_are_the_whole(
            choices in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..40),
        ) {
            for tokenizer in [bytes(), words()] {
                // Half of the ids are bytes of one emoji, so that complete characters occur.
                let emoji = tokenizer.encode_plain("🙂", false).unwrap();
                let ids: Vec<u32> = choices
                    .iter()
                    .map(|(common, index)| match common {
                        true => emoji[index.index(emoji.len())],
                        false => index.index(tokenizer.max_id() as usize + 1) as u32,
                    })
                    .collect();
                let whole = tokenizer.decode(&ids).unwrap();
                let pieces = stream(&tokenizer, &ids);
                prop_assert_eq!(pieces.concat(), whole.clone());
                // Emitted text is final and never ends inside a character.
                for cut in 0..=ids.len() {
                    let so_far = pieces[..cut].concat();
                    let decoded = tokenizer.decode(&ids[..cut]).unwrap();
                    prop_assert!(decoded.starts_with(&so_far));
                    let rest = &decoded[so_far.len()..];
                    prop_assert!(rest.is_empty() || rest == "\u{FFFD}", "{rest:?} held back");
                }
            }
        }
    }
}
