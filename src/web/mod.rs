//! The browser: message ports, fetch, storage, the event loop.

mod claim;
mod environment;
mod event;
mod fetch;
mod files;
mod grammar;
mod host;
mod load;
mod loaded;
mod port;
mod store;
mod stream;
mod turn;

pub use fetch::{Fetch, FetchSource};
pub use files::{FileStream, Files};
pub use grammar::ModuleCompiler;
pub use host::Host;
pub use store::BrowserStore;
pub use stream::JsStream;
