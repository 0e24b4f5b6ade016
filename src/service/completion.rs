//! Text completions: conversations without a template, told in OpenAI's older shape.

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

/// Turns what a conversation tells into text completions.
pub(super) struct Completing {
    stream: bool,
    /// How many of the likeliest tokens are told beside each, if they are.
    logprobs: Option<usize>,
    /// As `logprobs`, of the prompt for itself.
    prompt_logprobs: Option<usize>,
    echo: bool,
    echo_only: bool,
    choices: Vec<Told>,
    /// The answers so far, where no stream was asked for.
    whole: Completion,
}

/// How far one of the answers is.
struct Told {
    /// The prompt as it is echoed.
    prompt: String,
    /// The bytes that its tokens show as, where their log-probabilities are told.
    prompt_tokens: Vec<Vec<u8>>,
    /// Whether some of it was told before, by another service.
    started: bool,
    /// Characters of the answer told so far, an echo included.
    chars: usize,
}

impl<E: Executor> Service<E> {
    /// Queues a request for text completions; as [`Service::submit`], but answered with
    /// [`Reply::TextChunk`] and [`Reply::TextCompletion`].
    ///
    /// Control tokens in a prompt count as such: it is the caller who writes what a template would.
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
        let (stream, told) = (settings.stream, settings.prompt_logprobs);
        let inner = ChatRequest {
            stream: true,
            include_usage: settings.include_usage || !stream,
            prompt_logprobs: if echo { told.max(logprobs) } else { told },
            ..settings.clone()
        };
        let asked = |(i, input): (usize, &TextInput)| {
            let tokens = match input {
                TextInput::Text(text) => {
                    self.chat.tokenizer().encode_raw(text, add_special_tokens)?
                }
                TextInput::Tokens(tokens) => tokens.clone(),
            };
            self.check_prompt(&name("prompt", i, prompts.len()), &tokens)?;
            // Prompts that are the same get answers of their own.
            let entropy = moment.entropy.wrapping_add((i * n) as u64);
            let moment = Moment { entropy, ..moment };
            engine_request(&inner, tokens.into(), &self.chat, self.capacity.vocab, moment)
        };
        let asked = prompts.iter().enumerate().map(asked).collect::<Result<Vec<_>>>()?;
        resume::check(resume, &settings, &asked, &self.capacity)?;

        let tokenizer = self.chat.tokenizer().clone();
        let mut choices = Vec::new();
        for (input, asked) in prompts.iter().zip(&asked) {
            let prompt = match input {
                TextInput::Text(text) => text.clone(),
                TextInput::Tokens(_) => {
                    shown(Detokenizer::new(tokenizer.clone(), true), &asked.request.prompt)?
                }
            };
            let prompt_tokens = match asked.request.prompt_logprobs {
                Some(_) => spell(&tokenizer, &asked.request.prompt)?,
                None => Vec::new(),
            };
            for _ in 0..n {
                let resumed = resume.get(choices.len()).cloned().unwrap_or_default();
                let shows_special = inner.text.shows_special;
                let detokenizer = Detokenizer::new(tokenizer.clone(), shows_special);
                let told = shown(detokenizer, &resumed.tokens)?;
                let echoed = if echo { prompt.chars().count() } else { 0 };
                choices.push(Told {
                    prompt: prompt.clone(),
                    prompt_tokens: prompt_tokens.clone(),
                    started: resumed.started,
                    chars: echoed + told.chars().count(),
                });
            }
        }
        let id = self.begin("cmpl", "prompt", &inner, asked, moment, resume)?;
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
                // Of a chunk without usage.
                usage: settings.include_usage.then_some(None),
            };
            let [logprobs, prompt_logprobs] =
                [logprobs, told].map(|top| top.map(|top| top as usize));
            let completing =
                Completing { stream, logprobs, prompt_logprobs, echo, echo_only, choices, whole };
            self.completions.insert(id, completing);
        }
        Ok(id)
    }

    /// Refuses a prompt that the engine would, by its name.
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

    /// Tells of the prompt of a text completion, if the answer `id` belongs to one.
    pub(super) fn echo(&mut self, id: RequestId) {
        let Some(answer) = self.answers.get_mut(&id) else { return };
        let Some(completing) = self.completions.get_mut(&answer.conversation) else { return };
        let Some(logprobs) = answer.take_prompt_logprobs() else { return };
        let chunk = completing.prompt(answer.index(), logprobs);
        self.outbox.extend(chunk.map(|chunk| (answer.conversation, chunk)));
    }

    /// What there is to tell, in order, and nothing of it twice.
    pub(super) fn told(&mut self) -> Vec<(RequestId, Reply)> {
        let outbox = std::mem::take(&mut self.outbox);
        let told = |(id, reply)| match self.completions.get_mut(&id) {
            None => Some((id, reply)),
            Some(completing) => {
                let over = matches!(reply, Reply::End);
                let reply = completing.tell(reply);
                if over {
                    self.completions.remove(&id);
                }
                reply.map(|reply| (id, reply))
            }
        };
        outbox.into_iter().filter_map(told).collect()
    }
}

