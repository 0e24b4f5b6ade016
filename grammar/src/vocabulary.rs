//! The tokens of a model, as constraints see them.

use std::sync::Arc;

use llguidance::{
    ParserFactory,
    api::ParserLimits,
    earley::SlicedBiasComputer,
    toktrie::{ApproximateTokEnv, INVALID_TOKEN, InferenceCapabilities, TokRxInfo, TokTrie},
};

use crate::{Error, Result};

/// Longer tokens are never allowed; the trie holds no deeper ones.
const MAX_TOKEN_BYTES: usize = 1000;

/// What the trie can hold.
const MAX_VOCABULARY_BYTES: usize = 4 << 20;
const MAX_TOKENS: usize = 1 << 22;

/// No UTF-8 has this byte; the trie keeps it for tokens that are not text.
const NO_TEXT: u8 = 0xFF;

/// Grammars may name tokens that are not text. None is known by name here, but the trie wants one.
const NAMELESS: &[u8] = b"\xFF<|none|>";

/// Bounds for what one constraint may cost: steps of its compilation and of each mask, items and
/// states held. Schemas met in practice stay far below.
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

/// The tokens of a model, made ready once for all its constraints.
pub struct Vocabulary {
    pub(crate) factory: ParserFactory,
    /// Number of tokens.
    pub(crate) size: usize,
    pub(crate) strip: Option<StrippedTokens>,
}

/// What the beginning of an answer loses when its tokens are turned into text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strip {
    pub content: char,
    /// How many of it at most.
    pub count: usize,
}

/// Tokens at the beginning of an answer that are not the text they spell.
#[derive(Clone)]
pub(crate) struct StrippedTokens {
    /// How many characters are lost at most.
    pub count: usize,
    /// Those that are the character alone: they spell nothing. Sorted.
    pub alone: Vec<u32>,
    /// The others that begin with it. Sorted.
    pub longer: Vec<u32>,
}

impl Vocabulary {
    /// Prepares the tokens of a model.
    ///
    /// `tokens[id]` is what the token adds to the text: nothing for control tokens. `end_ids` end
    /// an answer. A mask has a bit for each of `tokens`.
    ///
    /// # Errors
    /// Vocabularies of more than 4 MiB of text or 4 million tokens.
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
        Ok(Vocabulary { factory, size, strip })
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
