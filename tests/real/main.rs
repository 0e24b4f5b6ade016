//! Published files, fetched by `cargo xtask test --only real`.

mod answers;
mod files;
