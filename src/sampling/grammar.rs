//! Constraints compiled where the engine runs.

use std::{sync::Arc, task::Poll};

use tabloom_grammar::Strip;

use super::{Compiler, Constraint, Tokens};
use crate::{Error, Result, api::Spec};

/// The tokens of a model, prepared once for all its constraints.
#[derive(Clone)]
pub struct Vocabulary(Arc<tabloom_grammar::Vocabulary>);

impl Vocabulary {
    /// Prepares the tokens of a model.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] for vocabularies beyond 4 MiB of text.
    pub fn new(tokens: Tokens) -> Result<Vocabulary> {
        let strip = tokens.strip.map(|(content, count)| Strip { content, count });
        match tabloom_grammar::Vocabulary::new(tokens.spellings, &tokens.end_ids, strip) {
            Ok(vocabulary) => Ok(Vocabulary(Arc::new(vocabulary))),
            Err(error) => Err(Error::Tokenizer { message: error.to_string() }),
        }
    }
}

/// A constraint made from a request's [`Spec`].
#[derive(Debug)]
pub struct Grammar {
    inner: tabloom_grammar::Grammar,
    /// For error messages.
    spec: Spec,
}

impl Grammar {
    /// Compiles the constraint of a request.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if the request is wrong, too large or too complex, or cannot be met by
    /// these tokens.
    pub fn compile(vocabulary: &Vocabulary, spec: &Spec) -> Result<Box<dyn Constraint>> {
        let inner = tabloom_grammar::Grammar::compile(&vocabulary.0, &spec.form)
            .map_err(|error| spec.refused(error))?;
        Ok(Box::new(Grammar { inner, spec: spec.clone() }))
    }
}

impl Constraint for Grammar {
    fn mask(&mut self) -> Result<Vec<u32>> {
        self.inner.mask().map_err(|error| self.spec.refused(error))
    }

    fn accept(&mut self, token: u32) -> Result<()> {
        self.inner.accept(token).map_err(|error| self.spec.refused(error))
    }

    fn rollback(&mut self, count: usize) -> Result<()> {
        self.inner.rollback(count).map_err(|error| self.spec.refused(error))
    }

    fn is_complete(&self) -> bool {
        self.inner.is_complete()
    }
}

/// Compiles constraints in the same process.
#[derive(Default)]
pub struct LocalCompiler(Option<Vocabulary>);

impl Compiler for LocalCompiler {
    fn compile(
        &mut self,
        spec: &Spec,
        tokens: &dyn Fn() -> Result<Tokens>,
    ) -> Poll<Result<Box<dyn Constraint>>> {
        let Some(vocabulary) = &self.0 else {
            self.0 = Some(Vocabulary::new(tokens()?)?);
            return Poll::Pending;
        };
        Poll::Ready(Grammar::compile(vocabulary, spec))
    }
}

#[cfg(test)]
mod tests {
    use tabloom_grammar::Form;

    use super::*;

    #[test]
    fn tokens_are_prepared_in_a_piece_of_their_own() {
        let mut compiler = LocalCompiler::default();
        let spec = Spec::new(Form::Choice(vec!["a".into()]), "choice").expect("it is valid");
        let spellings = vec![b"a".to_vec(), vec![]];
        let tokens =
            || Ok(Tokens { spellings: spellings.clone(), end_ids: vec![1], ..Default::default() });
        assert!(compiler.compile(&spec, &tokens).is_pending());
        assert!(compiler.is_ready());
        let again = compiler.compile(&spec, &|| Err(Error::Closed));
        assert!(matches!(again, Poll::Ready(Ok(_))), "the tokens are asked for once");
    }
}
