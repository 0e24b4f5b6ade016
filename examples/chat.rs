//! Chats in the terminal, with the small built-in model or any model in Hugging Face's layout.
//!
//! ```sh
//! cargo run --release --example chat -- --model PATH
//! ```
//!
//! An empty line starts a new conversation, Ctrl-D ends.

use std::{
    io::{BufRead, IsTerminal, Write, stderr, stdin, stdout},
    ops::ControlFlow,
    path::PathBuf,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use clap::Parser;
use tabloom::{
    api::{ChatCompletionRequest, Delta, RequestMessage, StreamOptions, Usage},
    engine::{Options, TabId, steady_clock},
    executor::AnyExecutor,
    load::{self, Device, LoadOptions, Progress},
    service::{Moment, Reply, Service},
    weights::FolderSource,
};

#[derive(Parser)]
struct Arguments {
    /// A folder in Hugging Face's layout, or a GGUF file.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/www/model"))]
    model: PathBuf,
    #[arg(long, value_parser = ["cpu", "gpu"], default_value = "gpu")]
    device: String,
    /// 0 means greedy decoding; the default is the model's.
    #[arg(long)]
    temperature: Option<f64>,
}

/// An answer and its timing.
struct Answer {
    text: String,
    usage: Option<Usage>,
    first: Option<Duration>,
    whole: Duration,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut service = pollster::block_on(load(&arguments))
        .with_context(|| format!("cannot load {}", arguments.model.display()))?;
    let mut messages = Vec::new();
    let mut lines = stdin().lock().lines();
    loop {
        eprint!("> ");
        let Some(line) = lines.next().transpose()? else { break };
        if line.trim().is_empty() {
            messages.clear();
            eprintln!("(a new conversation)");
            continue;
        }
        messages.push(message("user", line));
        match pollster::block_on(answer(&mut service, &messages, arguments.temperature)) {
            Ok(answer) => {
                eprintln!("{}", answer.summary());
                messages.push(message("assistant", answer.text));
            }
            // A failed engine returns the error again for the next question.
            Err(error) => {
                eprintln!("{error}");
                messages.pop();
            }
        }
    }
    eprintln!();
    Ok(())
}

async fn load(arguments: &Arguments) -> tabloom::Result<Service<AnyExecutor>> {
    let device = if arguments.device == "cpu" { Device::Cpu } else { Device::Gpu };
    let options = LoadOptions { device, ..LoadOptions::default() };
    let source = FolderSource::new(&arguments.model);
    let start = Instant::now();
    let model = load::model(&source, &options, |progress| {
        if stderr().is_terminal() {
            match progress {
                Progress::Download { loaded, total, .. } => {
                    eprint!("\r\x1b[K{} of {} MB", loaded / 1_000_000, total / 1_000_000);
                }
                Progress::Compile { done, total } => eprint!("\r\x1b[K{done} of {total} kernels"),
            }
        }
        ControlFlow::Continue(())
    })
    .await?;
    let on = match &model.loaded.executor {
        AnyExecutor::Gpu(executor) => &executor.gpu().adapter.name,
        AnyExecutor::Cpu(_) => "the CPU",
    };
    let clear = if stderr().is_terminal() { "\r\x1b[K" } else { "" };
    eprintln!("{clear}Loaded in {:.1} s on {on}", start.elapsed().as_secs_f64());
    let name = arguments.model.display().to_string();
    let options = Options { seed: fastrand::u64(..), ..Options::default() };
    Ok(Service::new(model.loaded.executor, model.chat, name, options, steady_clock()))
}

/// Requests an answer and prints it while it is generated.
async fn answer(
    service: &mut Service<AnyExecutor>,
    messages: &[RequestMessage],
    temperature: Option<f64>,
) -> tabloom::Result<Answer> {
    let request = ChatCompletionRequest {
        messages: messages.to_vec(),
        stream: Some(true),
        stream_options: Some(StreamOptions { include_usage: Some(true), ..Default::default() }),
        temperature,
        ..ChatCompletionRequest::default()
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let start = Instant::now();
    let moment = Moment { now, entropy: fastrand::u64(..), tab: TabId(0), salt: 0 };
    service.submit(request.validate()?, moment, &[])?;

    let mut text = String::new();
    let (mut usage, mut first) = (None, None);
    loop {
        for (_, reply) in service.step().await? {
            match reply {
                Reply::Chunk { value: chunk, .. } => {
                    usage = chunk.usage.flatten().or(usage);
                    for Delta { content, reasoning_content, .. } in
                        chunk.choices.into_iter().map(|choice| choice.delta)
                    {
                        let thought = reasoning_content.unwrap_or_default();
                        let said = content.unwrap_or_default();
                        if !thought.is_empty() || !said.is_empty() {
                            first.get_or_insert_with(|| start.elapsed());
                            eprint!("{thought}");
                            show(&said);
                            text += &said;
                        }
                    }
                }
                Reply::End => {
                    show("\n");
                    return Ok(Answer { text, usage, first, whole: start.elapsed() });
                }
                Reply::Error(error) => return Err(error),
                // These belong to other kinds of requests.
                Reply::Completion(_)
                | Reply::TextChunk { .. }
                | Reply::TextCompletion(_)
                | Reply::Embeddings(_) => {}
            }
        }
    }
}

impl Answer {
    fn summary(&self) -> String {
        let tokens = self.usage.map_or(0, |usage| usage.completion_tokens);
        let first = self.first.unwrap_or(self.whole);
        // The time to the first token is that of the prefill.
        let rate = tokens.saturating_sub(1) as f64 / (self.whole - first).as_secs_f64().max(1e-9);
        let first = first.as_secs_f64();
        format!("({tokens} tokens, {rate:.1} tokens/s, the first after {first:.2} s)")
    }
}

fn message(role: &str, content: String) -> RequestMessage {
    let content = Some(content.as_str().into());
    RequestMessage { role: role.into(), content, ..RequestMessage::default() }
}

/// Prints at once; a closed pipe is not an error.
fn show(text: &str) {
    print!("{text}");
    let _ = stdout().flush();
}
