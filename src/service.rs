//! Chat completions, text completions and embeddings over an engine, in OpenAI's shapes.

mod answer;
mod completion;
mod conversation;
mod defaults;
mod embeddings;
mod prompted;
mod reply;
mod request;
mod resume;
#[cfg(test)]
mod tests;
mod tokens;

use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
    task::Poll,
    time::Duration,
};

pub use self::{
    defaults::SamplingDefaults,
    prompted::Prompts,
    reply::Reply,
    request::{Moment, Prompted},
    resume::Resumed,
};

use self::{
    answer::Answer,
    completion::Adapter,
    conversation::Conversation,
    embeddings::Job,
    request::{Prepared, blame, engine_request, name},
};
use crate::{
    Result,
    api::{self, ChatRequest, CompleteRequest, EmbedRequest, Responder, Spec},
    engine::{Clock, Engine, Event, FinishReason, Options, Request, RequestId, TabId, Usage},
    error::Error,
    metrics::Metrics,
    sampling::{Compiler, Tokens},
    speculate::Proposer,
    step::{Capacity, Executor, Logprobs},
    text::{Chat, Prompt, at_once},
};

/// Serves chat completions, text completions and embeddings of one model.
pub struct Service<E> {
    engine: Engine<E>,
    chat: Rc<Chat>,
    model: String,
    capacity: Capacity,
    compiler: Option<Box<dyn Compiler>>,
    /// Constraints that are not compiled yet, with the requests that wait for them.
    specs: Vec<(RequestId, Spec)>,
    /// By the engine's ids.
    answers: HashMap<RequestId, Answer>,
    /// Chat and text completion requests, by the engine's id of their first answer.
    conversations: HashMap<RequestId, Conversation>,
    /// Those that are text completions.
    completions: HashMap<RequestId, Adapter>,
    /// Embedding requests, by the engine's id of their first input.
    jobs: BTreeMap<RequestId, Job>,
    /// Replies that are not taken yet.
    outbox: Vec<(RequestId, Reply)>,
}

impl<E: Executor> Service<E> {
    /// A service without requests; `model` is its name in answers.
    pub fn new(
        executor: E,
        chat: Chat,
        model: String,
        options: Options,
        clock: Clock,
    ) -> Service<E> {
        let capacity = executor.capacity();
        let engine = Engine::new(executor, options, clock);
        Service {
            engine,
            chat: Rc::new(chat),
            model,
            capacity,
            compiler: None,
            specs: Vec::new(),
            answers: HashMap::new(),
            conversations: HashMap::new(),
            completions: HashMap::new(),
            jobs: BTreeMap::new(),
            outbox: Vec::new(),
        }
    }

    /// The same service with a compiler, so that it accepts constrained requests.
    pub fn with_compiler(self, compiler: Box<dyn Compiler>) -> Service<E> {
        Service { compiler: Some(compiler), ..self }
    }

    /// The same service with another proposer in place of prompt lookup.
    pub fn with_proposer(self, proposer: Rc<dyn Proposer>) -> Service<E> {
        Service { engine: self.engine.with_proposer(proposer), ..self }
    }

    /// Queues a request; its replies come from [`Service::step`].
    ///
    /// `resume` continues a stream that another service began, with one entry per answer: given the same
    /// request and context, the replies are the chunks that were not sent yet, and the usage if
    /// requested. An empty `resume` starts a new stream.
    ///
    /// # Errors
    /// Those of [`Chat::prompt`] and [`Engine::submit`]; [`Error::InvalidRequest`] for token ids beyond
    /// the vocabulary, and for a `resume` that does not fit this request.
    pub fn submit(
        &mut self,
        request: ChatRequest,
        moment: Moment,
        resume: &[Resumed],
    ) -> Result<RequestId> {
        let prompted = at_once(self.prompt_chat(request, moment.now))?;
        self.submit_prompted(prompted, moment, resume)
    }

