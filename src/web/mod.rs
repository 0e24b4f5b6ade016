//! The browser's side: message ports, fetch, the event loop.

mod fetch;
mod grammar;
mod host;
mod load;
mod port;
mod turn;

pub use fetch::{FetchSource, FetchStream};
pub use grammar::ModuleCompiler;
pub use host::Host;
