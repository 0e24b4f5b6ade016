//! Regular expressions as tokenizers are written with: Oniguruma's, with Unicode's classes.
//!
//! A browser has an engine for them already, with Unicode's tables; one of our own would be the
//! largest part of the module that visitors download.

#[cfg(target_arch = "wasm32")]
mod browser;
#[cfg(any(target_arch = "wasm32", test))]
mod ecmascript;
#[cfg(not(target_arch = "wasm32"))]
mod native;

#[cfg(target_arch = "wasm32")]
pub use browser::Regex;
#[cfg(not(target_arch = "wasm32"))]
pub use native::Regex;
