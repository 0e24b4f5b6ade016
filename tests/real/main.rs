//! Published files against the libraries that their authors use.
#![cfg(not(target_arch = "wasm32"))]

mod files;
mod tokenizers;
mod vocabularies;
