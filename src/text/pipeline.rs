//! The stages of a tokenizer, in the order in which they run.

use std::ops::Range;

use tokenizers::models::bpe::BPE;
use tokenizers::tokenizer::{
    AddedVocabulary, Model, NormalizedString, Normalizer, OffsetReferential, OffsetType,
    PreTokenizedString, PreTokenizer, Token,
};
use tokenizers::{AddedToken, Result};

use super::spelling::Spelling;

/// A tokenizer's stages: normalisation, pre-tokenisation, BPE and decoding.
pub struct Pipeline {
    pub normalizers: Normalizers,
    pub pre_tokenizers: Vec<Box<dyn PreTokenizer + Send + Sync>>,
    pub model: BPE,
    pub spelling: Spelling,
    /// Special token ids added before a text.
    pub before: Vec<u32>,
    /// Special token ids added after a text.
    pub after: Vec<u32>,
    added: AddedVocabulary,
}

/// Normalisers, run in order.
#[derive(Default)]
pub struct Normalizers(pub Vec<Box<dyn Normalizer + Send + Sync>>);

impl Normalizer for Normalizers {
    fn normalize(&self, text: &mut NormalizedString) -> Result<()> {
        self.0.iter().try_for_each(|step| step.normalize(text))
    }
}

impl Pipeline {
    /// A pipeline without normalisers and pre-tokenisers.
    pub fn new(model: BPE, spelling: Spelling) -> Self {
        Pipeline {
            normalizers: Normalizers::default(),
            pre_tokenizers: Vec::new(),
            model,
            spelling,
            before: Vec::new(),
            after: Vec::new(),
            added: AddedVocabulary::new(),
        }
    }

    /// Adds tokens. Those that are not in the model's vocabulary get the next free ids.
    pub fn add(&mut self, tokens: Vec<AddedToken>) -> Result<()> {
        self.added.add_tokens(tokens, &self.model, Some(&self.normalizers)).map(|_| ())
    }

    /// The added tokens and their ids.
    pub fn added(&self) -> impl Iterator<Item = (u32, &AddedToken)> {
        self.added.get_added_tokens_decoder().iter().map(|(id, token)| (*id, token))
    }

    pub fn added_token(&self, id: u32) -> Option<&AddedToken> {
        self.added.get_added_tokens_decoder().get(&id)
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.added.token_to_id(token, &self.model)
    }

    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.added.simple_id_to_token(id).or_else(|| self.model.id_to_token(id))
    }

    /// The largest id, `None` if there are no tokens.
    pub fn max_id(&self) -> Option<u32> {
        let added = self.added.get_vocab().values().max().copied();
        added.max(self.model.get_vocab().into_values().max())
    }

    /// Ids of a text that is already split at added tokens; `tokenize` turns each piece into tokens.
    pub fn ids(
        &self,
        text: PreTokenizedString,
        tokenize: impl Fn(&str) -> Result<Vec<Token>>,
    ) -> Result<Vec<u32>> {
        let mut text = self.split(text)?;
        text.tokenize(|piece| tokenize(piece.get()))?;
        let pieces = text.get_splits(OffsetReferential::Original, OffsetType::None);
        let tokens = pieces.into_iter().flat_map(|(.., tokens)| tokens.iter().flatten());
        Ok(tokens.map(|token| token.id).collect())
    }

    /// The pieces of a text that is already split at added tokens, as the model sees them, and where in
    /// the text they were.
    pub fn pieces(&self, text: PreTokenizedString) -> Result<Vec<(String, Range<usize>)>> {
        let text = self.split(text)?;
        let pieces = text.get_splits(OffsetReferential::Original, OffsetType::Byte);
        Ok(pieces.into_iter().map(|(piece, (from, to), _)| (piece.to_owned(), from..to)).collect())
    }

    fn split(&self, mut text: PreTokenizedString) -> Result<PreTokenizedString> {
        for step in &self.pre_tokenizers {
            step.pre_tokenize(&mut text)?;
        }
        Ok(text)
    }
}
