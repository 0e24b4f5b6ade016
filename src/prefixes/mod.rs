//! Prefixes of conversations that are stored between visits: their keys and values, beside the files of their
//! model.
//!
//! A conversation is stored in runs of block table entries, each a file of its own. [`Prefixes`] knows which
//! runs are stored and decides which are written, read and deleted; [`RunFiles`] does it.
//!
//! A run is found by a digest of all tokens up to its end, of the model's files and of everything else that
//! its keys and values depend on, and its file begins with a digest of that and of its content. So a file
//! that was cut, changed or replaced counts as missing.

mod files;
mod index;
mod run;
#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;

pub use self::{
    files::{RunFiles, Written},
    index::{Prefixes, Shape},
    run::Run,
};
