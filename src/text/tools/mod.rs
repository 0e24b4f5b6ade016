//! Calls of tools in a model's text: how they are written, found and held to their schemas.

mod dialect;
mod grammar;
mod head;
mod reader;
mod wording;

pub use dialect::Dialect;
pub use grammar::form;
pub use reader::{Kind, Reader, Reading, Span, THINK, Thinking};
pub use wording::{instructions, worded};
