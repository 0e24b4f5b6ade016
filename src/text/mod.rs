//! Text to tokens and back: tokenizer, chat template, detokeniser, stop strings.
//!
//! Control tokens (`<|im_end|>`, `[INST]`, …) steer a model, so only its chat template may produce
//! them: the special tokens of its tokenizer, and what the template itself writes. All other added tokens
//! are text. [`Tokenizer::quote`] inserts marks into message text that looks like a control token; in
//! the rendered prompt, a token with a mark inside is none.
//!
//! A [`Reader`] separates reasoning, content and tool calls in the model's text.

mod added;
mod bytes;
mod chat;
mod cuts;
mod detokenizer;
mod ends;
mod generation;
mod gguf;
mod json;
mod pattern;
mod pause;
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
pub use pause::{PIECE_BYTES, at_once, pause};
pub use pieces::{CallPiece, End, Piece, Pieces};
pub use stop::StopFilter;
pub use template::{ChatTemplate, TemplateOptions};
pub use tokenizer::Tokenizer;
pub(crate) use tools::form as tool_form;
pub use tools::{Dialect, Kind, Part, Reader, Reading, Span, Thinking};
