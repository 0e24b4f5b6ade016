//! Published models, tokenizers and templates, which nobody here made: `cargo xtask test --only real`
//! fetches them.
#![cfg(not(target_arch = "wasm32"))]

mod answers;
mod files;
mod models;
mod templates;
mod tokenizers;
mod vocabularies;
