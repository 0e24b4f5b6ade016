//! Added tokens: strings that are matched in the raw text and always become one token.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use daachorse::{DoubleArrayAhoCorasick, DoubleArrayAhoCorasickBuilder, MatchKind};
use tokenizers::tokenizer::{PreTokenizedString, Token, normalizer};
use tokenizers::{AddedToken, Result};

use crate::regex::Regex;

/// Finds added tokens in raw text; leftmost match first, then the longest.
pub struct Splitter {
    /// `None` if there are no tokens.
    finder: Option<DoubleArrayAhoCorasick<u32>>,
    tokens: BTreeMap<u32, AddedToken>,
    word: Regex,
}

impl Splitter {
    pub fn new(tokens: BTreeMap<u32, AddedToken>) -> Result<Splitter> {
        let contents = tokens.iter().map(|(&id, token)| (token.content.as_str(), id));
        let contents: HashMap<&str, u32> =
            contents.filter(|(content, _)| !content.is_empty()).collect();
        let any = !contents.is_empty();
        let build = || {
            DoubleArrayAhoCorasickBuilder::new()
                .match_kind(MatchKind::LeftmostLongest)
                .build_with_values(contents)
                .map_err(|error| format!("its added tokens: {error}"))
        };
        let finder = any.then(build).transpose()?;
        Ok(Splitter { finder, tokens, word: Regex::new(r"\w")? })
    }

    /// Splits the text at added tokens; their pieces carry their ids.
    pub fn split(&self, text: &str) -> Result<PreTokenizedString> {
        let mut pieces = Vec::new();
        let mut end = 0;
        for found in self.finder.iter().flat_map(|finder| finder.leftmost_find_iter(text)) {
            let (mut from, mut to, id) = (found.start(), found.end(), found.value());
            let token = &self.tokens[&id];
            let (before, after) = (&text[..from], &text[to..]);
            if token.single_word
                && (self.is_word(before.chars().next_back())?
                    || self.is_word(after.chars().next())?)
            {
                continue;
            }
            // The previous token may already have taken the spaces.
            if token.lstrip {
                from = before.trim_end().len().max(end);
            }
            if token.rstrip {
                to += after.len() - after.trim_start().len();
            }
            pieces.extend((end < from).then_some((None, end..from)));
            pieces.push((Some(id), from..to.max(from)));
            end = to.max(end);
        }
        pieces.extend((end < text.len() || pieces.is_empty()).then_some((None, end..text.len())));

        let mut split = PreTokenizedString::from(text);
        split.split(|_, whole| {
            let piece = |(id, at): (Option<u32>, Range<usize>)| {
                let part =
                    whole.slice(normalizer::Range::Normalized(at)).expect("whole characters");
                let token = |id| Token::new(id, part.get().to_owned(), (0, part.get().len()));
                let tokens = id.map(|id| vec![token(id)]);
                (part, tokens)
            };
            Ok(pieces.drain(..).map(piece).collect::<Vec<_>>())
        })?;
        Ok(split)
    }

    fn is_word(&self, c: Option<char>) -> Result<bool> {
        let Some(c) = c else { return Ok(false) };
        Ok(!self.word.find_all(c.encode_utf8(&mut [0; 4]))?.is_empty())
    }
}
