//! A tokenizer's decoder: the bytes of each token.
//!
//! A text is the concatenation of its tokens' bytes, read as UTF-8. Any decoder
//! for which that holds can be streamed; others are refused.

use tokenizers::Result;

use super::bytes::byte_of;
use super::pattern::{Replace, Written};

/// A step of the decoder.
#[derive(Debug)]
pub enum Step {
    /// Every character of a token stands for one byte (GPT-2's alphabet).
    ByteLevel,
    /// Tokens such as `<0x0A>` are bytes.
    ByteFallback,
    /// Replaces within each token, such as `▁` by a space.
    Replace(Written, String),
    /// Joins the tokens.
    Fuse,
    /// Strips up to `start` and `stop` times `content` from the start and the end.
    Strip { content: char, start: usize, stop: usize },
}

/// The combined effect of the steps.
#[derive(Default)]
pub struct Spelling {
    byte_level: bool,
    byte_fallback: bool,
    replacements: Vec<Replace>,
    /// The character that is stripped from the start of a text, and how often at most.
    strip: Option<(char, usize)>,
}

impl Spelling {
    pub fn new(steps: Vec<Step>) -> Result<Self> {
        let mut spelling = Spelling::default();
        let mut fused = false;
        for step in steps {
            match step {
                Step::ByteLevel => spelling.byte_level = true,
                Step::ByteFallback => spelling.byte_fallback = true,
                Step::Replace(pattern, content) if !fused => {
                    spelling.replacements.push(Replace::new(pattern, content)?);
                }
                Step::Fuse => fused = true,
                Step::Strip { content, start, stop: 0 } if fused => {
                    spelling.strip = Some((content, start));
                }
                other => return Err(unsupported(&format!("{other:?}"))),
            }
        }
        // Without either, the library joins tokens with spaces.
        if !spelling.byte_level && !fused {
            return Err(unsupported("one that joins words by spaces"));
        }
        Ok(spelling)
    }

    /// The bytes of a token.
    pub fn bytes(&self, token: String) -> Result<Vec<u8>> {
        if self.byte_level
            && let Some(bytes) = token.chars().map(byte_of).collect()
        {
            return Ok(bytes);
        }
        let mut text = token;
        for replace in &self.replacements {
            text = replace.apply(&text)?;
        }
        let fallback = self.byte_fallback.then(|| fallback_byte(&text)).flatten();
        Ok(fallback.map_or_else(|| text.into_bytes(), |byte| vec![byte]))
    }

    /// The character that is stripped from the start of a text, and how often at most.
    pub fn strip(&self) -> Option<(char, usize)> {
        self.strip
    }
}

fn unsupported(found: &str) -> tokenizers::Error {
    format!("its decoder is {found}, expected ByteLevel, or Replace, ByteFallback, Fuse and Strip")
        .into()
}

/// The byte of `<0xHH>`.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_level_tokens_outside_the_alphabet_are_plain_text() {
        let spelling = Spelling::new(vec![Step::ByteLevel]).unwrap();
        assert_eq!(spelling.bytes("Ġa".into()).unwrap(), b" a");
        assert_eq!(spelling.bytes("ð".into()).unwrap(), [0xF0]);
        assert_eq!(spelling.bytes("<｜x｜>".into()).unwrap(), "<｜x｜>".as_bytes());
    }

    #[test]
    fn sentencepiece_tokens_are_words_or_bytes() {
        let steps = vec![
            Step::Replace("▁".into(), " ".into()),
            Step::ByteFallback,
            Step::Fuse,
            Step::Strip { content: ' ', start: 1, stop: 0 },
        ];
        let spelling = Spelling::new(steps).unwrap();
        assert_eq!(spelling.bytes("▁a▁b".into()).unwrap(), b" a b");
        assert_eq!(spelling.bytes("<0xE2>".into()).unwrap(), [0xE2]);
        assert_eq!(spelling.bytes("<0xE>".into()).unwrap(), b"<0xE>");
        assert_eq!(spelling.bytes("<0xé>".into()).unwrap(), "<0xé>".as_bytes());
        assert_eq!(spelling.strip(), Some((' ', 1)));
    }

    #[test]
    fn decoders_that_do_not_simply_join_are_refused() {
        let strip = |stop| Step::Strip { content: ' ', start: 1, stop };
        assert!(Spelling::new(vec![]).is_err());
        assert!(Spelling::new(vec![Step::ByteFallback]).is_err());
        assert!(Spelling::new(vec![strip(0), Step::Fuse]).is_err());
        assert!(Spelling::new(vec![Step::Fuse, strip(1)]).is_err());
        assert!(Spelling::new(vec![Step::Fuse, Step::Replace("a".into(), "b".into())]).is_err());
    }
}
