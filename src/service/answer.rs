//! An answer in the making: tokens in, OpenAI's shapes out.

use std::sync::Arc;

use super::{Reply, Resumed};
use crate::{
    Result,
    api::{ChatRequest, Choice, ChoiceLogprobs, FinishReason, Responder, TokenLogprob, TopLogprob},
    engine::RequestId,
    step::Logprobs,
    text::{Piece, Pieces, Tokenizer},
};

/// The text of an answer so far, and what is known of its tokens.
pub struct Answer {
    /// The request that it answers, perhaps with others.
    pub conversation: RequestId,
    /// The count of its tokens, if its end has been told before.
    pub ended: Option<usize>,
    responder: Responder,
    stream: bool,
    /// Whether its first chunk has been told before.
    started: bool,
    tokenizer: Arc<Tokenizer>,
    pieces: Pieces<Token>,
    /// Whether log-probabilities are told.
    tells: bool,
    /// Text so far and its log-probabilities, kept where no stream was asked for.
    text: String,
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

/// How an answer ended.
pub enum Ended {
    /// The last chunk of its stream, unless that has been told before.
    Streamed(Option<Reply>),
    /// The choice, and the log-probabilities of the prompt if they were asked for.
    Whole(Choice, Option<Vec<Option<TokenLogprob>>>),
}

impl Answer {
    /// The answer to a request, which begins after `prompt` and goes on where `resumed` says.
    pub fn new(
        conversation: RequestId,
        responder: Responder,
        request: &ChatRequest,
        tokenizer: Arc<Tokenizer>,
        prompt: &[u32],
        resumed: &Resumed,
    ) -> Result<Answer> {
        Ok(Answer {
            conversation,
            ended: resumed.ended,
            responder,
            stream: request.stream,
            started: resumed.started,
            pieces: Pieces::new(tokenizer.clone(), &request.text, &resumed.tokens)?,
            tokenizer,
            tells: request.sampling.logprobs.is_some(),
            text: String::new(),
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
        let Some(piece) = self.pieces.push(id, token)? else { return Ok(None) };
        let Piece { text, items } = piece;
        let drafted = items.iter().all(|token| token.drafted);
        let (tokens, told) = split(items);
        if self.stream {
            let value = self.responder.delta(text, choice_logprobs(self.tells, told), drafted);
            return Ok(Some(Reply::Chunk { value, tokens, ended: None }));
        }
        self.text.push_str(&text);
        self.told.extend(told);
        Ok(None)
    }

    /// Whether no more tokens are wanted: a stop string has ended the text, or its end has been told.
    pub fn is_over(&self) -> bool {
        self.pieces.stopped() || self.ended.is_some()
    }

    /// What there is to tell at the end, given the stop token that ended the answer, if one did, and
    /// how many tokens it took: the last chunk of a stream, or the choice.
    pub fn finish(self, reason: FinishReason, stop: Option<u32>, count: usize) -> Ended {
        let Answer { responder, pieces, tells, .. } = self;
        if self.ended.is_some() {
            return Ended::Streamed(None);
        }
        // The token that completed a stop string may also have been the last one allowed.
        let reason = if pieces.stopped() { FinishReason::Stop } else { reason };
        let Piece { text, items } = pieces.finish();
        let (tokens, told) = split(items);
        if !self.stream {
            let told = self.told.into_iter().chain(told).collect();
            let choice = Choice {
                index: responder.index,
                logprobs: choice_logprobs(tells, told),
                stop_reason: stop,
                ..Choice::new(self.text + &text, reason)
            };
            return Ended::Whole(choice, self.prompt_logprobs);
        }
        let logprobs = choice_logprobs(tells && !told.is_empty(), told);
        let value = responder.finish(text, logprobs, reason, stop);
        Ended::Streamed(Some(Reply::Chunk { value, tokens, ended: Some(count) }))
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

fn choice_logprobs(tells: bool, content: Vec<TokenLogprob>) -> Option<ChoiceLogprobs> {
    tells.then_some(ChoiceLogprobs { content, refusal: () })
}

fn split(tokens: Vec<Token>) -> (Vec<u32>, Vec<TokenLogprob>) {
    let ids = tokens.iter().map(|token| token.id).collect();
    (ids, tokens.into_iter().filter_map(|token| token.logprob).collect())
}