    /// As [`Service::submit`], with the prompt.
    pub fn submit_prompted(
        &mut self,
        Prompted { request, prompt }: Prompted<ChatRequest, Prompt>,
        moment: Moment,
        resume: &[Resumed],
    ) -> Result<RequestId> {
        let prepared = engine_request(&request, prompt, &self.chat, self.capacity.vocab, moment)?;
        let prepared = vec![prepared];
        resume::check(resume, &request, &prepared, &self.capacity)?;
        self.begin("chatcmpl", "messages", &request, prepared, moment, resume)
    }

    /// Queues a request for text completions. As [`Service::submit`], but the replies are
    /// [`Reply::TextChunk`] and [`Reply::TextCompletion`].
    ///
    /// Control tokens in a prompt are parsed: the caller writes what a template would.
    ///
    /// # Errors
    /// As for [`Service::submit`].
    pub fn complete(
        &mut self,
        request: CompleteRequest,
        moment: Moment,
        resume: &[Resumed],
    ) -> Result<RequestId> {
        let prompted = at_once(self.prompt_completion(request))?;
        self.complete_prompted(prompted, moment, resume)
    }

    /// As [`Service::complete`], with the prompts.
    pub fn complete_prompted(
        &mut self,
        Prompted { request, prompt }: Prompted<CompleteRequest>,
        moment: Moment,
        resume: &[Resumed],
    ) -> Result<RequestId> {
        let vocab = self.capacity.vocab;
        let (inner, prepared) =
            completion::conversation(&request, prompt, &self.chat, vocab, moment)?;
        resume::check(resume, &request.settings, &prepared, &self.capacity)?;
        let adapter = Adapter::new(request, &prepared, self.chat.tokenizer(), resume)?;
        let id = self.begin("cmpl", "prompt", &inner, prepared, moment, resume)?;
        if let Some(conversation) = self.conversations.get(&id) {
            self.completions.insert(id, adapter.with_responder(conversation.responder()));
        }
        Ok(id)
    }

