//! A model's vocabulary, prepared for constraints.

use std::sync::Arc;

use llguidance::{
    ParserFactory,
    api::ParserLimits,
    earley::SlicedBiasComputer,
    toktrie::{ApproximateTokEnv, INVALID_TOKEN, InferenceCapabilities, TokRxInfo, TokTrie},
};

use crate::{Error, Result};

/// Longer tokens are never allowed: the trie is not deeper.
const MAX_TOKEN_BYTES: usize = 1000;

/// Capacity of the trie.
const MAX_VOCABULARY_BYTES: usize = 4 << 20;
const MAX_TOKENS: usize = 1 << 22;

/// This byte never occurs in UTF-8; in the trie it marks tokens that are not text.
const NO_TEXT: u8 = 0xFF;

/// Grammars may name special tokens. None has a name here, but the trie needs one.
const NAMELESS: &[u8] = b"\xFF<|none|>";

/// Limits for one constraint: steps of its compilation and of each mask, stored items and states.
/// Schemas in practice stay far below.
const LIMITS: ParserLimits = ParserLimits {
    max_items_in_row: 2000,
    initial_lexer_fuel: 1_000_000,
    step_lexer_fuel: 200_000,
    step_max_items: 50_000,
    max_lexer_states: 50_000,
    max_grammar_size: 200_000,
    precompute_large_lexemes: true,
    verbose_errors: false,
};

/// A model's vocabulary, prepared once for all constraints.
pub struct Vocabulary {
    pub(crate) factory: ParserFactory,
    /// Number of tokens.
    pub(crate) size: usize,
    pub(crate) strip: Option<StrippedTokens>,
    /// Tokens that begin with a digit.
    pub(crate) digits: Vec<u32>,
}

/// The characters that are stripped from the start of an answer when it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strip {
    pub content: char,
    /// At most this many.
    pub count: usize,
}

/// Tokens from which characters are stripped at the start of an answer.
#[derive(Clone)]
pub(crate) struct StrippedTokens {
    /// At most this many characters are stripped.
    pub count: usize,
    /// Tokens that are only the character: they give no text. Sorted.
    pub alone: Vec<u32>,
    /// Other tokens that start with it. Sorted.
    pub longer: Vec<u32>,
}

impl Vocabulary {
    /// Prepares the tokens of a model.
    ///
    /// `tokens[id]` is the token's text in bytes, empty for control tokens. `end_ids` end an answer. A mask
    /// has a bit per token.
    ///
    /// # Errors
    /// The vocabulary has more than 4 MiB of text or 4 million tokens.
    pub fn new(mut tokens: Vec<Vec<u8>>, end_ids: &[u32], strip: Option<Strip>) -> Result<Self> {
        let bytes: usize = tokens.iter().map(Vec::len).sum();
        if tokens.is_empty() || tokens.len() > MAX_TOKENS || bytes > MAX_VOCABULARY_BYTES {
            let found = format!("a vocabulary of {} tokens and {bytes} bytes", tokens.len());
            return Err(Error::found(found, "1 to 4 million tokens of 4 MiB in all"));
        }
        let end_ids: Vec<u32> =
            end_ids.iter().copied().filter(|&id| (id as usize) < tokens.len()).collect();
        for (id, token) in tokens.iter_mut().enumerate() {
            let is_end = end_ids.contains(&(id as u32));
            if is_end || token.len() > MAX_TOKEN_BYTES || token.contains(&NO_TEXT) {
                token.clear();
            }
        }
        let size = tokens.len();
        let starts = |id: &u32| tokens[*id as usize].first().is_some_and(u8::is_ascii_digit);
        let digits = (0..size as u32).filter(starts).collect();
        let strip = strip.map(|strip| StrippedTokens::new(&tokens, strip));
        tokens.push(NAMELESS.to_vec());
        let info = TokRxInfo::new(tokens.len() as u32, INVALID_TOKEN);
        let mut trie = TokTrie::from(&info, &tokens);
        if !end_ids.is_empty() {
            trie = trie.with_eos_tokens(&end_ids);
        }
        let env = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::general_slices();
        let mut factory =
            ParserFactory::new(&(env as _), InferenceCapabilities::default(), &slices)
                .map_err(|error| Error::new(error.to_string()))?;
        *factory.limits_mut() = LIMITS;
        factory.quiet();
        Ok(Vocabulary { factory, size, strip, digits })
    }
}

impl StrippedTokens {
    fn new(tokens: &[Vec<u8>], strip: Strip) -> Self {
        let content = strip.content.to_string().into_bytes();
        let (alone, longer) = (0..tokens.len() as u32)
            .filter(|&id| tokens[id as usize].starts_with(&content))
            .partition(|&id| tokens[id as usize] == content);
        StrippedTokens { count: strip.count, alone, longer }
    }
}
