//! A request as it is asked and answered.

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
    /// The first tokens of the answer, where another engine has made them. The answer goes on after
    /// them as if they had been drawn here, but they are not told again.
    pub answered: Vec<u32>,
    pub goal: Goal,
    pub sampling: Sampling,
    /// Tokens whose log-probabilities are told as well, where log-probabilities are.
    pub logprob_tokens: Vec<u32>,
    /// Tokens that end the answer without being part of it. Empty: none does.
    pub end_tokens: Vec<u32>,
    /// Further such tokens, which the caller is told if one ends the answer.
    pub stop_tokens: Vec<u32>,
    /// Before so many tokens, none of the above can be drawn.
    pub min_tokens: usize,
    /// The most tokens to generate, at least 1. None: as many as the context holds.
    pub max_tokens: Option<usize>,
    /// When the answer ends for going in circles, once it has the least number of tokens.
    pub repetition: Option<Repetition>,
    /// (token, what is added to its logit)
    pub logit_bias: Vec<(u32, f32)>,
    /// The only tokens that may be drawn, if given.
    pub allowed_tokens: Option<Vec<u32>>,
    /// Sequences of tokens that may not appear in the answer.
    pub bad_words: Vec<Vec<u32>>,
    /// How long the answer may think.
    pub thinking: Option<ThinkingBudget>,
    /// No token is drawn before `Engine::constrain` has brought the request's constraint.
    pub constrained: bool,
    /// Whether its tokens may be guessed before they are drawn.
    pub speculates: bool,
    /// Asks for the log-probability of each token of the prompt but the first, and of this many of
    /// the likeliest in its place.
    pub prompt_logprobs: Option<u32>,
    /// Who asks. Tabs share the engine fairly.
    pub tab: TabId,
    /// Under the priority policy lower values are served first.
    pub priority: i32,
    /// Requests share cached prefixes only with those of the same salt.
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
    /// Checks that a request can be served at all where an executor has this capacity.
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
                    let message = format!("has token {token}; ids must be below {vocab}");
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

/// What becomes of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Tokens that continue it.
    Generate,
    /// One vector for all of it.
    Embed(Pooling),
}

/// Names whoever shares the engine with others: a tab of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TabId(pub u64);

/// Names a request for as long as its engine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names a prefix that is kept in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PinId(pub u64);

/// Something that happened to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The next token of the answer; `drafted` if it was guessed before it was drawn.
    Token { id: RequestId, token: u32, logprobs: Option<Logprobs>, drafted: bool },
    /// The log-probabilities of the prompt's tokens from the second on, before any token of the answer.
    PromptLogprobs { id: RequestId, logprobs: Vec<Logprobs> },
    /// The embedding of a prompt, of length 1.
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

/// Why a request ended.
#[derive(Clone, Debug, PartialEq)]
pub enum FinishReason {
    /// The model produced an end token, or the caller called the answer complete.
    Stop,
    /// The model produced this one of the request's stop tokens.
    StopToken(u32),
    /// The token limit or the context length is reached.
    Length,
    /// The answer goes in circles.
    Repetition,
    /// The caller gave it up.
    Cancelled,
    Error(Error),
}

/// Tokens that a request cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: usize,
    /// Tokens of the prompt whose keys and values were found in the cache.
    pub cached_tokens: usize,
    /// Tokens generated, here or before, including the end token.
    pub completion_tokens: usize,
    /// Drafted tokens that became part of the answer, and those that did not.
    pub accepted_tokens: usize,
    pub rejected_tokens: usize,
}
