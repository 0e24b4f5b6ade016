//! Which tokens a request's draws may choose.

mod limits;

pub use limits::TokenLimits;

use std::fmt::Debug;

use crate::Result;

/// Restricts what an answer can say, token by token: a grammar, a schema, a choice.
pub trait Constraint: Debug {
    /// The tokens that may come next, one bit per token: token t is bit t mod 32 of word t / 32. End
    /// tokens are among them where the answer may end.
    fn mask(&mut self) -> Result<Vec<u32>>;

    /// Takes in the token that was drawn.
    fn accept(&mut self, token: u32) -> Result<()>;

    /// Whether the answer is complete and nothing can follow.
    fn is_complete(&self) -> bool;
}
