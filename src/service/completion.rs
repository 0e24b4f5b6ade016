//! Text completions: conversations without a template, told in OpenAI's older shape.

use std::sync::Arc;

use super::{
    reply::Reply,
    request::{Asked, Moment, check_ids, engine_request, name},
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

/// Turns what a conversation tells into text completions.
pub struct Completing {
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

/// The conversation that answers a request, and what the engine is asked for each of its prompts, whose
/// model has `vocab` tokens.
pub fn conversation(
    request: &CompleteRequest,
    chat: &Chat,
    vocab: usize,
    moment: Moment,
) -> Result<(ChatRequest, Vec<Asked>)> {
    let CompleteRequest { prompts, add_special_tokens, echo, settings, .. } = request;
    let (logprobs, told) = (settings.sampling.logprobs, settings.prompt_logprobs);
    let inner = ChatRequest {
        stream: true,
        include_usage: settings.include_usage || !settings.stream,
        prompt_logprobs: if *echo { told.max(logprobs) } else { told },
        ..settings.clone()
    };
    let asked = |(i, input): (usize, &TextInput)| {
        let tokens = match input {
            TextInput::Text(text) => chat.tokenizer().encode_raw(text, *add_special_tokens)?,
            TextInput::Tokens(tokens) => tokens.clone(),
        };
        let param = name("prompt", i, prompts.len());
        if tokens.is_empty() {
            return Err(invalid(param, "no tokens", "some text"));
        }
        check_ids(&param, &tokens, vocab)?;
        // Prompts that are the same get answers of their own.
        let entropy = moment.entropy.wrapping_add((i * settings.n) as u64);
        engine_request(&inner, tokens.into(), chat, vocab, Moment { entropy, ..moment })
    };
    let asked = prompts.iter().enumerate().map(asked).collect::<Result<_>>()?;
    Ok((inner, asked))
}

impl Completing {
    /// The answers to a request, of which the engine is asked `asked`, from where `resume` says.
    pub fn new(
        request: CompleteRequest,
        asked: &[Asked],
        tokenizer: &Arc<Tokenizer>,
        resume: &[Resumed],
    ) -> Result<Completing> {
        let CompleteRequest { prompts, echo, echo_only, settings, .. } = request;
        let mut choices = Vec::new();
        for (input, Asked { request, .. }) in prompts.into_iter().zip(asked) {
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
        let [logprobs, prompt_logprobs] = [settings.sampling.logprobs, settings.prompt_logprobs]
            .map(|top| top.map(|top| top as usize));
        let whole = Completion {
            object: "text_completion",
            choices: (0..choices.len() as u32)
                .map(|index| CompletionChoice { index, ..Default::default() })
                .collect(),
            // Of a chunk without usage.
            usage: settings.include_usage.then_some(None),
            ..Default::default()
        };
        let stream = settings.stream;
        Ok(Completing { stream, logprobs, prompt_logprobs, echo, echo_only, choices, whole })
    }

    /// The same, told by who tells the conversation.
    pub fn told_by(mut self, responder: &Responder) -> Completing {
        let Responder { id, created, model, .. } = responder.clone();
        (self.whole.id, self.whole.created, self.whole.model) = (id, created, model);
        self
    }

    /// Takes in how likely the tokens of an answer's prompt were.
    pub fn prompt(&mut self, index: u32, known: Vec<Option<TokenLogprob>>) -> Option<Reply> {
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
    pub fn tell(&mut self, reply: Reply) -> Option<Reply> {
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
