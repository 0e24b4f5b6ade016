//! The rows and the table of the native bench: xtask must not depend on the crate it builds.

#[path = "../../../examples/bench/table.rs"]
mod table;

pub use table::{Row, text as table};
