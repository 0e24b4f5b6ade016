//! Chat over an engine: conversations in, answers in OpenAI's shapes out.

use std::collections::HashMap;

use crate::{
    Result,
    api::{self, ChatCompletion, ChatCompletionChunk, ChatRequest, Responder, Spec},
    engine::{Clock, Engine, Event, FinishReason, Options, Request, RequestId, Usage},
    error::Error,
    metrics::Metrics,
    sampling::{Compiler, Tokens},
    step::Executor,
    text::{Chat, Detokenizer, StopFilter},
};

/// Answers conversations with one model.
pub struct Service<E> {
    engine: Engine<E>,
    chat: Chat,
    model: String,
    vocab: usize,
    compiler: Option<Box<dyn Compiler>>,
    /// What requests announced and is not compiled yet.
    specs: Vec<(RequestId, Spec)>,
    answers: HashMap<RequestId, Answer>,
    /// What is to be told at the end of the next step.
    outbox: Vec<(RequestId, Reply)>,
}

/// Something to tell whoever asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The next piece of a stream.
    Chunk(ChatCompletionChunk),
    /// The stream is over.
    End,
    /// The whole answer, where no stream was asked for.
    Completion(ChatCompletion),
    /// The request failed; nothing follows.
    Error(Error),
}

/// What the core, which knows neither clock nor chance, is told about the moment of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970.
    pub now: u64,
    /// Names the request, and seeds it if it brings no seed.
    pub entropy: u64,
}

struct Answer {
    responder: Responder,
    stream: bool,
    detokenizer: Detokenizer,
    stops: StopFilter,
    /// Text so far, kept where no stream was asked for.
    text: String,
}

impl<E: Executor> Service<E> {
    /// A service without requests; `model` is how it names itself in answers.
    pub fn new(
        executor: E,
        chat: Chat,
        model: String,
        options: Options,
        clock: Clock,
    ) -> Service<E> {
        let vocab = executor.capacity().vocab;
        let engine = Engine::new(executor, options, clock);
        Service {
            engine,
            chat,
            model,
            vocab,
            compiler: None,
            specs: Vec::new(),
            answers: HashMap::new(),
            outbox: Vec::new(),
        }
    }

    /// The same service, which takes requests that constrain their answers.
    pub fn with_compiler(self, compiler: Box<dyn Compiler>) -> Service<E> {
        Service { compiler: Some(compiler), ..self }
    }

    /// Queues a request; its replies come from [`Service::step`].
    ///
    /// # Errors
    /// What [`Chat::prompt`] and [`Engine::submit`] refuse.
    pub fn submit(&mut self, request: ChatRequest, moment: Moment) -> Result<RequestId> {
        if let (Some(spec), None) = (&request.constraint, &self.compiler) {
            let message = "found a constraint, expected none: answers cannot be constrained here";
            let param = spec.param.clone();
            return Err(Error::InvalidRequest { param, message: message.into() });
        }
        let prompt = self.chat.prompt(&request.messages, Some(moment.now.cast_signed()))?;
        let defaults = self.chat.defaults();
        let id = self.engine.submit(Request {
            prompt,
            sampling: defaults.sampling(&request.sampling, moment.entropy),
            end_tokens: defaults.eos_ids.clone(),
            max_tokens: request.max_tokens.map(|max| max as usize),
            constrained: request.constraint.is_some(),
            ..Default::default()
        })?;
        self.specs.extend(request.constraint.map(|spec| (id, spec)));
        let answer = Answer {
            responder: Responder {
                id: format!("chatcmpl-{:016x}", moment.entropy),
                created: moment.now,
                model: request.model.unwrap_or_else(|| self.model.clone()),
                include_usage: request.include_usage,
            },
            stream: request.stream,
            detokenizer: Detokenizer::new(self.chat.tokenizer().clone()),
            stops: StopFilter::new(request.stop),
            text: String::new(),
        };
        if answer.stream {
            self.outbox.push((id, Reply::Chunk(answer.responder.start())));
        }
        self.answers.insert(id, answer);
        Ok(id)
    }

    /// Gives a request up; it gets no more replies.
    pub fn cancel(&mut self, id: RequestId) {
        self.answers.remove(&id);
        self.specs.retain(|(other, _)| *other != id);
        self.outbox.retain(|(other, _)| *other != id);
        self.engine.cancel(id);
    }

