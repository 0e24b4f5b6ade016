//! What parts of a tokenizer look for in text, and what they do where they find it.

use serde::Deserialize;
use tokenizers::Result;
use tokenizers::tokenizer::pattern::{Invert, Pattern as Finds};
use tokenizers::tokenizer::{
    NormalizedString, Normalizer, Offsets, PreTokenizedString, PreTokenizer, SplitDelimiterBehavior,
};

use crate::regex::Regex;

/// How GPT-2 splits text into words; most others do nearly the same.
pub const GPT_2: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// A pattern as `tokenizer.json` has it.
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

/// A pattern that can be looked for.
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
    /// Pieces that cover the text, each with whether it is a match.
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

/// Splits text where a pattern is found, or between those places.
pub struct Split {
    pattern: Pattern,
    behavior: SplitDelimiterBehavior,
    invert: bool,
}

impl Split {
    pub fn new(pattern: Written, behavior: SplitDelimiterBehavior, invert: bool) -> Result<Split> {
        Ok(Split { pattern: Pattern::new(pattern)?, behavior, invert })
    }

    /// Each match, and what is between matches, becomes a piece of its own.
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

/// Puts a text in place of each match.
pub struct Replace {
    pattern: Pattern,
    content: String,
}

impl Replace {
    pub fn new(pattern: Written, content: String) -> Result<Replace> {
        Ok(Replace { pattern: Pattern::new(pattern)?, content })
    }

    /// The text with its matches replaced.
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
