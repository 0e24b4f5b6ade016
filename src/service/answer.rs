//! An answer in the making: tokens in, OpenAI's shapes out.

use std::sync::Arc;

use super::{reply::Reply, resume::Resumed};
use crate::{
    Result,
    api::{
        ChatRequest, Choice, ChoiceLogprobs, Delta, FinishReason, Responder, ResponseCall,
        ResponseMessage, TokenLogprob, ToolCallDelta, TopLogprob,
    },
    engine::RequestId,
    step::Logprobs,
    text::{CallPiece, End, Piece, Pieces, Reading, Tokenizer},
};

/// The text of an answer so far, and what is known of its tokens.
pub struct Answer {
    /// The request that it answers, perhaps with others.
    pub conversation: RequestId,
    /// The count of its tokens, if its end has been told before.
    pub ended: Option<usize>,
    /// Guesses that were right, but behind the end of its text.
    pub beyond: usize,
    responder: Responder,
    stream: bool,
    /// Whether its first chunk has been told before.
    started: bool,
    tokenizer: Arc<Tokenizer>,
    pieces: Pieces<Token>,
    /// Tokens taken in.
    count: usize,
    /// Whether log-probabilities are told.
    tells: bool,
    /// The random number of the request, which names its calls of tools.
    entropy: u64,
    /// What there is so far, and its log-probabilities, kept where no stream was asked for.
    message: Delta,
    told: Vec<TokenLogprob>,
    /// The prompt's tokens, where their log-probabilities were asked for.
    prompt: Vec<u32>,
    prompt_logprobs: Option<Vec<Option<TokenLogprob>>>,
}

/// A token of an answer.
struct Token {
    id: u32,
    /// If it is told how likely it was.
    logprob: Option<TokenLogprob>,
    /// Whether it was guessed before it was drawn.
    drafted: bool,
}

/// How an answer ended, and how many of its tokens were thinking.
pub struct Ended {
    pub reasoning_tokens: usize,
    pub told: Told,
}

/// What an answer's end brings.
pub enum Told {
    /// The last chunk of its stream, unless that has been told before.
    Streamed(Option<Reply>),
    /// The choice, and the log-probabilities of the prompt if they were asked for.
    Whole(Choice, Option<Vec<Option<TokenLogprob>>>),
}

impl Answer {
    /// The answer to a request, which begins after `prompt`, is to be read as `reading` says and goes
    /// on where `resumed` says.
    pub fn new(
        conversation: RequestId,
        responder: Responder,
        request: &ChatRequest,
        tokenizer: Arc<Tokenizer>,
        (prompt, reading, entropy): (&[u32], &Reading, u64),
        resumed: &Resumed,
    ) -> Result<Answer> {
        Ok(Answer {
            conversation,
            ended: resumed.ended,
            beyond: 0,
            responder,
            stream: request.stream,
            started: resumed.started,
            pieces: Pieces::new(tokenizer.clone(), &request.text, reading, &resumed.tokens)?,
            tokenizer,
            count: resumed.tokens.len(),
            tells: request.sampling.logprobs.is_some(),
            entropy,
            message: Delta::default(),
            told: Vec::new(),
            prompt: if request.prompt_logprobs.is_some() { prompt.to_vec() } else { Vec::new() },
            prompt_logprobs: None,
        })
    }

    /// What there is to tell before the next token.
    pub fn start(&self) -> Option<Reply> {
        let silent = !self.stream || self.started || self.ended.is_some();
        (!silent).then(|| Reply::plain(self.responder.start()))
    }

    /// Takes in how likely the prompt's tokens were, from the second on.
    pub fn prompt_logprobs(&mut self, logprobs: &[Logprobs]) -> Result<()> {
        let tokens = self.prompt.iter().skip(1).zip(logprobs);
        let told = tokens.map(|(token, logprobs)| self.describe(*token, logprobs).map(Some));
        self.prompt_logprobs = Some([Ok(None)].into_iter().chain(told).collect::<Result<_>>()?);
        Ok(())
    }

    /// Hands out what was taken in of the prompt's tokens.
    pub fn take_prompt_logprobs(&mut self) -> Option<Vec<Option<TokenLogprob>>> {
        self.prompt_logprobs.take()
    }

    /// Which of the request's answers it is.
    pub fn index(&self) -> u32 {
        self.responder.index
    }

    /// Takes in the next token and returns what there is to tell.
    pub fn token(
        &mut self,
        id: u32,
        logprobs: Option<&Logprobs>,
        drafted: bool,
    ) -> Result<Option<Reply>> {
        let logprob = logprobs.map(|logprobs| self.describe(id, logprobs)).transpose()?;
        let token = Token { id, logprob, drafted };
        self.count += 1;
        let Some(mut piece) = self.pieces.push(id, token)? else { return Ok(None) };
        let items = std::mem::take(&mut piece.items);
        let drafted = items.iter().all(|token| token.drafted);
        let (tokens, told) = split(items);
        let delta = delta(piece, &self.responder, self.entropy);
        if self.stream {
            let value = self.responder.delta(delta, choice_logprobs(self.tells, told), drafted);
            return Ok(Some(Reply::Chunk { value, tokens, ended: None }));
        }
        self.message.extend(delta);
        self.told.extend(told);
        Ok(None)
    }

