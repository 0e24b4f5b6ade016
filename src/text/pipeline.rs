//! The parts of a tokenizer, in the order in which a text passes through them.

use tokenizers::models::bpe::BPE;
use tokenizers::tokenizer::{
    AddedVocabulary, Model, NormalizedString, Normalizer, OffsetReferential, OffsetType,
    PreTokenizedString, PreTokenizer, Token,
};
use tokenizers::{AddedToken, Result};

use super::spelling::Spelling;

/// What turns text into token ids and back.
pub struct Pipeline {
    pub normalizers: Normalizers,
    pub pre_tokenizers: Vec<Box<dyn PreTokenizer + Send + Sync>>,
    pub model: BPE,
    pub spelling: Spelling,
    /// Ids that a text by itself begins with.
    pub before: Vec<u32>,
    /// Ids that a text by itself ends with.
    pub after: Vec<u32>,
    added: AddedVocabulary,
}

/// Normalisers that follow one another.
#[derive(Default)]
pub struct Normalizers(pub Vec<Box<dyn Normalizer + Send + Sync>>);

impl Normalizer for Normalizers {
    fn normalize(&self, text: &mut NormalizedString) -> Result<()> {
        self.0.iter().try_for_each(|step| step.normalize(text))
    }
}

impl Pipeline {
    /// A pipeline that changes and splits nothing before the model.
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

    /// Adds tokens. Those that the model's vocabulary lacks get the ids behind it.
    pub fn add(&mut self, tokens: Vec<AddedToken>) -> Result<()> {
        self.added.add_tokens(tokens, &self.model, Some(&self.normalizers)).map(|_| ())
    }

    /// Tokens that were added, by id.
    pub fn added(&self) -> impl Iterator<Item = (u32, &AddedToken)> {
        self.added.get_added_tokens_decoder().iter().map(|(id, token)| (*id, token))
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

    /// Ids of a text in which added tokens are marked already; `tokenize` turns pieces into tokens.
    pub fn ids(
        &self,
        mut text: PreTokenizedString,
        tokenize: impl Fn(&str) -> Result<Vec<Token>>,
    ) -> Result<Vec<u32>> {
        for step in &self.pre_tokenizers {
            step.pre_tokenize(&mut text)?;
        }
        text.tokenize(|piece| tokenize(piece.get()))?;
        let pieces = text.get_splits(OffsetReferential::Original, OffsetType::None);
        let tokens = pieces.into_iter().flat_map(|(.., tokens)| tokens.iter().flatten());
        Ok(tokens.map(|token| token.id).collect())
    }
}
