//! Regular expressions of tokenizers: Oniguruma's syntax with Unicode classes.
//!
//! In the browser, its own regex engine and Unicode tables are used: ours would be the largest part of
//! the module that visitors download.

#[cfg(target_arch = "wasm32")]
mod browser;
#[cfg(any(target_arch = "wasm32", test))]
mod ecmascript;
#[cfg(not(target_arch = "wasm32"))]
mod native;

#[cfg(target_arch = "wasm32")]
pub use browser::Regex;
#[cfg(all(test, not(target_arch = "wasm32")))]
pub use ecmascript::translate;
#[cfg(not(target_arch = "wasm32"))]
pub use native::Regex;
