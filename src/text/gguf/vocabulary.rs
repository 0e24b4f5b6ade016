//! The vocabulary of a GGUF file, and its merges.

use std::borrow::Cow;

use tokenizers::AddedToken;
use tokenizers::models::bpe::{Merges, Vocab};

use crate::error::{Error, Result};

/// Longest token in bytes for which merges are derived; SentencePiece's are far shorter.
const LONGEST_WORD: usize = 512;

/// Tokens by id; no two have the same text.
pub struct Vocabulary<'a> {
    pub tokens: Vec<Cow<'a, str>>,
    pub kinds: Vec<Kind>,
}

/// The type of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A control token: it steers the model.
    Control,
    /// An added token, matched in raw text.
    Added,
}

impl<'a> Vocabulary<'a> {
    /// Reads the lists of the metadata; if `kinds` is empty, every token is ordinary text.
    pub fn new(tokens: &[&'a str], kinds: &[i64]) -> Result<Vocabulary<'a>> {
        if tokens.is_empty() {
            return Err(refused("it has no tokens"));
        }
        if !kinds.is_empty() && kinds.len() != tokens.len() {
            let (kinds, tokens) = (kinds.len(), tokens.len());
            return Err(refused(format!("found {kinds} token types for {tokens} tokens")));
        }
        let named = |(id, token): (usize, &&'a str)| match *token {
            "" => Cow::Owned(format!("[EMPTY_{id}]")),
            token => Cow::Borrowed(token),
        };
        let kind = |id| match kinds.get(id) {
            Some(2 | 3) => Kind::Control,
            Some(4) => Kind::Added,
            _ => Kind::Text,
        };
        Ok(Vocabulary {
            tokens: tokens.iter().enumerate().map(named).collect(),
            kinds: (0..tokens.len()).map(kind).collect(),
        })
    }

    /// Text → id.
    pub fn ids(&self) -> Result<Vocab> {
        let ids: Vocab =
            (0..).zip(&self.tokens).map(|(id, token)| (token.to_string(), id)).collect();
        if ids.len() == self.tokens.len() {
            return Ok(ids);
        }
        let twice = (0..).zip(&self.tokens).find(|(id, token)| ids.get(&***token) != Some(id));
        let token = twice.map_or("", |(_, token)| token);
        Err(refused(format!("two tokens are spelled {token:?}")))
    }

    /// Ids of control and added tokens.
    pub fn added_ids(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.kinds).filter(|(_, kind)| **kind != Kind::Text).map(|(id, _)| id)
    }

    /// Control and added tokens. With `strips`, those of Phi-3's turns take the white space after them:
    /// no key of the format says so.
    pub fn added(&self, strips: bool) -> Vec<AddedToken> {
        let added = |id: u32| {
            let content = &*self.tokens[id as usize];
            let special = self.kinds[id as usize] == Kind::Control;
            let of_text = ["<unk>", "<s>", "<|endoftext|>"].contains(&content);
            AddedToken::from(content, special).normalized(false).rstrip(strips && !of_text)
        };
        self.added_ids().map(added).collect()
    }

    /// Reads merges `a b`, highest priority first.
    pub fn merges(&self, merges: &[&str]) -> Result<Merges> {
        if merges.is_empty() {
            return Err(refused("it has no merges"));
        }
        let ids = self.ids()?;
        let mut pairs = Vec::with_capacity(merges.len());
        for merge in merges {
            // The first token may start with a space.
            let first = merge.chars().next().map_or(0, char::len_utf8);
            let space = merge[first..].find(' ').map(|at| first + at);
            let parts = space.map(|at| (&merge[..at], &merge[at + 1..]));
            // The library panics otherwise.
            let known = parts.filter(|(left, right)| {
                [*left, *right, &[*left, *right].concat()]
                    .iter()
                    .all(|part| ids.contains_key(*part))
            });
            let (left, right) = known.ok_or_else(|| {
                let expected = "two tokens that make a third, a space between them";
                refused(format!("found the merge {merge:?}, expected {expected}"))
            })?;
            pairs.push((left.to_owned(), right.to_owned()));
        }
        Ok(pairs)
    }

    /// Derives all merges of two tokens to a third; the higher the third's score, the higher the priority.
    pub fn merges_by_score(&self, scores: &[f64]) -> Result<Merges> {
        if scores.len() != self.tokens.len() {
            let (scores, tokens) = (scores.len(), self.tokens.len());
            return Err(refused(format!("found {scores} scores for {tokens} tokens")));
        }
        let ids = self.ids()?;
        let text = |id: &u32| self.kinds[*id as usize] == Kind::Text;
        let part = |part: &str| ids.get(part).copied().filter(text);
        let mut merges = Vec::new();
        for (id, token) in (0..).zip(&self.tokens).filter(|(id, _)| text(id)) {
            if token.len() > LONGEST_WORD {
                let length = token.len();
                return Err(refused(format!(
                    "token {id} has {length} bytes, expected at most {LONGEST_WORD}"
                )));
            }
            let length = token.chars().count();
            for (count, (at, _)) in token.char_indices().enumerate().skip(1) {
                if let (Some(left), Some(right)) = (part(&token[..at]), part(&token[at..])) {
                    merges.push((scores[id as usize], count, length - count, left, right));
                }
            }
        }
        // The order of transformers: at equal scores, longer parts first.
        merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((b.1, b.2).cmp(&(a.1, a.2))));
        let content = |id: u32| self.tokens[id as usize].to_string();
        Ok(merges.into_iter().map(|(_, _, _, l, r)| (content(l), content(r))).collect())
    }
}

fn refused(message: impl Into<String>) -> Error {
    Error::Tokenizer { message: message.into() }
}
