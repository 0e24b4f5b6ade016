//! Text completions: conversations without a template, in the shape of OpenAI's legacy API.

use std::sync::Arc;

use super::{
    reply::Reply,
    request::{Moment, Prepared, check_ids, engine_request, name},
    resume::Resumed,
};
use crate::{
    Result,
    api::{
        ChatRequest, ChunkChoice, CompleteRequest, Completion, CompletionChoice,
        CompletionLogprobs, FinishReason, Responder, TextInput, TokenLogprob, Usage, invalid,
    },
    text::{Chat, Detokenizer, Tokenizer},
};

/// Converts a conversation's replies into text completions.
pub struct Adapter {
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

/// The conversation that answers a request, and an engine request for each of its prompts, `tokens`;
/// `vocab` is the size of the model's vocabulary.
pub fn conversation(
    request: &CompleteRequest,
    tokens: Vec<Vec<u32>>,
    chat: &Chat,
    vocab: usize,
    moment: Moment,
) -> Result<(ChatRequest, Vec<Prepared>)> {
    let CompleteRequest { echo, settings, .. } = request;
    let (logprobs, top) = (settings.sampling.logprobs, settings.prompt_logprobs);
    let inner = ChatRequest {
        stream: true,
        include_usage: settings.include_usage || !settings.stream,
        prompt_logprobs: if *echo { top.max(logprobs) } else { top },
        ..settings.clone()
    };
    let count = tokens.len();
    let prepared = |(i, tokens): (usize, Vec<u32>)| {
        let param = name("prompt", i, count);
        if tokens.is_empty() {
            return Err(invalid(param, "no tokens", "some text"));
        }
        check_ids(&param, &tokens, vocab)?;
        // Equal prompts must get different seeds.
        let entropy = moment.entropy.wrapping_add((i * settings.n) as u64);
        engine_request(&inner, tokens.into(), chat, vocab, Moment { entropy, ..moment })
    };
    let prepared = tokens.into_iter().enumerate().map(prepared).collect::<Result<_>>()?;
    Ok((inner, prepared))
}

impl Adapter {
    /// An adapter for a request and its engine requests `prepared`, resumed at `resume`.
    pub fn new(
        request: CompleteRequest,
        prepared: &[Prepared],
        tokenizer: &Arc<Tokenizer>,
        resume: &[Resumed],
    ) -> Result<Adapter> {
        let CompleteRequest { prompts, echo, echo_only, settings, .. } = request;
        let mut choices = Vec::new();
        for (input, Prepared { request, .. }) in prompts.into_iter().zip(prepared) {
            let prompt = match input {
                TextInput::Text(text) => text,
                TextInput::Tokens(_) => {
                    shown(Detokenizer::new(tokenizer.clone(), true), &request.prompt)?
                }
            };
            let bytes = request.prompt_logprobs.map(|_| spell(tokenizer, &request.prompt));
            let prompt_tokens = bytes.transpose()?.unwrap_or_default();
            for _ in 0..settings.n {
                let resumed = resume.get(choices.len()).cloned().unwrap_or_default();
                let shows_special = settings.text.shows_special;
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
        let [logprobs, prompt_logprobs] = [settings.sampling.logprobs, settings.prompt_logprobs]
            .map(|top| top.map(|top| top as usize));
        let whole = Completion {
            object: "text_completion",
            choices: (0..choices.len() as u32)
                .map(|index| CompletionChoice { index, ..Default::default() })
                .collect(),
            // A chunk without usage has null.
            usage: settings.include_usage.then_some(None),
            ..Default::default()
        };
        let stream = settings.stream;
        Ok(Adapter { stream, logprobs, prompt_logprobs, echo, echo_only, choices, whole })
    }

    /// The same adapter with the id, time and model of the conversation's chunks.
    pub fn with_responder(mut self, responder: &Responder) -> Adapter {
        let Responder { id, created, model, .. } = responder.clone();
        (self.whole.id, self.whole.created, self.whole.model) = (id, created, model);
        self
    }

    /// Converts the log-probabilities of a prompt's tokens.
    pub fn prompt(&mut self, index: u32, known: Vec<Option<TokenLogprob>>) -> Option<Reply> {
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
    pub fn convert(&mut self, reply: Reply) -> Option<Reply> {
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
