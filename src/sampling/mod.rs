//! Which tokens may be sampled for a request.

// In the browser, constraints come from a module of their own.
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

/// Restricts an answer token by token: a grammar, a schema, a choice.
pub trait Constraint: Debug {
    /// The tokens that may come next, one bit per token: token t is bit t mod 32 of word t / 32.
    /// Includes end tokens where the answer may end.
    fn mask(&mut self) -> Result<Vec<u32>>;

    /// Advances by a sampled token.
    fn accept(&mut self, token: u32) -> Result<()>;

    /// Undoes the last `count` accepted tokens.
    fn rollback(&mut self, count: usize) -> Result<()>;

    /// Whether the answer is complete and no token can follow.
    fn is_complete(&self) -> bool;
}

/// Compiles the constraints of one model.
pub trait Compiler {
    /// Compiles the constraint of a request. Calls `tokens`, the model's, the first time only.
    ///
    /// Pending while the compiler is loading, which starts with the first call, and once after it has
    /// prepared the tokens, which takes long: call again once [`Compiler::is_ready`].
    fn compile(
        &mut self,
        spec: &Spec,
        tokens: &dyn Fn() -> Result<Tokens>,
    ) -> Poll<Result<Box<dyn Constraint>>>;

    /// False while the compiler is loading.
    fn is_ready(&self) -> bool {
        true
    }
}

/// What constraints need of a model's tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tokens {
    /// `[vocab]`: the bytes that each token adds to the text; empty for control tokens.
    pub spellings: Vec<Vec<u8>>,
    /// The tokens that end an answer.
    pub end_ids: Vec<u32>,
    /// The character that is stripped from the beginning of an answer, and how many of it at most.
    pub strip: Option<(char, usize)>,
}
