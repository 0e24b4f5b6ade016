//! GPT-2's byte alphabet: each byte maps to a printable character, so that BPE merges work on text.

use tokenizers::Result;
use tokenizers::tokenizer::{NormalizedString, PreTokenizedString, PreTokenizer};

/// Prepends a space to text that does not start with one.
pub struct BlankFirst;

impl PreTokenizer for BlankFirst {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> Result<()> {
        text.normalize(|piece| {
            if !piece.get().starts_with(' ') {
                piece.prepend(" ");
            }
            Ok(())
        })
    }
}

/// Maps each byte of the text to its character.
pub struct BytesAsChars;

impl PreTokenizer for BytesAsChars {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> Result<()> {
        text.normalize(|piece: &mut NormalizedString| {
            // The first byte replaces the character; the others are inserted after it.
            let chars = piece.get().bytes().map(|byte| {
                let continues = byte & 0xC0 == 0x80;
                (char_of(byte), isize::from(continues))
            });
            let chars: Vec<_> = chars.collect();
            piece.transform(chars, 0);
            Ok(())
        })
    }
}

/// The character of a byte: printable Latin-1 maps to itself, the other 68 bytes to U+0100 and up, in
/// order.
fn char_of(byte: u8) -> char {
    let code = u32::from(byte);
    let code = match byte {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => code,
        0x00..=0x20 => code + 0x100,
        0x7F..=0xA0 => code - 0x7F + 0x121,
        0xAD => 0x143,
    };
    char::from_u32(code).expect("below the surrogates")
}

/// The byte of a character of the alphabet.
pub fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    let byte = match code {
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7F,
        0x143 => 0xAD,
        _ => code,
    };
    u8::try_from(byte).ok().filter(|byte| char_of(*byte) == c)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    use super::*;

    #[test]
    fn gpt2_s_alphabet_is_a_bijection() {
        let alphabet: BTreeSet<char> = ByteLevel::alphabet().into_iter().collect();
        assert_eq!(alphabet, (0..=255).map(char_of).collect());
        assert_eq!(alphabet.len(), 256);
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!(char_of(b' '), 'Ġ');
        assert_eq!(byte_of('ń'), None);
        assert_eq!(byte_of(' '), None);
    }
}
