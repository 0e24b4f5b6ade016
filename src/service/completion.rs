//! Text completions: conversations without a template, in the shape of OpenAI's legacy API.

use super::{
    Moment, Reply, Resumed, Service,
    request::{engine_request, name},
    resume,
};
use crate::{
    Result,
    api::{
        ChatRequest, ChunkChoice, CompleteRequest, Completion, CompletionChoice,
        CompletionLogprobs, FinishReason, Responder, TextInput, TokenLogprob, Usage,
    },
    engine::RequestId,
    error::Error,
    step::Executor,
    text::{Detokenizer, Tokenizer},
};

/// Converts a conversation's replies into text completions.
pub(super) struct Adapter {
    stream: bool,
    /// Number of top tokens per token, if log-probabilities are returned.
    logprobs: Option<usize>,
    /// The same for the `prompt_logprobs` field.
    prompt_logprobs: Option<usize>,
    echo: bool,
    echo_only: bool,
    choices: Vec<AnswerState>,
    /// The answers so far, if not streamed.
    whole: Completion,
}

/// The state of one answer.
struct AnswerState {
    /// The prompt's text, for `echo`.
    prompt: String,
    /// The bytes of the prompt's tokens, if their log-probabilities are returned.
    prompt_tokens: Vec<Vec<u8>>,
    /// Whether another service already sent a part of it.
    started: bool,
    /// Characters sent so far, the echo included.
    chars: usize,
}

impl<E: Executor> Service<E> {
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
        let CompleteRequest { prompts, add_special_tokens, echo, echo_only, settings } = request;
        let n = settings.n;
        let logprobs = settings.sampling.logprobs;
        let (stream, top) = (settings.stream, settings.prompt_logprobs);
        let inner = ChatRequest {
            stream: true,
            include_usage: settings.include_usage || !stream,
            prompt_logprobs: if echo { top.max(logprobs) } else { top },
            ..settings.clone()
        };
        let prepared = |(i, input): (usize, &TextInput)| {
            let tokens = match input {
                TextInput::Text(text) => {
                    self.chat.tokenizer().encode_raw(text, add_special_tokens)?
                }
                TextInput::Tokens(tokens) => tokens.clone(),
            };
            self.check_prompt(&name("prompt", i, prompts.len()), &tokens)?;
            // Equal prompts must get different seeds.
            let entropy = moment.entropy.wrapping_add((i * n) as u64);
            let moment = Moment { entropy, ..moment };
            engine_request(&inner, tokens.into(), &self.chat, self.capacity.vocab, moment)
        };
        let prepared = prompts.iter().enumerate().map(prepared).collect::<Result<Vec<_>>>()?;
        resume::check(resume, &settings, &prepared, &self.capacity)?;

        let tokenizer = self.chat.tokenizer().clone();
        let mut choices = Vec::new();
        for (input, prepared) in prompts.iter().zip(&prepared) {
            let prompt = match input {
                TextInput::Text(text) => text.clone(),
                TextInput::Tokens(_) => {
                    shown(Detokenizer::new(tokenizer.clone(), true), &prepared.request.prompt)?
                }
            };
            let prompt_tokens = match prepared.request.prompt_logprobs {
                Some(_) => spell(&tokenizer, &prepared.request.prompt)?,
                None => Vec::new(),
            };
            for _ in 0..n {
                let resumed = resume.get(choices.len()).cloned().unwrap_or_default();
                let shows_special = inner.text.shows_special;
                let detokenizer = Detokenizer::new(tokenizer.clone(), shows_special);
                let sent = shown(detokenizer, &resumed.tokens)?;
                let echoed = if echo { prompt.chars().count() } else { 0 };
                choices.push(AnswerState {
                    prompt: prompt.clone(),
                    prompt_tokens: prompt_tokens.clone(),
                    started: resumed.started,
                    chars: echoed + sent.chars().count(),
                });
            }
        }
        let id = self.begin("cmpl", "prompt", &inner, prepared, moment, resume)?;
        if let Some(conversation) = self.conversations.get(&id) {
            let Responder { id: name, created, model, .. } = conversation.responder().clone();
            let whole = Completion {
                id: name,
                object: "text_completion",
                created,
                model,
                choices: (0..choices.len() as u32)
                    .map(|index| CompletionChoice { index, ..Default::default() })
                    .collect(),
                // A chunk without usage has null.
                usage: settings.include_usage.then_some(None),
            };
            let [logprobs, prompt_logprobs] =
                [logprobs, top].map(|top| top.map(|top| top as usize));
            let adapter =
                Adapter { stream, logprobs, prompt_logprobs, echo, echo_only, choices, whole };
            self.completions.insert(id, adapter);
        }
        Ok(id)
    }

    /// Refuses a prompt that the engine would refuse, but names its parameter.
    fn check_prompt(&self, param: &str, tokens: &[u32]) -> Result<()> {
        let refuse = |message| Err(Error::InvalidRequest { param: param.into(), message });
        let vocab = self.capacity.vocab;
        if tokens.is_empty() {
            return refuse("found no tokens, expected some text".into());
        }
        match tokens.iter().find(|id| **id as usize >= vocab) {
            Some(id) => refuse(format!("found token id {id}, expected ids below {vocab}")),
            None => Ok(()),
        }
    }

    /// Sends the prompt's log-probabilities, if the answer `id` belongs to a text completion.
    pub(super) fn echo(&mut self, id: RequestId) {
        let Some(answer) = self.answers.get_mut(&id) else { return };
        let Some(adapter) = self.completions.get_mut(&answer.conversation) else { return };
        let Some(logprobs) = answer.take_prompt_logprobs() else { return };
        let chunk = adapter.prompt(answer.index(), logprobs);
        self.outbox.extend(chunk.map(|chunk| (answer.conversation, chunk)));
    }

    /// Removes and returns the replies in the outbox, in order.
    pub(super) fn take_replies(&mut self) -> Vec<(RequestId, Reply)> {
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
}