impl Completing {
    /// Takes in how likely the tokens of an answer's prompt were.
    fn prompt(&mut self, index: u32, known: Vec<Option<TokenLogprob>>) -> Option<Reply> {
        let told = self.choices.get(index as usize).filter(|told| !told.started)?;
        let echoes = self.echo && self.logprobs.is_some();
        let likeliest = |top: usize| {
            let first = |known: &TokenLogprob| TokenLogprob {
                top_logprobs: known.top_logprobs.iter().take(top).cloned().collect(),
                ..known.clone()
            };
            known.iter().map(|known| known.as_ref().map(first)).collect()
        };
        let tokens = told.prompt_tokens.iter().cloned().zip(known.iter().map(Option::as_ref));
        let choice = CompletionChoice {
            index,
            text: if echoes { told.prompt.clone() } else { String::new() },
            logprobs: self
                .logprobs
                .filter(|_| echoes)
                .map(|top| CompletionLogprobs::new(&told.prompt, 0, top, tokens)),
            prompt_logprobs: self.prompt_logprobs.map(likeliest),
            ..Default::default()
        };
        self.push(Some(choice), None, Vec::new(), None)
    }

    /// The same in the shape of text completions.
    fn tell(&mut self, reply: Reply) -> Option<Reply> {
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

    /// A piece of an answer; none if it has nothing to tell.
    fn choice(&mut self, choice: ChunkChoice) -> Option<CompletionChoice> {
        let ChunkChoice { index, delta, logprobs, finish_reason, stop_reason, drafted } = choice;
        let told = self.choices.get_mut(index as usize)?;
        let begins = delta.role.is_some();
        let mut text = delta.content.unwrap_or_default();
        let echoes = begins && self.echo && self.logprobs.is_none();
        if begins && !echoes || self.echo_only && !begins && finish_reason.is_none() {
            return None;
        }
        let mut piece =
            CompletionChoice { index, finish_reason, stop_reason, drafted, ..Default::default() };
        if echoes {
            text = told.prompt.clone();
        } else if self.echo_only {
            piece.finish_reason = Some(FinishReason::Length);
            (piece.stop_reason, piece.drafted) = (None, false);
            return Some(piece);
        } else {
            piece.logprobs = logprobs.zip(self.logprobs).map(|(logprobs, top)| {
                let tokens = logprobs.content.iter();
                let tokens = tokens.map(|token| (token.chosen.bytes.clone(), Some(token)));
                CompletionLogprobs::new(&text, told.chars, top, tokens)
            });
            told.chars += text.chars().count();
        }
        Some(CompletionChoice { text, ..piece })
    }

    /// Tells a chunk, or keeps it where no stream was asked for.
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

/// The text of tokens.
fn shown(mut detokenizer: Detokenizer, tokens: &[u32]) -> Result<String> {
    let text = tokens.iter().map(|token| detokenizer.push(*token)).collect::<Result<String>>()?;
    Ok(text + &detokenizer.finish())
}

fn spell(tokenizer: &Tokenizer, tokens: &[u32]) -> Result<Vec<Vec<u8>>> {
    tokens.iter().map(|token| tokenizer.spell(*token)).collect()
}
