//! Published files, fetched by `cargo xtask test --only real`.

mod files;
mod templates;