impl Adapter {
    /// Converts the log-probabilities of a prompt's tokens.
    fn prompt(&mut self, index: u32, known: Vec<Option<TokenLogprob>>) -> Option<Reply> {
        let state = self.choices.get(index as usize).filter(|state| !state.started)?;
        let echoes = self.echo && self.logprobs.is_some();
        let top_entries = |top: usize| {
            let first = |known: &TokenLogprob| TokenLogprob {
                top_logprobs: known.top_logprobs.iter().take(top).cloned().collect(),
                ..known.clone()
            };
            known.iter().map(|known| known.as_ref().map(first)).collect()
        };
        let tokens = state.prompt_tokens.iter().cloned().zip(known.iter().map(Option::as_ref));
        let choice = CompletionChoice {
            index,
            text: if echoes { state.prompt.clone() } else { String::new() },
            logprobs: self
                .logprobs
                .filter(|_| echoes)
                .map(|top| CompletionLogprobs::new(&state.prompt, 0, top, tokens)),
            prompt_logprobs: self.prompt_logprobs.map(top_entries),
            ..Default::default()
        };
        self.push(Some(choice), None, Vec::new(), None)
    }

    /// Converts a reply into the shape of text completions.
    fn convert(&mut self, reply: Reply) -> Option<Reply> {
        match reply {
            Reply::Chunk { mut value, tokens, ended } => {
                let choice = match value.choices.pop() {
                    Some(choice) => Some(self.choice(choice)?),
                    None => None,
                };
                self.push(choice, value.usage.flatten(), tokens, ended)
            }
            Reply::End if !self.stream => {
                Some(Reply::TextCompletion(std::mem::take(&mut self.whole)))
            }
            other => Some(other),
        }
    }

    /// Converts a piece of an answer; `None` if nothing is left to send.
    fn choice(&mut self, choice: ChunkChoice) -> Option<CompletionChoice> {
        let ChunkChoice { index, delta, logprobs, finish_reason, stop_reason, drafted } = choice;
        let state = self.choices.get_mut(index as usize)?;
        let begins = delta.role.is_some();
        let mut text = delta.content.unwrap_or_default();
        let echoes = begins && self.echo && self.logprobs.is_none();
        if begins && !echoes || self.echo_only && !begins && finish_reason.is_none() {
            return None;
        }
        let mut piece =
            CompletionChoice { index, finish_reason, stop_reason, drafted, ..Default::default() };
        if echoes {
            text = state.prompt.clone();
        } else if self.echo_only {
            piece.finish_reason = Some(FinishReason::Length);
            (piece.stop_reason, piece.drafted) = (None, false);
            return Some(piece);
        } else {
            piece.logprobs = logprobs.zip(self.logprobs).map(|(logprobs, top)| {
                let tokens = logprobs.content.iter();
                let tokens = tokens.map(|token| (token.chosen.bytes.clone(), Some(token)));
                CompletionLogprobs::new(&text, state.chars, top, tokens)
            });
            state.chars += text.chars().count();
        }
        Some(CompletionChoice { text, ..piece })
    }

    /// Returns a chunk of a stream; if not streamed, adds it to the whole.
    fn push(
        &mut self,
        choice: Option<CompletionChoice>,
        usage: Option<Usage>,
        tokens: Vec<u32>,
        ended: Option<usize>,
    ) -> Option<Reply> {
        let usage = usage.map(|usage| match self.echo_only {
            true => {
                let Usage { prompt_tokens, prompt_tokens_details, .. } = usage;
                Usage::new(prompt_tokens, prompt_tokens_details.cached_tokens, 0)
            }
            false => usage,
        });
        let usage = usage.map(Some).or(self.whole.usage);
        if self.stream {
            let Completion { id, created, model, .. } = &self.whole;
            let (id, created, model) = (id.clone(), *created, model.clone());
            let choices = choice.into_iter().collect();
            let value =
                Completion { id, object: "text_completion", created, model, choices, usage };
            return Some(Reply::TextChunk { value, tokens, ended });
        }
        if let Some(piece) = choice
            && let Some(choice) = self.whole.choices.get_mut(piece.index as usize)
        {
            choice.extend(piece);
        }
        self.whole.usage = usage;
        None
    }
}

/// Decodes tokens.
fn shown(mut detokenizer: Detokenizer, tokens: &[u32]) -> Result<String> {
    let text = tokens.iter().map(|token| detokenizer.push(*token)).collect::<Result<String>>()?;
    Ok(text + &detokenizer.finish())
}

fn spell(tokenizer: &Tokenizer, tokens: &[u32]) -> Result<Vec<Vec<u8>>> {
    tokens.iter().map(|token| tokenizer.spell(*token)).collect()
}
