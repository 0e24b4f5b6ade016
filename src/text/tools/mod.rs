//! Tool calls in a model's text: formats, parsing, and grammars that constrain them.

mod dialect;
mod grammar;
mod head;
mod reader;
mod wording;

pub use dialect::Dialect;
pub use grammar::form;
pub use reader::{Kind, Reader, Reading, Span, THINK, Thinking};
pub use wording::{instructions, worded};