    /// Whether no more tokens are wanted: a stop string has ended the text, or its end has been told.
    pub fn is_over(&self) -> bool {
        self.pieces.stopped() || self.ended.is_some()
    }

    /// How many tokens there are up to the end of a stop string, if one has ended the text.
    pub fn stopped(&self) -> Option<usize> {
        self.pieces.stopped().then_some(self.count)
    }

    /// What there is to tell at the end, given the stop token that ended the answer, if one did, and
    /// how many tokens it took: the last chunk of a stream, or the choice.
    pub fn finish(self, reason: FinishReason, stop: Option<u32>, count: usize) -> Ended {
        let Answer { responder, pieces, tells, entropy, mut message, .. } = self;
        let stopped = pieces.stopped();
        let End { mut piece, called, reasoning_tokens } = pieces.finish();
        if self.ended.is_some() {
            return Ended { reasoning_tokens, told: Told::Streamed(None) };
        }
        // The token that completed a stop string may also have been the last one allowed, or have come
        // with a stop token.
        let stop = stop.filter(|_| !stopped);
        let reason = match if stopped { FinishReason::Stop } else { reason } {
            FinishReason::Stop if called => FinishReason::ToolCalls,
            reason => reason,
        };
        let (tokens, told) = split(std::mem::take(&mut piece.items));
        let delta = delta(piece, &responder, entropy);
        let told = if self.stream {
            let logprobs = choice_logprobs(tells && !told.is_empty(), told);
            let value = responder.finish(delta, logprobs, reason, stop);
            Told::Streamed(Some(Reply::Chunk { value, tokens, ended: Some(count) }))
        } else {
            message.extend(delta);
            let told = self.told.into_iter().chain(told).collect();
            let choice = Choice {
                index: responder.index,
                message: whole(message),
                logprobs: choice_logprobs(tells, told),
                stop_reason: stop,
                ..Choice::new("", reason)
            };
            Told::Whole(choice, self.prompt_logprobs)
        };
        Ended { reasoning_tokens, told }
    }

    fn describe(&self, token: u32, logprobs: &Logprobs) -> Result<TokenLogprob> {
        let spelled = |token, logprob| Ok(TopLogprob::new(self.tokenizer.spell(token)?, logprob));
        let top = logprobs.top.iter().enumerate();
        // A token that was named may be among the likeliest, and one may be named twice.
        let first = |(i, (token, _)): &(usize, &(u32, f32))| {
            logprobs.top[..*i].iter().all(|(other, _)| other != token)
        };
        let top = top.filter(first).map(|(_, (token, logprob))| spelled(*token, *logprob));
        Ok(TokenLogprob {
            chosen: spelled(token, logprobs.chosen)?,
            top_logprobs: top.collect::<Result<_>>()?,
        })
    }
}

/// What a piece adds to the message. The same request, asked again, names its calls the same.
fn delta(piece: Piece<Token>, responder: &Responder, entropy: u64) -> Delta {
    let call = |CallPiece { index, name, arguments }: CallPiece| match name {
        Some(name) => {
            let id = format!("call_{entropy:016x}{:02x}{index:04x}", responder.index);
            ToolCallDelta::first(index, id, name, arguments)
        }
        None => ToolCallDelta::more(index, arguments),
    };
    Delta {
        reasoning_content: (!piece.reasoning.is_empty()).then_some(piece.reasoning),
        tool_calls: piece.calls.into_iter().map(call).collect(),
        ..piece.text.into()
    }
}

/// The message that all pieces make.
fn whole(message: Delta) -> ResponseMessage {
    let call = |call: ToolCallDelta| {
        let name = call.function.name.unwrap_or_default();
        ResponseCall::new(call.id.unwrap_or_default(), name, call.function.arguments)
    };
    let calls = message.tool_calls.into_iter().map(call).collect();
    let text = message.content.unwrap_or_default();
    ResponseMessage::new(text, message.reasoning_content.unwrap_or_default(), calls)
}

fn choice_logprobs(tells: bool, content: Vec<TokenLogprob>) -> Option<ChoiceLogprobs> {
    tells.then_some(ChoiceLogprobs { content, refusal: () })
}

fn split(tokens: Vec<Token>) -> (Vec<u32>, Vec<TokenLogprob>) {
    let ids = tokens.iter().map(|token| token.id).collect();
    (ids, tokens.into_iter().filter_map(|token| token.logprob).collect())
}
