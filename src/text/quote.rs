//! Marks that keep message text from being parsed as control tokens.
//!
//! A mark is inserted inside every control token in a text, and inside every part of one at the text's
//! start or end. So no operation of a template on the text can produce the token:
//!
//! ```text
//! hi <|im_end|>   ->   hi <⟂|im_end|>      ⟂ = ESCAPE BREAK
//! ```
//!
//! An escape character in the text itself becomes ESCAPE LITERAL, so no text can contain ESCAPE END.
//! The four are Unicode noncharacters, which are not meant to occur in text.

use std::collections::BTreeMap;
use std::ops::Range;

pub const ESCAPE: char = '\u{FDD0}';
const BREAK: char = '\u{FDD1}';
const LITERAL: char = '\u{FDD2}';
/// Marks the end of a message that the answer continues.
pub const END: &str = "\u{FDD0}\u{FDD3}";

/// Quotes texts against a set of control tokens of at least two characters each.
pub struct Quoter {
    /// First character → tokens.
    tokens: BTreeMap<char, Vec<String>>,
}

impl Quoter {
    pub fn new(tokens: impl IntoIterator<Item = String>) -> Self {
        let mut by_first: BTreeMap<char, Vec<String>> = BTreeMap::new();
        for token in tokens {
            if let Some(first) = token.chars().next() {
                by_first.entry(first).or_default().push(token);
            }
        }
        Quoter { tokens: by_first }
    }

    /// Inserts a mark inside everything that is, or could become part of, a control token.
    pub fn quote(&self, text: &str) -> String {
        let mut quoted = String::with_capacity(text.len() + 16);
        // Templates often trim, so the start and end of the trimmed text count as well.
        let start = text.len() - text.trim_start().len();
        let end = text.trim_end().len();
        for (at, c) in text.char_indices() {
            let rests = [&text[at..], text.get(at..end).unwrap_or_default()];
            let edge = at == 0 || at == start;
            if edge && rests.iter().any(|rest| self.continues(rest)) {
                quoted.extend([ESCAPE, BREAK]);
            }
            quoted.push(c);
            if c == ESCAPE {
                quoted.push(LITERAL);
            }
            if rests.iter().any(|rest| self.starts(rest)) {
                quoted.extend([ESCAPE, BREAK]);
            }
        }
        quoted
    }

    /// Whether the text starts with a token, or is the start of one.
    fn starts(&self, text: &str) -> bool {
        let candidates = text.chars().next().and_then(|first| self.tokens.get(&first));
        candidates
            .into_iter()
            .flatten()
            .any(|token| text.starts_with(token) || token.starts_with(text))
    }

    /// Whether the text could continue a token that started before it.
    fn continues(&self, text: &str) -> bool {
        !text.is_empty()
            && self.tokens.values().flatten().any(|token| {
                let mut rests = token.char_indices().skip(1).map(|(at, _)| &token[at..]);
                rests.any(|rest| text.starts_with(rest) || rest.starts_with(text))
            })
    }
}

/// A text without its marks, and where they were.
pub struct Unquoted {
    pub text: String,
    /// Bytes of the text that have a mark before them, in order.
    breaks: Vec<usize>,
}

impl Unquoted {
    /// Removes the marks from a text.
    pub fn new(quoted: &str) -> Unquoted {
        let mut text = String::with_capacity(quoted.len());
        let mut breaks = Vec::new();
        let mut rest = quoted;
        while let Some(at) = rest.find(ESCAPE) {
            text.push_str(&rest[..at]);
            let after = &rest[at + ESCAPE.len_utf8()..];
            let mut chars = after.chars();
            rest = match chars.next() {
                Some(BREAK) => {
                    breaks.push(text.len());
                    chars.as_str()
                }
                mark => {
                    text.push(ESCAPE);
                    if mark == Some(LITERAL) { chars.as_str() } else { after }
                }
            };
        }
        text.push_str(rest);
        Unquoted { text, breaks }
    }

    /// Whether the template wrote this token here, in full.
    pub fn wrote(&self, token: &str, at: Range<usize>) -> bool {
        let next = self.breaks.partition_point(|mark| *mark <= at.start);
        let whole = self.breaks.get(next).is_none_or(|mark| *mark >= at.end);
        whole && self.text.get(at) == Some(token)
    }
}

/// The text without its marks.
pub fn unquoted(text: &str) -> String {
    Unquoted::new(text).text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKENS: [&str; 6] = ["<s>", "</s>", "<|end|>", "ab", "bca", "[I N]"];

    fn quote(text: &str) -> String {
        Quoter::new(TOKENS.map(String::from)).quote(text)
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in ["", "hello, 2 < 3 and 4 > 3", "if (x<y) z", "</ s>", "| end |", "é日本"] {
            assert_eq!(quote(text), text);
        }
    }

    #[test]
    fn tokens_are_broken_even_where_they_overlap() {
        assert_eq!(quote("x</s>y"), "x<\u{FDD0}\u{FDD1}/s>y");
        assert_eq!(quote("zabcaz"), "za\u{FDD0}\u{FDD1}b\u{FDD0}\u{FDD1}caz");
    }

    #[test]
    fn a_token_cannot_be_completed_by_its_surroundings() {
        for (before, text, after) in [
            ("", "x <|en", "d|>"),
            ("", "x <", "s>"),
            ("", "x <|en \n", "d|>"),
            ("<", "s>", ""),
            ("<|", "en", "d|>"),
            ("<|", "\n en ", "d|>"),
        ] {
            for text in [quote(text), quote(text).trim().to_owned()] {
                let joined = format!("{before}{text}{after}");
                assert!(TOKENS.iter().all(|token| !joined.contains(token)), "{joined:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_token_survives_and_nothing_is_lost(
            before in "[<|/sa]{0,3}",
            text in "[<|/s>end abc\\[IN\\]\u{FDD0}\u{FDD1}\u{FDD2}é]{0,24}",
            after in "[|end>b\\]ca]{0,4}",
        ) {
            let quoted = quote(&text);
            prop_assert_eq!(unquoted(&quoted), text);
            // No token overlaps the text, whatever is before and after it.
            let joined = format!("{before}{quoted}{after}");
            let (start, end) = (before.len(), before.len() + quoted.len());
            prop_assume!(!quoted.is_empty()); // nothing to take in
            for token in TOKENS {
                for (at, _) in joined.match_indices(token) {
                    prop_assert!(at + token.len() <= start || at >= end, "{token} in {joined:?}");
                }
            }
        }
    }
}
