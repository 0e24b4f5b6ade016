//! Requests, their events and their results.

use super::Repetition;
use crate::{
    Error, Result,
    sampling::ThinkingBudget,
    step::{Capacity, Logprobs, MAX_LOGPROB_TOKENS, MAX_LOGPROBS, Pooling, Sampling},
};

/// What a caller asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The tokens to continue, at least one.
    pub prompt: Vec<u32>,
    /// The first tokens of the answer, if another engine has generated them. The answer continues after
    /// them as if they had been sampled here; they raise no events.
    pub answered: Vec<u32>,
    pub goal: Goal,
    pub sampling: Sampling,
    /// Tokens whose log-probabilities are returned too, wherever log-probabilities are.
    pub logprob_tokens: Vec<u32>,
    /// Tokens that end the answer without being part of it. Empty: none does.
    pub end_tokens: Vec<u32>,
    /// Further such tokens; the finish reason names the one that ended the answer.
    pub stop_tokens: Vec<u32>,
    /// None of the above can be sampled before the answer has this many tokens.
    pub min_tokens: usize,
    /// Most tokens to generate, at least 1. None: as many as the context holds.
    pub max_tokens: Option<usize>,
    /// Ends a repetitive answer, once it has `min_tokens`.
    pub repetition: Option<Repetition>,
    /// (token, value added to its logit)
    pub logit_bias: Vec<(u32, f32)>,
    /// The only tokens that may be sampled, if given.
    pub allowed_tokens: Option<Vec<u32>>,
    /// Token sequences that may not appear in the answer.
    pub bad_words: Vec<Vec<u32>>,
    /// Limits the thinking part of the answer.
    pub thinking: Option<ThinkingBudget>,
    /// No token is sampled before `Engine::constrain` has set the request's constraint.
    pub constrained: bool,
    /// Whether speculative decoding may be used.
    pub speculates: bool,
    /// Asks for the log-probability of each prompt token but the first, and of this many of the most
    /// likely tokens in its place.
    pub prompt_logprobs: Option<u32>,
    /// Who asks. Tabs share the engine fairly.
    pub tab: TabId,
    /// Under the priority policy, lower values are served first.
    pub priority: i32,
    /// Requests share cached prefixes only with requests of the same salt.
    pub salt: u64,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            prompt: Vec::new(),
            answered: Vec::new(),
            goal: Goal::Generate,
            sampling: Sampling::GREEDY,
            logprob_tokens: Vec::new(),
            end_tokens: Vec::new(),
            stop_tokens: Vec::new(),
            min_tokens: 0,
            max_tokens: None,
            repetition: None,
            logit_bias: Vec::new(),
            allowed_tokens: None,
            bad_words: Vec::new(),
            thinking: None,
            constrained: false,
            speculates: true,
            prompt_logprobs: None,
            tab: TabId::default(),
            priority: 0,
            salt: 0,
        }
    }
}

