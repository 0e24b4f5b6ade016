//! Patterns of a tokenizer: literal or regex, and the steps that split or replace at matches.

use serde::Deserialize;
use tokenizers::Result;
use tokenizers::tokenizer::pattern::{Invert, Pattern as Finds};
use tokenizers::tokenizer::{
    NormalizedString, Normalizer, Offsets, PreTokenizedString, PreTokenizer, SplitDelimiterBehavior,
};

use crate::regex::Regex;

/// GPT-2's regex that splits text into words; most other models use a similar one.
pub const GPT_2: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// A pattern as written in `tokenizer.json`.
#[derive(Debug, Deserialize)]
pub enum Written {
    String(String),
    Regex(String),
}

impl Written {
    pub fn regex(pattern: &str) -> Written {
        Written::Regex(pattern.into())
    }
}

impl From<&str> for Written {
    fn from(text: &str) -> Written {
        Written::String(text.into())
    }
}

/// A compiled pattern.
pub enum Pattern {
    Text(String),
    Regex(Regex),
}

impl Pattern {
    pub fn new(written: Written) -> Result<Pattern> {
        Ok(match written {
            Written::String(text) => Pattern::Text(text),
            Written::Regex(pattern) => Pattern::Regex(Regex::new(&pattern)?),
        })
    }
}

impl Finds for &Pattern {
    /// Pieces that cover the whole text, each with whether it is a match.
    fn find_matches(&self, inside: &str) -> Result<Vec<(Offsets, bool)>> {
        let matches = match self {
            Pattern::Text(text) => inside
                .match_indices(text.as_str())
                .map(|(at, text)| (at, at + text.len()))
                .collect(),
            Pattern::Regex(regex) => regex.find_all(inside)?,
        };
        let mut pieces = Vec::with_capacity(2 * matches.len() + 1);
        let mut end = 0;
        for (from, to) in matches {
            if end < from {
                pieces.push(((end, from), false));
            }
            pieces.push(((from, to), true));
            end = to;
        }
        if end < inside.len() || pieces.is_empty() {
            pieces.push(((end, inside.len()), false));
        }
        Ok(pieces)
    }
}

/// Splits text at matches, or between them if inverted.
pub struct Split {
    pattern: Pattern,
    behavior: SplitDelimiterBehavior,
    invert: bool,
}

impl Split {
    pub fn new(pattern: Written, behavior: SplitDelimiterBehavior, invert: bool) -> Result<Split> {
        Ok(Split { pattern: Pattern::new(pattern)?, behavior, invert })
    }

    /// Makes each match and each text between matches a separate piece.
    pub fn isolating(pattern: &str) -> Result<Split> {
        Split::new(Written::regex(pattern), SplitDelimiterBehavior::Isolated, false)
    }
}

impl PreTokenizer for Split {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> Result<()> {
        text.split(|_, piece| match self.invert {
            true => piece.split(Invert(&self.pattern), self.behavior),
            false => piece.split(&self.pattern, self.behavior),
        })
    }
}

/// Replaces each match with a text.
pub struct Replace {
    pattern: Pattern,
    content: String,
}

impl Replace {
    pub fn new(pattern: Written, content: String) -> Result<Replace> {
        Ok(Replace { pattern: Pattern::new(pattern)?, content })
    }

    /// Replaces the matches in a text.
    pub fn apply(&self, text: &str) -> Result<String> {
        let pieces = (&self.pattern).find_matches(text)?.into_iter();
        Ok(pieces
            .map(|((from, to), found)| if found { &self.content } else { &text[from..to] })
            .collect())
    }
}

impl Normalizer for Replace {
    fn normalize(&self, text: &mut NormalizedString) -> Result<()> {
        text.replace(&self.pattern, &self.content)
    }
}
