//! Embeddings over an engine: one vector per input text.

use std::{
    collections::{BTreeMap, VecDeque},
    mem::take,
};

use super::reply::Reply;
use crate::{
    Result,
    api::{EmbedRequest, EmbeddingResponse, Encoding, TextInput},
    engine::{Engine, FinishReason, Goal, Request, RequestId, TabId, Usage},
    error::Error,
    step::{Executor, Pooling},
    text::Tokenizer,
};

/// Inputs of one request that are in the engine at a time: enough to fill its steps, few enough to
/// leave room in its queue.
const AT_ONCE: usize = 16;

/// An embedding request in progress.
pub struct Job {
    model: String,
    encoding: Encoding,
    pooling: Pooling,
    tab: TabId,
    salt: u64,
    /// Prompts that are not submitted yet, and the inputs' indices.
    waiting: VecDeque<(usize, Vec<u32>)>,
    /// The engine's request ids and the inputs' indices.
    running: BTreeMap<RequestId, usize>,
    /// `[inputs][hidden]`; empty until computed.
    vectors: Vec<Vec<f32>>,
    prompt_tokens: usize,
}

impl Job {
    /// Submits the first of a request's `prompts`; `model` is its name in the answer. Returns the job and its
    /// id, that of the first input.
    pub fn begin<E: Executor>(
        request: EmbedRequest,
        prompts: Vec<Vec<u32>>,
        (tab, salt): (TabId, u64),
        model: &str,
        engine: &mut Engine<E>,
    ) -> Result<(RequestId, Job)> {
        let mut job = Job {
            model: request.model.unwrap_or_else(|| model.to_owned()),
            encoding: request.encoding,
            pooling: request.pooling,
            tab,
            salt,
            vectors: vec![Vec::new(); prompts.len()],
            waiting: prompts.into_iter().enumerate().collect(),
            running: BTreeMap::new(),
            prompt_tokens: 0,
        };
        if let Err(error) = job.feed(engine) {
            job.cancel(engine);
            return Err(error);
        }
        let nothing = || invalid("input".into(), "found nothing to embed".into());
        let first = job.running.keys().next().copied().ok_or_else(nothing)?;
        Ok((first, job))
    }

    /// The place for the vector of one input, if the id belongs to one.
    pub fn vector(&mut self, id: RequestId) -> Option<&mut Vec<f32>> {
        self.running.get(&id).map(|input| &mut self.vectors[*input])
    }

    /// Ends one input, if the id belongs to one. Returns the reply once all have ended.
    pub fn finish<E: Executor>(
        &mut self,
        id: RequestId,
        reason: &FinishReason,
        usage: Usage,
        engine: &mut Engine<E>,
    ) -> Option<Reply> {
        self.running.remove(&id)?;
        self.prompt_tokens += usage.prompt_tokens;
        let fed = match reason {
            FinishReason::Error(error) => Err(error.clone()),
            FinishReason::Cancelled => Err(Error::Aborted),
            FinishReason::Stop
            | FinishReason::StopToken(_)
            | FinishReason::Length
            | FinishReason::Repetition => self.feed(engine),
        };
        match fed {
            // [`Job::resume`] tries again.
            Err(Error::QueueFull { .. }) => None,
            Ok(()) if self.running.is_empty() => {
                let (model, vectors) = (take(&mut self.model), take(&mut self.vectors));
                let count = self.prompt_tokens as u32;
                let response = EmbeddingResponse::new(model, vectors, self.encoding, count);
                Some(Reply::Embeddings(response))
            }
            Ok(()) => None,
            Err(error) => {
                self.cancel(engine);
                Some(Reply::Error(error))
            }
        }
    }

    /// Submits inputs again if the engine's queue had no room for any when the last one ended.
    pub fn resume<E: Executor>(&mut self, engine: &mut Engine<E>) -> Option<Reply> {
        if !self.running.is_empty() {
            return None;
        }
        match self.feed(engine) {
            Ok(()) | Err(Error::QueueFull { .. }) => None,
            Err(error) => {
                self.cancel(engine);
                Some(Reply::Error(error))
            }
        }
    }

    /// Submits inputs to the engine. Those for which its queue has no room wait for the end of one that
    /// is there; it is an error if there is none.
    fn feed<E: Executor>(&mut self, engine: &mut Engine<E>) -> Result<()> {
        while self.running.len() < AT_ONCE {
            let Some((input, prompt)) = self.waiting.pop_front() else { break };
            let goal = Goal::Embed(self.pooling);
            let Job { tab, salt, .. } = *self;
            let asked = Request { prompt: prompt.clone(), goal, tab, salt, ..Default::default() };
            match engine.submit(asked) {
                Ok(id) => {
                    self.running.insert(id, input);
                }
                Err(error @ Error::QueueFull { .. }) => {
                    self.waiting.push_front((input, prompt));
                    return if self.running.is_empty() { Err(error) } else { Ok(()) };
                }
                Err(error) => return Err(blame(input, error)),
            }
        }
        Ok(())
    }

    /// Cancels all inputs.
    pub fn cancel<E: Executor>(&mut self, engine: &mut Engine<E>) {
        take(&mut self.running).into_keys().for_each(|id| engine.cancel(id));
    }
}

/// The tokens of input `i`, with pauses in a long text.
pub async fn prompt(tokenizer: &Tokenizer, i: usize, input: TextInput) -> Result<Vec<u32>> {
    let tokens = match input {
        TextInput::Text(text) => tokenizer.plain_ids(&text, true).await?,
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