    /// Queues an embedding request; [`Service::step`] returns [`Reply::Embeddings`] for it.
    ///
    /// The tokenizer adds its begin and end tokens to each text; the chat template is not used. `tab` and
    /// `salt` are as in [`Moment`].
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] names the input that is too long or has an unknown token; further those
    /// of [`Engine::submit`].
    pub fn embed(&mut self, request: EmbedRequest, tab: TabId, salt: u64) -> Result<RequestId> {
        let prompted = at_once(self.prompt_embedding(request))?;
        self.embed_prompted(prompted, tab, salt)
    }

    /// As [`Service::embed`], with the prompts.
    pub fn embed_prompted(
        &mut self,
        Prompted { request, prompt }: Prompted<EmbedRequest>,
        tab: TabId,
        salt: u64,
    ) -> Result<RequestId> {
        let (id, job) = Job::begin(request, prompt, (tab, salt), &self.model, &mut self.engine)?;
        self.jobs.insert(id, job);
        Ok(id)
    }

    /// Queues `n` answers for each of the engine requests, whose prompts came from the parameter
    /// `param`.
    fn begin(
        &mut self,
        kind: &str,
        param: &str,
        request: &ChatRequest,
        prepared: Vec<Prepared>,
        moment: Moment,
        resume: &[Resumed],
    ) -> Result<RequestId> {
        let constraint = prepared.iter().find_map(|prepared| prepared.constraint.clone());
        if let (Some(spec), None) = (&constraint, &self.compiler) {
            let message = "found a constraint, expected none: answers cannot be constrained here";
            let param = spec.param.clone();
            return Err(Error::InvalidRequest { param, message: message.into() });
        }
        let responder = Responder {
            id: format!("{kind}-{:016x}", moment.entropy),
            created: moment.now,
            model: request.model.clone().unwrap_or_else(|| self.model.clone()),
            index: 0,
            include_usage: request.include_usage,
        };
        let n = request.n;
        let mut ids = Vec::new();
        let count = prepared.len();
        for (i, prepared) in prepared.iter().enumerate() {
            let submitted = match resume {
                [] => self.engine.submit_many(prepared.request.clone(), n),
                _ => resume::submit(&mut self.engine, &prepared.request, &resume[i * n..][..n]),
            };
            match submitted {
                Ok(more) => ids.extend(more),
                Err(error) => {
                    ids.into_iter().for_each(|id| self.engine.cancel(id));
                    return Err(blame(&name(param, i, count), error));
                }
            }
        }
        let first = ids[0];
        let answer = |index: usize| {
            let resumed = resume.get(index).cloned().unwrap_or_default();
            let responder = Responder { index: index as u32, ..responder.clone() };
            let tokenizer = self.chat.tokenizer().clone();
            let Prepared { request: Request { prompt, .. }, reading, .. } = &prepared[index / n];
            let begins = (&prompt[..], reading, moment.entropy);
            Answer::new(first, responder, request, tokenizer, begins, &resumed)
        };
        let answers: Result<Vec<_>> = (0..ids.len()).map(answer).collect();
        let answers = answers.inspect_err(|_| ids.iter().for_each(|id| self.engine.cancel(*id)))?;
        // The usage counts a prompt with its first answer that is still computed.
        let computed = answers.chunks(n).zip(ids.chunks(n)).map(|(answers, ids)| {
            ids[answers.iter().position(|answer| !answer.is_over()).unwrap_or(0)]
        });
        let computed = computed.collect();
        for (id, answer) in ids.iter().zip(answers) {
            self.outbox.extend(answer.start().map(|reply| (first, reply)));
            match answer.is_over() {
                true => self.engine.finish(*id),
                false => self.specs.extend(constraint.clone().map(|spec| (*id, spec))),
            }
            self.answers.insert(*id, answer);
        }
        self.conversations.insert(first, Conversation::new(ids, computed, responder));
        Ok(first)
    }

    /// Holds or releases all answers of a conversation. While they are held, nothing is computed for
    /// them; steps in flight may still produce tokens.
    pub fn hold(&mut self, id: RequestId, held: bool) {
        if let Some(conversation) = self.conversations.get(&id) {
            conversation.answers().iter().for_each(|id| self.engine.hold(*id, held));
        }
    }

    /// Cancels a request; it gets no more replies.
    pub fn cancel(&mut self, id: RequestId) {
        self.outbox.retain(|(other, _)| *other != id);
        self.completions.remove(&id);
        if let Some(mut job) = self.jobs.remove(&id) {
            job.cancel(&mut self.engine);
        }
        if let Some(conversation) = self.conversations.remove(&id) {
            for id in conversation.answers() {
                self.answers.remove(id);
                self.specs.retain(|(other, _)| other != id);
                self.engine.cancel(*id);
            }
        }
    }

    /// Advances all requests by one step and returns the replies, in order.
    ///
    /// # Errors
    /// [`Error::Closed`] once the executor has failed and every request has got that error.
    pub async fn step(&mut self) -> Result<Vec<(RequestId, Reply)>> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        while self.begin_step() {}
        self.end_step(async || {}).await;
        Ok(self.take_replies())
    }

    /// Most steps in flight.
    pub fn depth(&self) -> usize {
        self.engine.depth()
    }

    /// Submits a step, if there is something to compute and room for it in flight. Returns whether it did.
    pub fn begin_step(&mut self) -> bool {
        self.engine.begin_step()
    }

    /// Waits for the oldest step in flight, if there is one. Returns the time that the device took for it.
    /// `turn`: see [`Executor::result`].
    pub async fn end_step(&mut self, turn: impl AsyncFn()) -> Duration {
        self.engine.end_step(turn).await
    }

    /// Notes that the device has just ended a step of another service.
    pub fn device_was_busy(&mut self) {
        self.engine.device_was_busy();
    }

    /// Removes and returns the replies so far, in order.
    pub fn take_replies(&mut self) -> Vec<(RequestId, Reply)> {
        loop {
            // A stop string ends its answer now, and not in the next step.
            let events = self.engine.take_events();
            if events.is_empty() {
                break;
            }
            events.into_iter().for_each(|event| self.take(event));
        }
        self.compile();
        let engine = &mut self.engine;
        let failed = self.jobs.iter_mut().filter_map(|(id, job)| Some((*id, job.resume(engine)?)));
        for (id, reply) in failed.collect::<Vec<_>>() {
            self.jobs.remove(&id);
            self.outbox.push((id, reply));
        }
        self.converted_replies()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Token { id, token, logprobs, drafted } => {
                self.token(id, token, logprobs.as_ref(), drafted);
            }
            Event::PromptLogprobs { id, logprobs } => {
                let Some(answer) = self.answers.get_mut(&id) else { return };
                match answer.prompt_logprobs(&logprobs) {
                    Ok(()) => self.echo(id),
                    Err(error) => self.fail(id, error),
                }
            }
            Event::Embedding { id, vector } => {
                if let Some(place) = self.jobs.values_mut().find_map(|job| job.vector(id)) {
                    *place = vector;
                }
            }
            Event::Finished { id, reason, usage } => {
                self.finish_input(id, &reason, usage);
                self.finish(id, reason, usage);
            }
        }
    }

    /// Whether there is nothing to do and no reply: all conversations are over, held, or
    /// waiting for a compiler that is not ready.
    pub fn is_idle(&self) -> bool {
        let ready = self.compiler.as_ref().is_some_and(|compiler| compiler.is_ready());
        let compiles = ready && !self.specs.is_empty();
        self.engine.is_idle() && self.outbox.is_empty() && !compiles
    }

    /// Whether the executor has failed; every call then returns [`Error::Closed`].
    pub fn is_closed(&self) -> bool {
        self.engine.is_closed()
    }

    /// Sets whether a tab is visible: visible tabs are served first.
    pub fn set_visible(&mut self, tab: TabId, visible: bool) {
        self.engine.set_visible(tab, visible);
    }

    /// Removes a tab whose requests have been cancelled.
    pub fn close_tab(&mut self, tab: TabId) {
        self.engine.close_tab(tab);
    }

    /// The engine, for prefixes that are stored.
    pub fn engine(&mut self) -> &mut Engine<E> {
        &mut self.engine
    }

    /// Counters and gauges of the engine.
    pub fn metrics(&self) -> Metrics {
        self.engine.metrics()
    }

    fn token(&mut self, id: RequestId, token: u32, logprobs: Option<&Logprobs>, drafted: bool) {
        let Some(answer) = self.answers.get_mut(&id) else { return };
        if answer.is_over() {
            // This token comes from the same step as the one that ended the text.
            answer.beyond += usize::from(drafted);
            return;
        }
        match answer.token(token, logprobs, drafted) {
            Ok(reply) => {
                self.outbox.extend(reply.map(|reply| (answer.conversation, reply)));
                if answer.is_over() {
                    self.engine.finish(id);
                }
            }
            Err(error) => self.fail(id, error),
        }
    }

    /// Sends the prompt's log-probabilities, if the answer `id` belongs to a text completion.
    fn echo(&mut self, id: RequestId) {
        let Some(answer) = self.answers.get_mut(&id) else { return };
        let Some(adapter) = self.completions.get_mut(&answer.conversation) else { return };
        let Some(logprobs) = answer.take_prompt_logprobs() else { return };
        let chunk = adapter.prompt(answer.index(), logprobs);
        self.outbox.extend(chunk.map(|chunk| (answer.conversation, chunk)));
    }

    /// Removes and returns the replies in the outbox, in order, in the shapes of their requests.
    fn converted_replies(&mut self) -> Vec<(RequestId, Reply)> {
        let outbox = std::mem::take(&mut self.outbox);
        let convert = |(id, reply)| match self.completions.get_mut(&id) {
            None => Some((id, reply)),
            Some(adapter) => {
                let over = matches!(reply, Reply::End);
                let reply = adapter.convert(reply);
                if over {
                    self.completions.remove(&id);
                }
                reply.map(|reply| (id, reply))
            }
        };
        outbox.into_iter().filter_map(convert).collect()
    }

    /// Compiles a constraint while the device runs the prefill of its request, or does another piece of the
    /// compiler's work. One may take long, so the next has to wait for the next step.
    fn compile(&mut self) {
        self.specs.retain(|(id, _)| self.answers.contains_key(id));
        let Some(compiler) = self.compiler.as_mut().filter(|_| !self.specs.is_empty()) else {
            return;
        };
        let (id, mut spec) = self.specs.remove(0);
        let tokens = || {
            let tokenizer = self.chat.tokenizer();
            Ok(Tokens {
                spellings: tokenizer.spellings(self.capacity.vocab)?,
                end_ids: self.chat.defaults().eos_ids.clone(),
                strip: tokenizer.leading_strip(),
            })
        };
        let mut compiled = compiler.compile(&spec, &tokens);
        if let (Poll::Ready(Err(_)), Some(form)) = (&compiled, spec.otherwise.take()) {
            spec.form = form;
            compiled = compiler.compile(&spec, &tokens);
        }
        match compiled {
            Poll::Ready(Ok(constraint)) => self.engine.constrain(id, constraint),
            Poll::Ready(Err(error)) => self.fail(id, error),
            Poll::Pending => self.specs.insert(0, (id, spec)),
        }
    }

    /// Cancels a whole conversation because one of its answers failed.
    fn fail(&mut self, id: RequestId, error: Error) {
        let Some(answer) = self.answers.get(&id) else { return };
        let conversation = answer.conversation;
        self.cancel(conversation);
        self.outbox.push((conversation, Reply::Error(error)));
    }

    /// Ends one input of an embedding request, if the id belongs to one.
    fn finish_input(&mut self, id: RequestId, reason: &FinishReason, usage: Usage) {
        let engine = &mut self.engine;
        let mut jobs = self.jobs.iter_mut();
        let over =
            jobs.find_map(|(name, job)| Some((*name, job.finish(id, reason, usage, engine)?)));
        if let Some((name, reply)) = over {
            self.jobs.remove(&name);
            self.outbox.push((name, reply));
        }
    }

    fn finish(&mut self, id: RequestId, reason: FinishReason, usage: Usage) {
        let (reason, stop) = match reason {
            FinishReason::Stop => (api::FinishReason::Stop, None),
            FinishReason::StopToken(token) => (api::FinishReason::Stop, Some(token)),
            FinishReason::Length => (api::FinishReason::Length, None),
            FinishReason::Repetition => (api::FinishReason::Repetition, None),
            FinishReason::Cancelled => return self.fail(id, Error::Aborted),
            FinishReason::Error(error) => return self.fail(id, error),
        };
        let Some(answer) = self.answers.remove(&id) else { return };
        let first = answer.conversation;
        let Some(conversation) = self.conversations.get_mut(&first) else { return };
        let completion_tokens =
            answer.ended.or(answer.stopped()).unwrap_or(usage.completion_tokens);
        let usage = Usage {
            completion_tokens,
            accepted_tokens: usage.accepted_tokens.saturating_sub(answer.beyond),
            rejected_tokens: usage.rejected_tokens + answer.beyond,
            ..usage
        };
        let ended = answer.finish(reason, stop, completion_tokens);
        let replies = conversation.ended(id, ended, usage);
        if conversation.is_over() {
            self.conversations.remove(&first);
        }
        self.outbox.extend(replies.into_iter().map(|reply| (first, reply)));
    }
}
