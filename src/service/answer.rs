//! An answer in the making: tokens in, OpenAI's shapes out.

use std::sync::Arc;

use super::Reply;
use crate::{
    Result,
    api::{ChatRequest, Choice, ChoiceLogprobs, FinishReason, Responder, TokenLogprob, TopLogprob},
    engine::RequestId,
    step::Logprobs,
    text::{Aligned, Detokenizer, StopFilter, Tokenizer},
};

/// The text of an answer so far, and what is known of its tokens.
pub struct Answer {
    /// The request that it answers, perhaps with others.
    pub conversation: RequestId,
    responder: Responder,
    stream: bool,
    tokenizer: Arc<Tokenizer>,
    detokenizer: Detokenizer,
    stops: StopFilter,
    /// Whether log-probabilities are told.
    tells: bool,
    aligned: Aligned<TokenLogprob>,
    /// Text so far and its log-probabilities, kept where no stream was asked for.
    text: String,
    told: Vec<TokenLogprob>,
    /// The prompt's tokens, where their log-probabilities were asked for.
    prompt: Vec<u32>,
    prompt_logprobs: Option<Vec<Option<TokenLogprob>>>,
}

/// How an answer ended.
pub enum Ended {
    /// The last chunks of its stream.
    Streamed(Vec<Reply>),
    /// The choice, and the log-probabilities of the prompt if they were asked for.
    Whole(Choice, Option<Vec<Option<TokenLogprob>>>),
}

impl Answer {
    /// The answer to a request, which begins after `prompt`.
    pub fn new(
        conversation: RequestId,
        responder: Responder,
        request: &ChatRequest,
        tokenizer: Arc<Tokenizer>,
        prompt: &[u32],
    ) -> Answer {
        Answer {
            conversation,
            responder,
            stream: request.stream,
            detokenizer: Detokenizer::new(tokenizer.clone()),
            tokenizer,
            stops: StopFilter::new(request.stop.clone()),
            tells: request.sampling.logprobs.is_some(),
            aligned: Aligned::default(),
            text: String::new(),
            told: Vec::new(),
            prompt: if request.prompt_logprobs.is_some() { prompt.to_vec() } else { Vec::new() },
            prompt_logprobs: None,
        }
    }

    /// What there is to tell before the first token.
    pub fn start(&self) -> Option<Reply> {
        self.stream.then(|| Reply::plain(self.responder.start()))
    }

    /// Takes in how likely the prompt's tokens were, from the second on.
    pub fn prompt_logprobs(&mut self, logprobs: &[Logprobs]) -> Result<()> {
        let tokens = self.prompt.iter().skip(1).zip(logprobs);
        let told = tokens.map(|(token, logprobs)| self.describe(*token, logprobs).map(Some));
        self.prompt_logprobs = Some([Ok(None)].into_iter().chain(told).collect::<Result<_>>()?);
        Ok(())
    }

    /// Takes in the next token and returns what there is to tell.
    pub fn token(&mut self, token: u32, logprobs: Option<&Logprobs>) -> Result<Option<Reply>> {
        let text = self.detokenizer.push(token)?;
        if let Some(logprobs) = logprobs {
            let described = self.describe(token, logprobs)?;
            self.aligned.push(text.len(), described);
        }
        let text = self.stops.push(&text);
        if text.is_empty() {
            return Ok(None);
        }
        let mut told = self.aligned.release(text.len());
        if self.stopped() {
            told.extend(self.aligned.finish(true));
        }
        if self.stream {
            let logprobs = choice_logprobs(self.tells, told);
            return Ok(Some(Reply::plain(self.responder.delta(text, logprobs))));
        }
        self.text.push_str(&text);
        self.told.extend(told);
        Ok(None)
    }

    /// Whether a stop string has ended the text.
    pub fn stopped(&self) -> bool {
        self.stops.stopped()
    }

    /// What there is to tell at the end, given the stop token that ended the answer, if one did: the
    /// last chunks of a stream, or the choice.
    pub fn finish(self, reason: FinishReason, stop: Option<u32>) -> Ended {
        // The token that completed a stop string may also have been the last one allowed.
        let reason = if self.stopped() { FinishReason::Stop } else { reason };
        let Answer { responder, stream, detokenizer, mut stops, tells, mut aligned, .. } = self;
        let mut rest = stops.push(&detokenizer.finish());
        let stopped = stops.stopped();
        rest += &stops.finish();
        let mut told = aligned.release(rest.len());
        told.extend(aligned.finish(stopped));
        if !stream {
            let told = self.told.into_iter().chain(told).collect();
            let choice = Choice {
                index: responder.index,
                logprobs: choice_logprobs(tells, told),
                stop_reason: stop,
                ..Choice::new(self.text + &rest, reason)
            };
            return Ended::Whole(choice, self.prompt_logprobs);
        }
        let last = !rest.is_empty() || !told.is_empty();
        let last = last.then(|| Reply::plain(responder.delta(rest, choice_logprobs(tells, told))));
        let finish = Reply::plain(responder.finish(reason, stop));
        Ended::Streamed(last.into_iter().chain([finish]).collect())
    }

    fn describe(&self, token: u32, logprobs: &Logprobs) -> Result<TokenLogprob> {
        let spelled = |token, logprob| Ok(TopLogprob::new(self.tokenizer.spell(token)?, logprob));
        let top = logprobs.top.iter().map(|(token, logprob)| spelled(*token, *logprob));
        Ok(TokenLogprob {
            chosen: spelled(token, logprobs.chosen)?,
            top_logprobs: top.collect::<Result<_>>()?,
        })
    }
}

fn choice_logprobs(tells: bool, content: Vec<TokenLogprob>) -> Option<ChoiceLogprobs> {
    tells.then_some(ChoiceLogprobs { content, refusal: () })
}
