//! How a vocabulary spells text: the bytes behind each token.
//!
//! A text is the concatenation of its tokens' bytes, read as UTF-8. Any decoder
//! for which that holds can be streamed; others are refused.

use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::strip::Strip;
use tokenizers::normalizers::Replace;
use tokenizers::tokenizer::Decoder;

use crate::error::{Error, Result};

/// What the `decoder` section of `tokenizer.json` amounts to.
#[derive(Default)]
pub struct Spelling {
    /// Every character of a token stands for one byte (GPT-2's alphabet).
    byte_level: bool,
    /// Tokens such as `<0x0A>` are bytes.
    byte_fallback: bool,
    /// Applied to each token by itself, such as `▁` to a space.
    replacements: Vec<Replace>,
    /// What a whole text does not begin with.
    strip: Option<Strip>,
}

impl Spelling {
    pub fn new(decoder: Option<&DecoderWrapper>) -> Result<Self> {
        let mut spelling = Spelling::default();
        let steps = match decoder {
            Some(DecoderWrapper::Sequence(sequence)) => sequence.get_decoders(),
            Some(single) => std::slice::from_ref(single),
            None => &[],
        };
        let mut fused = false;
        for step in steps {
            match step {
                DecoderWrapper::ByteLevel(_) => spelling.byte_level = true,
                DecoderWrapper::ByteFallback(_) => spelling.byte_fallback = true,
                DecoderWrapper::Replace(replace) if !fused => {
                    spelling.replacements.push(replace.clone());
                }
                DecoderWrapper::Fuse(_) => fused = true,
                DecoderWrapper::Strip(strip) if fused && strip.stop == 0 => {
                    spelling.strip = Some(strip.clone());
                }
                other => return Err(unsupported(&format!("{other:?}"))),
            }
        }
        // Without either, tokens would not simply be joined.
        if !spelling.byte_level && !fused {
            return Err(unsupported("one that joins words by spaces"));
        }
        Ok(spelling)
    }

    /// The bytes a token stands for.
    pub fn bytes(&self, token: String) -> Result<Vec<u8>> {
        if self.byte_level
            && let Some(bytes) = token.chars().map(byte_of).collect()
        {
            return Ok(bytes);
        }
        let mut pieces = vec![token];
        for replace in &self.replacements {
            pieces = replace
                .decode_chain(pieces)
                .map_err(|error| Error::Tokenizer { message: error.to_string() })?;
        }
        let text = pieces.concat();
        let fallback = self.byte_fallback.then(|| fallback_byte(&text)).flatten();
        Ok(fallback.map_or_else(|| text.into_bytes(), |byte| vec![byte]))
    }

    /// The character a text loses at its beginning, and how many of it at most.
    pub fn strip(&self) -> Option<(char, usize)> {
        self.strip.as_ref().map(|strip| (strip.content, strip.start))
    }
}

fn unsupported(found: &str) -> Error {
    Error::Tokenizer {
        message: format!(
            "its decoder is {found}, expected ByteLevel, or Replace, ByteFallback, Fuse and Strip"
        ),
    }
}

/// The byte of `<0xHH>`.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// The byte behind a character of GPT-2's alphabet: printable Latin-1 stands for
/// itself, the 68 other bytes for U+0100 and up, in order.
fn byte_of(c: char) -> Option<u8> {
    match u32::from(c) {
        code @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => Some(code as u8),
        code @ 0x100..=0x120 => Some((code - 0x100) as u8),
        code @ 0x121..=0x142 => Some((code - 0x121 + 0x7F) as u8),
        0x143 => Some(0xAD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokenizers::decoders::byte_fallback::ByteFallback;
    use tokenizers::decoders::fuse::Fuse;
    use tokenizers::decoders::sequence::Sequence;
    use tokenizers::decoders::wordpiece::WordPiece;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    use super::*;

    #[test]
    fn gpt2_s_alphabet_is_a_bijection() {
        let alphabet = ByteLevel::alphabet();
        let bytes: BTreeSet<u8> = alphabet.iter().filter_map(|&c| byte_of(c)).collect();
        assert_eq!((alphabet.len(), bytes.len()), (256, 256));
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
        assert_eq!(byte_of('ń'), None);
    }

    #[test]
    fn byte_level_tokens_outside_the_alphabet_are_plain_text() {
        let spelling = Spelling::new(Some(&ByteLevel::default().into())).unwrap();
        assert_eq!(spelling.bytes("Ġa".into()).unwrap(), b" a");
        assert_eq!(spelling.bytes("ð".into()).unwrap(), [0xF0]);
        assert_eq!(spelling.bytes("<｜x｜>".into()).unwrap(), "<｜x｜>".as_bytes());
    }

    #[test]
    fn sentencepiece_tokens_are_words_or_bytes() {
        let decoder = DecoderWrapper::Sequence(Sequence::new(vec![
            Replace::new("▁", " ").unwrap().into(),
            ByteFallback::new().into(),
            Fuse::new().into(),
            Strip::new(' ', 1, 0).into(),
        ]));
        let spelling = Spelling::new(Some(&decoder)).unwrap();
        assert_eq!(spelling.bytes("▁a▁b".into()).unwrap(), b" a b");
        assert_eq!(spelling.bytes("<0xE2>".into()).unwrap(), [0xE2]);
        assert_eq!(spelling.bytes("<0xE>".into()).unwrap(), b"<0xE>");
        assert_eq!(spelling.bytes("<0xé>".into()).unwrap(), "<0xé>".as_bytes());
        assert_eq!(spelling.strip(), Some((' ', 1)));
    }

    #[test]
    fn decoders_that_do_not_simply_join_are_refused() {
        assert!(Spelling::new(None).is_err());
        assert!(Spelling::new(Some(&WordPiece::default().into())).is_err());
        let stripped_per_token = DecoderWrapper::Sequence(Sequence::new(vec![
            Strip::new(' ', 1, 0).into(),
            Fuse::new().into(),
        ]));
        assert!(Spelling::new(Some(&stripped_per_token)).is_err());
    }
}
