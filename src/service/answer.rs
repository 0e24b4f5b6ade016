//! An answer that is being generated: tokens in, OpenAI's shapes out.

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

/// The state of an answer: its text so far and its tokens' log-probabilities.
pub struct Answer {
    /// The request that it belongs to; several answers may belong to one.
    pub conversation: RequestId,
    /// Its token count, if its last chunk was sent before the stream was resumed.
    pub ended: Option<usize>,
    /// Accepted draft tokens after the end of its text.
    pub beyond: usize,
    responder: Responder,
    stream: bool,
    /// Whether its first chunk was sent before the stream was resumed.
    started: bool,
    tokenizer: Arc<Tokenizer>,
    pieces: Pieces<Token>,
    /// Number of tokens received.
    count: usize,
    /// Whether log-probabilities are returned.
    has_logprobs: bool,
    /// The request's random number; it makes up the ids of tool calls.
    entropy: u64,
    /// The message so far and its log-probabilities, if not streamed.
    message: Delta,
    logprobs: Vec<TokenLogprob>,
    /// The prompt's tokens, if their log-probabilities are requested.
    prompt: Vec<u32>,
    prompt_logprobs: Option<Vec<Option<TokenLogprob>>>,
}

/// A token of an answer.
struct Token {
    id: u32,
    /// If requested.
    logprob: Option<TokenLogprob>,
    /// Whether it is an accepted draft token.
    drafted: bool,
}

/// The end of an answer, and its number of reasoning tokens.
pub struct Ended {
    pub reasoning_tokens: usize,
    pub last: Last,
}

/// The output at an answer's end.
pub enum Last {
    /// The last chunk of its stream, unless it was sent before.
    Streamed(Option<Reply>),
    /// The choice, and the prompt's log-probabilities if requested.
    Whole(Choice, Option<Vec<Option<TokenLogprob>>>),
}

impl Answer {
    /// An answer to `prompt` that is parsed as `reading` says and continues at `resumed`.
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
            has_logprobs: request.sampling.logprobs.is_some(),
            entropy,
            message: Delta::default(),
            logprobs: Vec::new(),
            prompt: if request.prompt_logprobs.is_some() { prompt.to_vec() } else { Vec::new() },
            prompt_logprobs: None,
        })
    }

    /// The reply before the first token: the first chunk of a stream.
    pub fn start(&self) -> Option<Reply> {
        let silent = !self.stream || self.started || self.ended.is_some();
        (!silent).then(|| Reply::plain(self.responder.start()))
    }

    /// Takes the log-probabilities of the prompt's tokens, from the second one on.
    pub fn prompt_logprobs(&mut self, logprobs: &[Logprobs]) -> Result<()> {
        let tokens = self.prompt.iter().skip(1).zip(logprobs);
        let entries = tokens.map(|(token, logprobs)| self.describe(*token, logprobs).map(Some));
        self.prompt_logprobs = Some([Ok(None)].into_iter().chain(entries).collect::<Result<_>>()?);
        Ok(())
    }

    /// Removes and returns the log-probabilities of the prompt's tokens.
    pub fn take_prompt_logprobs(&mut self) -> Option<Vec<Option<TokenLogprob>>> {
        self.prompt_logprobs.take()
    }

    /// Its index among the request's answers.
    pub fn index(&self) -> u32 {
        self.responder.index
    }

    /// Takes the next token and returns the next chunk, if there is one.
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
        let (tokens, logprobs) = split(items);
        let delta = delta(piece, &self.responder, self.entropy);
        if self.stream {
            let value =
                self.responder.delta(delta, choice_logprobs(self.has_logprobs, logprobs), drafted);
            return Ok(Some(Reply::Chunk { value, tokens, ended: None }));
        }
        self.message.extend(delta);
        self.logprobs.extend(logprobs);
        Ok(None)
    }

    /// Whether no more tokens are needed: a stop string ended the text, or the last chunk was sent before.
    pub fn is_over(&self) -> bool {
        self.pieces.stopped() || self.ended.is_some()
    }

    /// The token count up to the end of the stop string, if one ended the text.
    pub fn stopped(&self) -> Option<usize> {
        self.pieces.stopped().then_some(self.count)
    }

    /// Ends the answer and returns the last chunk of a stream, or the choice. `stop` is the stop token
    /// that ended it, if one did, and `count` its token count.
    pub fn finish(self, reason: FinishReason, stop: Option<u32>, count: usize) -> Ended {
        let Answer { responder, pieces, has_logprobs, entropy, mut message, .. } = self;
        let stopped = pieces.stopped();
        let End { mut piece, called, reasoning_tokens } = pieces.finish();
        if self.ended.is_some() {
            return Ended { reasoning_tokens, last: Last::Streamed(None) };
        }
        // The token that completed a stop string may be the last allowed one, or come with a stop token.
        let stop = stop.filter(|_| !stopped);
        let reason = match if stopped { FinishReason::Stop } else { reason } {
            FinishReason::Stop if called => FinishReason::ToolCalls,
            reason => reason,
        };
        let (tokens, logprobs) = split(std::mem::take(&mut piece.items));
        let delta = delta(piece, &responder, entropy);
        let last = if self.stream {
            let logprobs = choice_logprobs(has_logprobs && !logprobs.is_empty(), logprobs);
            let value = responder.finish(delta, logprobs, reason, stop);
            Last::Streamed(Some(Reply::Chunk { value, tokens, ended: Some(count) }))
        } else {
            message.extend(delta);
            let logprobs = self.logprobs.into_iter().chain(logprobs).collect();
            let choice = Choice {
                index: responder.index,
                message: whole(message),
                logprobs: choice_logprobs(has_logprobs, logprobs),
                stop_reason: stop,
                ..Choice::new("", reason)
            };
            Last::Whole(choice, self.prompt_logprobs)
        };
        Ended { reasoning_tokens, last }
    }

    fn describe(&self, token: u32, logprobs: &Logprobs) -> Result<TokenLogprob> {
        let spelled = |token, logprob| Ok(TopLogprob::new(self.tokenizer.spell(token)?, logprob));
        let top = logprobs.top.iter().enumerate();
        // A requested token may be among the top tokens, and may be requested twice.
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

/// What a piece adds to the message. Call ids depend only on the request: a resumed stream repeats them.
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

/// The message that all pieces add up to.
fn whole(message: Delta) -> ResponseMessage {
    let call = |call: ToolCallDelta| {
        let name = call.function.name.unwrap_or_default();
        ResponseCall::new(call.id.unwrap_or_default(), name, call.function.arguments)
    };
    let calls = message.tool_calls.into_iter().map(call).collect();
    let text = message.content.unwrap_or_default();
    ResponseMessage::new(text, message.reasoning_content.unwrap_or_default(), calls)
}

fn choice_logprobs(wanted: bool, content: Vec<TokenLogprob>) -> Option<ChoiceLogprobs> {
    wanted.then_some(ChoiceLogprobs { content, refusal: () })
}

fn split(tokens: Vec<Token>) -> (Vec<u32>, Vec<TokenLogprob>) {
    let ids = tokens.iter().map(|token| token.id).collect();
    (ids, tokens.into_iter().filter_map(|token| token.logprob).collect())
}
