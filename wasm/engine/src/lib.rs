//! The WebAssembly module of the npm package `tabloom`.

#[cfg(target_arch = "wasm32")]
pub use tabloom::web::*;
