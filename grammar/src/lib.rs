//! Structured output: which tokens may come next in a constrained answer.
//!
//! A [`Grammar`] is compiled from a [`Form`] for the [`Vocabulary`] of one model. The crate depends on
//! neither model nor engine, so that a browser can load it separately, on first use.

#[cfg(feature = "compile")]
mod adapt;
mod beyond;
mod check;
mod endless;
mod error;
mod form;
#[cfg(feature = "compile")]
mod grammar;
#[cfg(feature = "compile")]
mod number;
mod schema;
#[cfg(feature = "compile")]
mod vocabulary;

pub use check::size as check_size;
pub use error::{Error, Result};
pub use form::Form;
#[cfg(feature = "compile")]
pub use grammar::Grammar;
pub use schema::resolve;
#[cfg(feature = "compile")]
pub use vocabulary::{Strip, Vocabulary};
