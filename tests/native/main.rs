//! The crate's tests that run natively, in one program: it is linked once.
#![cfg(not(target_arch = "wasm32"))]

#[path = "../support/built_in.rs"]
mod built_in;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/variants.rs"]
mod variants;
#[path = "../support/walks.rs"]
mod walks;

mod adaptive;
mod beyond_vocabulary;
mod cache;
mod chat;
mod clients;
mod completions;
mod embeddings;
mod formats;
mod gguf;
mod grammar;
mod host;
mod hostile_templates;
mod inspect;
mod jinja;
mod models_table;
mod quantiser;
mod schema_suite;
mod serving;
mod shaders;
mod speculation;
mod text_goldens;
mod tokens_per_step;
mod traffic;
mod without_drafter;
