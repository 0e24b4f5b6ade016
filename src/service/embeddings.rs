//! Embeddings over an engine: one vector per input text.

use std::{collections::BTreeMap, iter::Enumerate, vec};

use super::{Reply, Service};
use crate::{
    Result,
    api::{EmbedRequest, EmbeddingResponse, Encoding, TextInput},
    engine::{Engine, FinishReason, Goal, Request, RequestId, TabId, Usage},
    error::Error,
    step::{Executor, Pooling},
    text::Chat,
};

/// Inputs of one request that are in the engine at a time: enough to fill its steps, few enough to
/// leave room in its queue.
const AT_ONCE: usize = 16;

/// An embedding request in progress.
pub(super) struct Job {
    model: String,
    encoding: Encoding,
    pooling: Pooling,
    tab: TabId,
    salt: u64,
    /// Prompts that are not submitted yet.
    waiting: Enumerate<vec::IntoIter<Vec<u32>>>,
    /// The engine's request ids and the inputs' indices.
    running: BTreeMap<RequestId, usize>,
    /// `[inputs][hidden]`; empty until computed.
    vectors: Vec<Vec<f32>>,
    prompt_tokens: usize,
}

impl<E: Executor> Service<E> {
    /// Queues an embedding request; [`Service::step`] returns [`Reply::Embeddings`] for it.
    ///
    /// The tokenizer adds its begin and end tokens to each text; the chat template is not used. `tab` and
    /// `salt` are as in [`Moment`](super::Moment).
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] names the input that is too long or has an unknown token; further those
    /// of [`Engine::submit`].
    pub fn embed(&mut self, request: EmbedRequest, tab: TabId, salt: u64) -> Result<RequestId> {
        let inputs = request.inputs.into_iter().enumerate();
        let prompts = inputs.map(|(i, input)| prompt(&self.chat, i, input));
        let prompts = prompts.collect::<Result<Vec<_>>>()?;
        let mut job = Job {
            model: request.model.unwrap_or_else(|| self.model.clone()),
            encoding: request.encoding,
            pooling: request.pooling,
            tab,
            salt,
            vectors: vec![Vec::new(); prompts.len()],
            waiting: prompts.into_iter().enumerate(),
            running: BTreeMap::new(),
            prompt_tokens: 0,
        };
        let fed = job.feed(&mut self.engine);
        // The request's id is that of its first input.
        let first = job.running.keys().next().copied();
        match (fed, first) {
            (Ok(()), Some(id)) => {
                self.jobs.insert(id, job);
                Ok(id)
            }
            (Ok(()), None) => Err(invalid("input".into(), "found nothing to embed".into())),
            (Err(error), _) => {
                job.cancel(&mut self.engine);
                Err(error)
            }
        }
    }

    /// Stores the vector of one input.
    pub(super) fn embedded(&mut self, id: RequestId, vector: Vec<f32>) {
        for job in self.jobs.values_mut() {
            if let Some(input) = job.running.get(&id) {
                job.vectors[*input] = vector;
                return;
            }
        }
    }

    /// Ends one input, if the id belongs to one.
    pub(super) fn finish_input(&mut self, id: RequestId, reason: &FinishReason, usage: Usage) {
        let of = |(name, job): (&RequestId, &mut Job)| job.running.remove(&id).map(|_| *name);
        let Some(name) = self.jobs.iter_mut().find_map(of) else { return };
        let Some(mut job) = self.jobs.remove(&name) else { return };
        job.prompt_tokens += usage.prompt_tokens;
        let fed = match reason {
            FinishReason::Error(error) => Err(error.clone()),
            FinishReason::Cancelled => Err(Error::Aborted),
            FinishReason::Stop
            | FinishReason::StopToken(_)
            | FinishReason::Length
            | FinishReason::Repetition => job.feed(&mut self.engine),
        };
        match fed {
            Ok(()) if job.running.is_empty() => {
                let Job { model, encoding, vectors, prompt_tokens, .. } = job;
                let response =
                    EmbeddingResponse::new(model, vectors, encoding, prompt_tokens as u32);
                self.outbox.push((name, Reply::Embeddings(response)));
            }
            Ok(()) => {
                self.jobs.insert(name, job);
            }
            Err(error) => {
                job.cancel(&mut self.engine);
                self.outbox.push((name, Reply::Error(error)));
            }
        }
    }
}

impl Job {
    /// Submits inputs to the engine.
    fn feed<E: Executor>(&mut self, engine: &mut Engine<E>) -> Result<()> {
        while self.running.len() < AT_ONCE {
            let Some((input, prompt)) = self.waiting.next() else { break };
            let goal = Goal::Embed(self.pooling);
            let Job { tab, salt, .. } = *self;
            let asked = Request { prompt, goal, tab, salt, ..Default::default() };
            let submitted = engine.submit(asked);
            let id = submitted.map_err(|error| blame(input, error))?;
            self.running.insert(id, input);
        }
        Ok(())
    }

    /// Cancels all inputs.
    pub(super) fn cancel<E: Executor>(self, engine: &mut Engine<E>) {
        self.running.into_keys().for_each(|id| engine.cancel(id));
    }
}

fn prompt(chat: &Chat, i: usize, input: TextInput) -> Result<Vec<u32>> {
    let tokens = match input {
        TextInput::Text(text) => chat.tokenizer().encode_plain(&text, true)?,
        TextInput::Tokens(tokens) => tokens,
    };
    match tokens.is_empty() {
        true => Err(invalid(name(i), "found no tokens, expected some text".into())),
        false => Ok(tokens),
    }
}

/// Renames the parameter in the engine's error about a prompt.
fn blame(i: usize, error: Error) -> Error {
    match error {
        Error::InvalidRequest { message, .. } => invalid(name(i), message),
        Error::ContextLengthExceeded { prompt, limit, .. } => {
            let message = format!("found {prompt} tokens, expected fewer than {limit}");
            invalid(name(i), message)
        }
        other => other,
    }
}

fn name(i: usize) -> String {
    format!("input[{i}]")
}

fn invalid(param: String, message: String) -> Error {
    Error::InvalidRequest { param, message }
}