impl Request {
    /// Checks that an executor of this capacity can serve the request.
    pub(super) fn check(&self, capacity: &Capacity) -> Result<()> {
        let refuse = |param: &str, message: String| {
            Err(Error::InvalidRequest { param: param.into(), message })
        };
        let (limit, vocab) = (capacity.longest(), capacity.vocab);
        let prompt = &self.prompt;
        if prompt.is_empty() {
            return refuse("prompt", "is empty; it needs at least one token".into());
        }
        let generates_only = self.goal == Goal::Generate && self.prompt_logprobs.is_none();
        if !self.answered.is_empty() && !generates_only {
            return refuse("answered", "goes with neither embeddings nor prompt_logprobs".into());
        }
        let thinking = self.thinking.as_ref().map(|thinking| &thinking.end);
        let named: [(&str, &mut dyn Iterator<Item = &u32>); 9] = [
            ("prompt", &mut prompt.iter()),
            ("answered", &mut self.answered.iter()),
            ("end_tokens", &mut self.end_tokens.iter()),
            ("stop_token_ids", &mut self.stop_tokens.iter()),
            ("logit_bias", &mut self.logit_bias.iter().map(|(token, _)| token)),
            ("allowed_token_ids", &mut self.allowed_tokens.iter().flatten()),
            ("bad_words", &mut self.bad_words.iter().flatten()),
            ("logprob_token_ids", &mut self.logprob_tokens.iter()),
            ("thinking_token_budget", &mut thinking.into_iter()),
        ];
        for (param, tokens) in named {
            for token in tokens {
                if *token as usize >= vocab {
                    let message = format!(
                        "found token {token}, for which the model has no embedding, expected ids \
                         below {vocab}"
                    );
                    return refuse(param, message);
                }
            }
        }
        let logprobs =
            [("logprobs", self.sampling.logprobs), ("prompt_logprobs", self.prompt_logprobs)];
        for (param, top) in logprobs {
            if let Some(top) = top.filter(|top| *top > MAX_LOGPROBS) {
                return refuse(param, format!("is {top}; it must be at most {MAX_LOGPROBS}"));
            }
        }
        let named = self.logprob_tokens.len();
        if named > MAX_LOGPROB_TOKENS {
            let message = format!("has {named} ids; it must have at most {MAX_LOGPROB_TOKENS}");
            return refuse("logprob_token_ids", message);
        }
        if self.max_tokens == Some(0) {
            return refuse("max_tokens", "is 0; it must be at least 1".into());
        }
        if let Some(max) = self.max_tokens.filter(|max| *max < self.min_tokens) {
            let min = self.min_tokens;
            return refuse("min_tokens", format!("is {min}; it must be at most max_tokens, {max}"));
        }
        if prompt.len() >= limit {
            let (param, prompt) = ("prompt".into(), prompt.len());
            return Err(Error::ContextLengthExceeded { param, prompt, limit });
        }
        Ok(())
    }
}

/// What is computed from a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Tokens that continue it.
    Generate,
    /// One vector for all of it.
    Embed(Pooling),
}

/// One of those who share the engine: a tab of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TabId(pub u64);

/// A request; unique for the lifetime of its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A pinned prefix of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PinId(pub u64);

/// Something that happened to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The next token of the answer; `drafted` if it is an accepted draft.
    Token { id: RequestId, token: u32, logprobs: Option<Logprobs>, drafted: bool },
    /// The log-probabilities of the prompt's tokens from the second on, before any token of the answer.
    PromptLogprobs { id: RequestId, logprobs: Vec<Logprobs> },
    /// The embedding of a prompt, of L2 norm 1.
    Embedding { id: RequestId, vector: Vec<f32> },
    /// The last event of a request.
    Finished { id: RequestId, reason: FinishReason, usage: Usage },
}

impl Event {
    /// The request it happened to.
    pub fn id(&self) -> RequestId {
        let (Event::Token { id, .. }
        | Event::PromptLogprobs { id, .. }
        | Event::Embedding { id, .. }
        | Event::Finished { id, .. }) = self;
        *id
    }
}

/// A sequence that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub tokens: Vec<u32>,
    /// Whether its logits were finite: else its keys and values, and where they came from, may be wrong.
    pub is_sound: bool,
}

/// Why a request ended.
#[derive(Clone, Debug, PartialEq)]
pub enum FinishReason {
    /// The model produced an end token, or the caller called the answer complete.
    Stop,
    /// The model produced this one of the request's stop tokens.
    StopToken(u32),
    /// The token limit or the context length is reached.
    Length,
    /// The answer repeats a pattern.
    Repetition,
    /// The caller cancelled it.
    Cancelled,
    Error(Error),
}

/// Token counts of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: usize,
    /// Prompt tokens whose keys and values were found in the cache.
    pub cached_tokens: usize,
    /// Generated tokens, here or before, including the end token.
    pub completion_tokens: usize,
    /// Draft tokens that became part of the answer, and those that did not.
    pub accepted_tokens: usize,
    pub rejected_tokens: usize,
}
