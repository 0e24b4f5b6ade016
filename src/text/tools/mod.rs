//! Tool calls in a model's text: formats, parsing, and grammars that constrain them.

mod dialect;
mod grammar;
mod harmony;
mod head;
mod reader;
mod reading;
mod values;
mod wording;

pub use dialect::Dialect;
pub use grammar::form;
pub use reader::Reader;
pub use reading::{Kind, Part, Reading, Span, THINK, Thinking};
pub use values::escaped;
pub use wording::{carried, instructions, one_call_each, spoken, worded};
