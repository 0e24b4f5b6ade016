//! Text to tokens and back: tokenizer, chat template, detokeniser, stop strings.
//!
//! Control tokens (`<|im_end|>`, `[INST]`, …) steer a model, so only its chat template may produce
//! them. [`Tokenizer::quote`] inserts marks into message text that looks like a control token; the
//! marks are removed after the rendered prompt has been split at its control tokens.
//!
//! A [`Reader`] separates reasoning, content and tool calls in the model's text.

mod added;
mod bytes;
mod chat;
mod detokenizer;
mod ends;
mod generation;
mod gguf;
mod json;
mod pattern;
mod pieces;
mod pipeline;
mod quote;
#[cfg(test)]
mod samples;
mod spelling;
mod stop;
mod template;
mod tokenizer;
mod tokenizer_json;
mod tools;

pub use chat::{Chat, ChatFiles, Prompt};
pub use detokenizer::Detokenizer;
pub use generation::GenerationDefaults;
pub use pieces::{CallPiece, End, Piece, Pieces};
pub use stop::StopFilter;
pub use template::{ChatTemplate, TemplateOptions};
pub use tokenizer::Tokenizer;
pub use tools::{Dialect, Kind, Part, Reader, Reading, Span, Thinking};
