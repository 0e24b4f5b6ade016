//! The answers to one request: they end one by one and share one usage and one end.

use super::{
    answer::{Ended, Last},
    reply::Reply,
};
use crate::{
    api::{self, Choice, CompletionTokensDetails, Responder, TokenLogprob},
    engine::{RequestId, Usage},
};

/// A request for one answer or several.
pub struct Conversation {
    answers: Vec<RequestId>,
    /// The first computed answer of each prompt: the usage counts the prompt with it.
    firsts: Vec<RequestId>,
    responder: Responder,
    ended: usize,
    prompt_tokens: usize,
    cached_tokens: usize,
    completion_tokens: usize,
    details: CompletionTokensDetails,
    /// If not streamed.
    choices: Vec<Choice>,
    prompt_logprobs: Option<Vec<Option<TokenLogprob>>>,
}

impl Conversation {
    /// A conversation of which no answer has ended.
    pub fn new(
        answers: Vec<RequestId>,
        firsts: Vec<RequestId>,
        responder: Responder,
    ) -> Conversation {
        Conversation {
            answers,
            firsts,
            responder,
            ended: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            completion_tokens: 0,
            details: CompletionTokensDetails::default(),
            choices: Vec::new(),
            prompt_logprobs: None,
        }
    }

    /// The engine's ids of the answers.
    pub fn answers(&self) -> &[RequestId] {
        &self.answers
    }

    /// The responder of the first answer.
    pub fn responder(&self) -> &Responder {
        &self.responder
    }

    /// Whether all answers have ended.
    pub fn is_over(&self) -> bool {
        self.ended == self.answers.len()
    }

    /// Takes the end of an answer and returns the replies.
    pub fn ended(&mut self, id: RequestId, ended: Ended, usage: Usage) -> Vec<Reply> {
        self.ended += 1;
        self.completion_tokens += usage.completion_tokens;
        self.details.accepted_prediction_tokens += usage.accepted_tokens as u32;
        self.details.rejected_prediction_tokens += usage.rejected_tokens as u32;
        self.details.reasoning_tokens += ended.reasoning_tokens as u32;
        if self.firsts.contains(&id) {
            self.prompt_tokens += usage.prompt_tokens;
            self.cached_tokens += usage.cached_tokens;
        }
        let counts = [self.prompt_tokens, self.cached_tokens, self.completion_tokens];
        let [prompt, cached, completion] = counts.map(|count| count as u32);
        let usage = api::Usage {
            completion_tokens_details: self.details,
            ..api::Usage::new(prompt, cached, completion)
        };
        match ended.last {
            Last::Streamed(last) => {
                let mut replies = Vec::from_iter(last);
                if self.is_over() {
                    replies.extend(self.responder.usage(usage).map(Reply::plain));
                    replies.push(Reply::End);
                }
                replies
            }
            Last::Whole(choice, prompt_logprobs) => {
                self.choices.push(choice);
                // All answers have the same prompt, so one entry is enough.
                self.prompt_logprobs = self.prompt_logprobs.take().or(prompt_logprobs);
                if !self.is_over() {
                    return Vec::new();
                }
                self.choices.sort_by_key(|choice| choice.index);
                let choices = std::mem::take(&mut self.choices);
                let whole = self.responder.complete(choices, self.prompt_logprobs.take(), usage);
                vec![Reply::Completion(whole)]
            }
        }
    }
}
