//! What only a browser has.

mod fetch;

pub use fetch::{FetchSource, FetchStream};
