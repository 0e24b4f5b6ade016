//! Added tokens: strings that are matched in a text before the model sees it, and become one token.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use daachorse::{DoubleArrayAhoCorasick, DoubleArrayAhoCorasickBuilder, MatchKind};
use tokenizers::tokenizer::{NormalizedString, Normalizer, PreTokenizedString, Token, normalizer};
use tokenizers::{AddedToken, Result};

use super::pipeline::Normalizers;
use crate::regex::Regex;

/// Finds added tokens as the library does: some in the raw text, then others in the normalised text
/// between them (`normalized`); leftmost match first, then the longest.
pub struct Splitter {
    tokens: BTreeMap<u32, AddedToken>,
    raw: Finder,
    normalized: Finder,
    word: Regex,
}

/// Finds tokens of one of the two kinds.
struct Finder {
    all: Option<Matcher>,
    /// Without control tokens.
    text: Option<Matcher>,
}

type Matcher = DoubleArrayAhoCorasick<u32>;

impl Finder {
    /// The first token from a byte on that may stand where it does: its place and its id.
    fn find(
        &self,
        text: &str,
        mut from: usize,
        may_stand: impl Fn(Range<usize>, u32) -> bool,
    ) -> Option<(Range<usize>, u32)> {
        let first = |matcher: &Option<Matcher>, from: usize| {
            let found = matcher.as_ref()?.leftmost_find_iter(&text[from..]).next()?;
            Some((from + found.start()..from + found.end(), found.value()))
        };
        loop {
            let (at, id) = first(&self.all, from)?;
            if may_stand(at.clone(), id) {
                return Some((at, id));
            }
            // An ordinary token may start at the same place.
            let other = first(&self.text, at.start).filter(|(other, _)| other.start == at.start);
            if other.is_some() {
                return other;
            }
            from = at.start + text[at.start..].chars().next().map_or(1, char::len_utf8);
        }
    }
}

impl Splitter {
    /// A splitter for these tokens; normalised ones are matched as the normalisers change them.
    pub fn new(
        tokens: BTreeMap<u32, AddedToken>,
        normalizers: &Normalizers,
        is_control: impl Fn(u32) -> bool,
    ) -> Result<Splitter> {
        let mut contents = [HashMap::new(), HashMap::new()];
        for (&id, token) in &tokens {
            let mut content = NormalizedString::from(token.content.as_str());
            if token.normalized {
                normalizers.normalize(&mut content)?;
            }
            if !content.is_empty() {
                contents[usize::from(token.normalized)].insert(content.get().to_owned(), id);
            }
        }
        let [raw, normalized] = contents.map(|contents| -> Result<Finder> {
            let text = contents.iter().filter(|(_, id)| !is_control(**id));
            let text = matcher(text.map(|(content, id)| (content.clone(), *id)).collect())?;
            Ok(Finder { all: matcher(contents)?, text })
        });
        Ok(Splitter { raw: raw?, normalized: normalized?, tokens, word: Regex::new(r"\w")? })
    }

    /// Splits the text at added tokens and normalises the pieces between; the pieces of tokens carry
    /// their ids. `may_stand` says of a place in the text and an id whether the token may stand there;
    /// ordinary tokens may everywhere.
    pub fn split(
        &self,
        text: &str,
        normalizers: &Normalizers,
        may_stand: impl Fn(Range<usize>, u32) -> bool,
    ) -> Result<PreTokenizedString> {
        let mut split = PreTokenizedString::from(text);
        split.split(|_, whole| self.cut(whole, &self.raw, &may_stand))?;
        split.split(|_, mut piece| {
            normalizers.normalize(&mut piece)?;
            self.cut(piece, &self.normalized, &may_stand)
        })?;
        Ok(split)
    }

    fn cut(
        &self,
        whole: NormalizedString,
        finder: &Finder,
        may_stand: impl Fn(Range<usize>, u32) -> bool,
    ) -> Result<Vec<(NormalizedString, Option<Vec<Token>>)>> {
        let text = whole.get();
        let (shift, _) = whole.offsets_original();
        let may_stand = |at: Range<usize>, id: u32| {
            let original = whole.convert_offsets(normalizer::Range::Normalized(at));
            original.is_some_and(|at| may_stand(shift + at.start..shift + at.end, id))
        };
        let mut pieces = Vec::new();
        let (mut end, mut from) = (0, 0);
        while let Some((at, id)) = finder.find(text, from, may_stand) {
            from = at.end;
            let token = &self.tokens[&id];
            let (before, after) = (&text[..at.start], &text[at.end..]);
            if token.single_word
                && (self.is_word(before.chars().next_back())?
                    || self.is_word(after.chars().next())?)
            {
                continue;
            }
            let (mut start, mut stop) = (at.start, at.end);
            // The previous token may already have taken the spaces.
            if token.lstrip {
                start = before.trim_end().len().max(end);
            }
            if token.rstrip {
                stop += after.len() - after.trim_start().len();
            }
            pieces.extend((end < start).then_some((None, end..start)));
            pieces.push((Some(id), start..stop.max(start)));
            end = stop;
        }
        pieces.extend((end < text.len()).then_some((None, end..text.len())));
        let piece = |(id, at): (Option<u32>, Range<usize>)| {
            let part = whole.slice(normalizer::Range::Normalized(at)).expect("whole characters");
            let token = |id| Token::new(id, part.get().to_owned(), (0, part.get().len()));
            let tokens = id.map(|id| vec![token(id)]);
            (part, tokens)
        };
        Ok(pieces.into_iter().map(piece).collect())
    }

    fn is_word(&self, c: Option<char>) -> Result<bool> {
        let Some(c) = c else { return Ok(false) };
        Ok(!self.word.find_all(c.encode_utf8(&mut [0; 4]))?.is_empty())
    }
}

/// `None` if there is nothing to match.
fn matcher(contents: HashMap<String, u32>) -> Result<Option<Matcher>> {
    let build = || {
        DoubleArrayAhoCorasickBuilder::new()
            .match_kind(MatchKind::LeftmostLongest)
            .build_with_values(contents.iter().map(|(content, id)| (content, *id)))
            .map_err(|error| format!("its added tokens: {error}"))
    };
    Ok((!contents.is_empty()).then(build).transpose()?)
}
