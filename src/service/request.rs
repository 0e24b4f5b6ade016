//! Converts a chat request into an engine request.

use crate::{
    Error, Result,
    api::{ChatRequest, Form, RepetitionLimit, Spec, TokenRules, Tools, invalid},
    engine::{Repetition, Request, TabId, ThinkingBudget},
    text::{Chat, Dialect, Prompt, Reading, Tokenizer, tool_form},
};

/// Time, randomness and origin of a request: the core has no clock and no random generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970.
    pub now: u64,
    /// Makes up the request's id, and its seed if it has none.
    pub entropy: u64,
    /// The tab that sent the request. Tabs share the engine fairly.
    pub tab: TabId,
    /// Only requests with the same salt share cached prefixes.
    pub salt: u64,
}

/// A request and the tokens of its prompts.
#[derive(Debug)]
pub struct Prompted<R, P = Vec<Vec<u32>>> {
    pub request: R,
    pub(super) prompt: P,
}

/// An engine request, the constraint on its answers, and how to parse them.
pub struct Prepared {
    pub request: Request,
    pub constraint: Option<Spec>,
    pub reading: Reading,
}

/// The engine request for this prompt; `vocab` is the size of the model's vocabulary.
///
/// # Errors
/// [`Error::InvalidRequest`] for token ids beyond the vocabulary.
pub fn engine_request(
    request: &ChatRequest,
    prompt: Prompt,
    chat: &Chat,
    vocab: usize,
    moment: Moment,
) -> Result<Prepared> {
    let ChatRequest { sampling, tokens, conversation, .. } = request;
    let TokenRules { allowed, bad_words, stop, ignore_eos, min_tokens, thinking, repetition } =
        tokens;
    let biased: Vec<u32> = sampling.logit_bias.iter().map(|(id, _)| *id).collect();
    for (param, ids) in [
        ("logit_bias", &biased[..]),
        ("allowed_token_ids", allowed.as_deref().unwrap_or(&[])),
        ("stop_token_ids", stop),
        ("logprob_token_ids", &sampling.logprob_tokens),
    ] {
        check_ids(param, ids, vocab)?;
    }
    let defaults = chat.defaults();
    // Files may name tokens that the model has no embedding for, and so never samples.
    let mut end_tokens = defaults.eos_ids.clone();
    end_tokens.retain(|id| (*id as usize) < vocab);
    let Prompt { mut ids, mut reading, form } = prompt;
    let constraint = match (&request.constraint, form) {
        (Some(constraint), _) => {
            // A constrained answer has no reasoning and no tool calls.
            if reading.dialect == Some(Dialect::Harmony) && !reading.continues {
                ids.extend(chat.tokenizer().encode_prompt("<|channel|>final<|message|>")?);
            }
            reading = Reading { continues: reading.continues, ..Reading::default() };
            Some(constraint.clone())
        }
        (None, Some(form)) => Some(calls(form, &conversation.tools, &reading)?),
        (None, None) => None,
    };
    let request = Request {
        prompt: ids,
        sampling: defaults.sampling(sampling, moment.entropy),
        end_tokens: if *ignore_eos { Vec::new() } else { end_tokens },
        stop_tokens: stop.clone(),
        min_tokens: *min_tokens as usize,
        max_tokens: request.max_tokens.map(|max| max as usize),
        repetition: repetition.map(|RepetitionLimit { min_size, max_size, count }| Repetition {
            sizes: min_size as usize..=max_size as usize,
            count: count as usize,
        }),
        logit_bias: sampling.logit_bias.clone(),
        allowed_tokens: allowed.clone(),
        bad_words: spellings(chat.tokenizer(), bad_words)?,
        logprob_tokens: sampling.logprob_tokens.clone(),
        thinking: thinking.map(|budget| thinking_budget(chat.tokenizer(), budget)).transpose()?,
        prompt_logprobs: request.prompt_logprobs,
        constrained: constraint.is_some(),
        speculates: request.speculates,
        tab: moment.tab,
        salt: moment.salt,
        ..Default::default()
    };
    Ok(Prepared { request, constraint, reading })
}

/// The constraint on an answer that calls tools. Only strict tools must be held to their schemas.
fn calls(form: Form, tools: &Tools, reading: &Reading) -> Result<Spec> {
    let looser = tool_form(&tools.loosened(), reading).filter(|looser| *looser != form);
    match (Spec::new(form, "tools"), looser) {
        (Ok(spec), otherwise) => Ok(Spec { otherwise, ..spec }),
        (Err(_), Some(looser)) => Spec::new(looser, "tools"),
        (Err(error), None) => Err(error),
    }
}

/// Refuses token ids beyond the vocabulary.
pub fn check_ids(param: &str, ids: &[u32], vocab: usize) -> Result<()> {
    match ids.iter().find(|id| **id as usize >= vocab) {
        Some(id) => Err(invalid(param, format!("token id {id}"), &format!("ids below {vocab}"))),
        None => Ok(()),
    }
}

/// Renames the parameter in the engine's error about a prompt.
pub fn blame(param: &str, error: Error) -> Error {
    let param = param.to_owned();
    match error {
        Error::InvalidRequest { param: at, message } if at == "prompt" => {
            Error::InvalidRequest { param, message }
        }
        Error::ContextLengthExceeded { prompt, limit, .. } => {
            Error::ContextLengthExceeded { param, prompt, limit }
        }
        other => other,
    }
}

/// The parameter's name for prompt `i` of `count`.
pub fn name(param: &str, i: usize, count: usize) -> String {
    if count == 1 { param.into() } else { format!("{param}[{i}]") }
}

/// Tokens around the reasoning, in models that have it.
const THINKING: [&str; 2] = ["<think>", "</think>"];

fn thinking_budget(tokenizer: &Tokenizer, tokens: u32) -> Result<ThinkingBudget> {
    match THINKING.map(|token| tokenizer.token_id(token)) {
        [Some(begin), Some(end)] => Ok(ThinkingBudget { begin, end, tokens: tokens as usize }),
        _ => {
            let [begin, end] = THINKING;
            Err(Error::InvalidRequest {
                param: "thinking_token_budget".into(),
                message: format!(
                    "found {tokens}, but this model has no tokens {begin} and {end}; leave it out"
                ),
            })
        }
    }
}

/// The tokens of each text, with and without a leading space.
fn spellings(tokenizer: &Tokenizer, texts: &[String]) -> Result<Vec<Vec<u32>>> {
    let mut found = Vec::new();
    for text in texts {
        let other = match text.strip_prefix(' ') {
            Some(bare) => bare.to_owned(),
            None => format!(" {text}"),
        };
        for spelling in [text, &other] {
            let tokens = tokenizer.encode_plain(spelling, false)?;
            if !tokens.is_empty() && !found.contains(&tokens) {
                found.push(tokens);
            }
        }
    }
    Ok(found)
}