    /// Advances all requests by one step and returns what there is to tell, in order.
    ///
    /// # Errors
    /// [`Error::Closed`] once the executor has failed and every request has been told.
    pub async fn step(&mut self) -> Result<Vec<(RequestId, Reply)>> {
        for event in self.engine.step().await? {
            match event {
                Event::Token { id, token, .. } => self.token(id, token),
                Event::PromptLogprobs { .. } | Event::Embedding { .. } => {}
                Event::Finished { id, reason, usage } => self.finish(id, reason, usage),
            }
        }
        self.compile().await;
        Ok(std::mem::take(&mut self.outbox))
    }

    /// Whether [`Service::step`] has nothing to do and nothing to tell.
    pub fn is_idle(&self) -> bool {
        self.engine.is_idle() && self.outbox.is_empty()
    }

    /// Counters and gauges of the engine.
    pub fn metrics(&self) -> Metrics {
        self.engine.metrics()
    }

    fn token(&mut self, id: RequestId, token: u32) {
        let Some(answer) = self.answers.get_mut(&id) else { return };
        let text = match answer.detokenizer.push(token) {
            Ok(text) => answer.stops.push(&text),
            Err(error) => {
                self.outbox.push((id, Reply::Error(error)));
                return self.drop_answer(id);
            }
        };
        let stopped = answer.stops.stopped();
        self.outbox.extend(answer.add(text).map(|reply| (id, reply)));
        if stopped {
            self.engine.finish(id);
        }
    }

    /// Compiles announced constraints, while the device works on their prompts.
    async fn compile(&mut self) {
        for (id, spec) in std::mem::take(&mut self.specs) {
            let Some(compiler) = &mut self.compiler else { continue };
            let tokens = || {
                let tokenizer = self.chat.tokenizer();
                Ok(Tokens {
                    spellings: tokenizer.spellings(self.vocab)?,
                    end_ids: self.chat.defaults().eos_ids.clone(),
                    strip: tokenizer.leading_strip(),
                })
            };
            match compiler.compile(&spec, &tokens).await {
                Ok(constraint) => self.engine.constrain(id, constraint),
                Err(error) => {
                    self.outbox.push((id, Reply::Error(error)));
                    self.drop_answer(id);
                }
            }
        }
    }

    fn drop_answer(&mut self, id: RequestId) {
        self.answers.remove(&id);
        self.engine.cancel(id);
    }

    fn finish(&mut self, id: RequestId, reason: FinishReason, usage: Usage) {
        let Some(answer) = self.answers.remove(&id) else { return };
        let replies = match reason {
            // The token that completed a stop string may also have been the last one allowed.
            FinishReason::Length if answer.stops.stopped() => {
                answer.finish(api::FinishReason::Stop, usage)
            }
            FinishReason::Stop | FinishReason::StopToken(_) => {
                answer.finish(api::FinishReason::Stop, usage)
            }
            FinishReason::Length => answer.finish(api::FinishReason::Length, usage),
            FinishReason::Cancelled => vec![Reply::Error(Error::Aborted)],
            FinishReason::Error(error) => vec![Reply::Error(error)],
        };
        self.outbox.extend(replies.into_iter().map(|reply| (id, reply)));
    }
}

impl Answer {
    fn add(&mut self, text: String) -> Option<Reply> {
        if text.is_empty() {
            return None;
        }
        if self.stream {
            return Some(Reply::Chunk(self.responder.delta(text)));
        }
        self.text.push_str(&text);
        None
    }

    fn finish(self, reason: api::FinishReason, usage: Usage) -> Vec<Reply> {
        let Answer { responder, stream, detokenizer, mut stops, text } = self;
        let mut rest = stops.push(&detokenizer.finish());
        rest += &stops.finish();
        let usage = api::Usage::new(usage.prompt_tokens as u32, usage.completion_tokens as u32);
        if !stream {
            return vec![Reply::Completion(responder.complete(text + &rest, reason, usage))];
        }
        let last = (!rest.is_empty()).then(|| Reply::Chunk(responder.delta(rest)));
        let finish = Reply::Chunk(responder.finish(reason));
        let usage = responder.usage(usage).map(Reply::Chunk);
        [last, Some(finish), usage, Some(Reply::End)].into_iter().flatten().collect()
    }
}
