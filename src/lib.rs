//! Private language models inside the browser, on the visitor's own GPU.

pub mod api;
pub mod error;
pub mod layout;
pub mod model;
pub mod step;
pub mod text;

pub use error::{Error, Result};
