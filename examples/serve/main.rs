//! An HTTP server with OpenAI's API over one model.
//!
//! ```sh
//! cargo run --release --example serve -- --model PATH --port 8000
//! curl http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' \
//!   -d '{"messages": [{"role": "user", "content": "Hi!"}]}'
//! ```
//!
//! Ctrl-C stops the server once the running requests have ended, after at most ten seconds; a second
//! Ctrl-C stops it at once.

mod answers;
mod app;
mod arguments;
mod body;
mod engine;
mod failure;
mod guard;
mod listen;
mod responses;
mod routes;

use std::{io::Write, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use clap::Parser;
use tokio::{select, time::sleep};

use app::App;
use arguments::Arguments;
use engine::Engine;

/// How long requests may continue after Ctrl-C.
const GRACE: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> Result<()> {
    let engine = Engine::start(arguments.clone())
        .await
        .with_context(|| format!("cannot load {}", arguments.model.display()))?;
    let listener = listen::bind((arguments.host, arguments.port).into())
        .with_context(|| format!("cannot listen on {}:{}", arguments.host, arguments.port))?;
    println!("listening on http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let app = Arc::new(App::new(engine, arguments));
    select! {
        () = listen::serve(listener, routes::router(app), stop()) => {}
        () = give_up() => {}
    }
    Ok(())
}

/// Resolves when the grace period for running requests has ended.
async fn give_up() {
    stop().await;
    eprintln!("ending");
    select! {
        () = sleep(GRACE) => {}
        () = stop() => {}
    }
}

/// Resolves when the process gets a signal to stop.
async fn stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    // Fails only without signal support; then nothing stops the server.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
