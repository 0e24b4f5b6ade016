//! Text to tokens and back: tokenizer, chat template, detokeniser, stop strings.
//!
//! Control tokens (`<|im_end|>`, `[INST]`, …) steer a model, so they come from
//! its chat template alone. [`Tokenizer::quote`] marks what merely looks like
//! one in a message; the marks vanish again when the rendered prompt has been
//! split at its control tokens.
//!
//! What a model thinks, says and calls is one text to it; a [`Reader`] tells them apart.

mod added;
mod bytes;
mod chat;
mod detokenizer;
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
pub use tools::{Dialect, Kind, Reader, Reading, Span, Thinking};
