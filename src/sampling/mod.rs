//! Which tokens a request's draws may choose.

// In the browser constraints come from a module of their own.
#[cfg(not(target_arch = "wasm32"))]
mod grammar;
mod limits;
mod thinking;

use std::{fmt::Debug, task::Poll};

use crate::{Result, api::Spec};

#[cfg(not(target_arch = "wasm32"))]
pub use grammar::{Grammar, LocalCompiler, Vocabulary};
pub use limits::TokenLimits;
pub use thinking::ThinkingBudget;

/// Restricts what an answer can say, token by token: a grammar, a schema, a choice.
pub trait Constraint: Debug {
    /// The tokens that may come next, one bit per token: token t is bit t mod 32 of word t / 32. End
    /// tokens are among them where the answer may end.
    fn mask(&mut self) -> Result<Vec<u32>>;

    /// Takes in the token that was drawn.
    fn accept(&mut self, token: u32) -> Result<()>;

    /// Takes back the last `count` tokens that it took in.
    fn rollback(&mut self, count: usize) -> Result<()>;

    /// Whether the answer is complete and nothing can follow.
    fn is_complete(&self) -> bool;
}

/// Makes the constraints of one model.
pub trait Compiler {
    /// Makes the constraint of a request; the model's `tokens` are asked for the first time only.
    ///
    /// Pending while the compiler is being made ready, which begins with the first call: ask again
    /// once [`Compiler::is_ready`].
    fn compile(
        &mut self,
        spec: &Spec,
        tokens: &dyn Fn() -> Result<Tokens>,
    ) -> Poll<Result<Box<dyn Constraint>>>;

    /// Whether to ask: not while the compiler is being made ready.
    fn is_ready(&self) -> bool {
        true
    }
}

/// What constraints know of a model's tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tokens {
    /// `[vocab]`: what each adds to the text, nothing for control tokens.
    pub spellings: Vec<Vec<u8>>,
    /// Those that end an answer.
    pub end_ids: Vec<u32>,
    /// The character that an answer loses at its beginning, and how many of it at most.
    pub strip: Option<(char, usize)>,
}
