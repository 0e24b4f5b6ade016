//! Sampling parameters and their ranges.

use std::collections::BTreeMap;

use super::constraint::FormatKind;
use super::refusal::invalid;
use super::request::{ChatCompletionRequest, RepetitionDetection};
use crate::error::Result;
use crate::step::{MAX_BIAS, MAX_LOGPROB_TOKENS, MAX_LOGPROBS};

const MAX_BAD_WORDS: usize = 256;
const MAX_BAD_WORD_CHARS: usize = 256;
/// Longest pattern of `repetition_detection`, in tokens.
const MAX_PATTERN: u32 = 1024;

/// A request's sampling parameters; an absent one takes the model's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingParams {
    /// 0 ..= 2.
    pub temperature: Option<f32>,
    /// Above 0, at most 1.
    pub top_p: Option<f32>,
    /// 0 keeps all.
    pub top_k: Option<u32>,
    /// 0 ..= 1.
    pub min_p: Option<f32>,
    pub seed: Option<u64>,
    /// −2 ..= 2; 0 changes nothing.
    pub presence_penalty: f32,
    /// −2 ..= 2; 0 changes nothing.
    pub frequency_penalty: f32,
    /// Above 0; 1 changes nothing.
    pub repetition_penalty: Option<f32>,
    /// (token, −100 ..= 100), each token once, at most [`MAX_BIAS`].
    pub logit_bias: Vec<(u32, f32)>,
    /// How many top tokens to return with each token's log-probability; `None` returns no
    /// log-probabilities.
    pub logprobs: Option<u32>,
    /// Tokens whose log-probabilities are always returned, at most [`MAX_LOGPROB_TOKENS`].
    pub logprob_tokens: Vec<u32>,
}

/// A request's rules on the tokens of its answer. Token ids are not yet checked against the
/// vocabulary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenRules {
    /// The only tokens that may be sampled; not empty.
    pub allowed: Option<Vec<u32>>,
    /// Texts that must not appear; none is empty.
    pub bad_words: Vec<String>,
    /// Tokens that end the answer, in addition to the model's end-of-sequence tokens.
    pub stop: Vec<u32>,
    /// Whether the model's end-of-sequence tokens do not end the answer.
    pub ignore_eos: bool,
    /// Until the answer has this many tokens, stop and end-of-sequence tokens are masked.
    pub min_tokens: u32,
    /// After this many tokens of reasoning, the model is forced to end it.
    pub thinking: Option<u32>,
    /// When a repeated pattern ends the answer.
    pub repetition: Option<RepetitionLimit>,
}

/// An answer ends when a pattern of `min_size` to `max_size` tokens occurs `count` times in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepetitionLimit {
    /// At least 1.
    pub min_size: u32,
    /// At most [`MAX_PATTERN`].
    pub max_size: u32,
    /// At least 2.
    pub count: u32,
}

impl SamplingParams {
    /// Checks a request's fields.
    pub(super) fn read(request: &ChatCompletionRequest) -> Result<SamplingParams> {
        let penalty = |param, value| {
            let penalty = number(param, value, "-2 to 2", |p| (-2.0..=2.0).contains(&p))?;
            Ok(penalty.unwrap_or(0.0))
        };
        Ok(SamplingParams {
            temperature: number("temperature", request.temperature, "0 to 2", |t| {
                (0.0..=2.0).contains(&t)
            })?,
            top_p: number("top_p", request.top_p, "above 0, at most 1", |p| p > 0.0 && p <= 1.0)?,
            top_k: top_k(request.top_k)?,
            min_p: number("min_p", request.min_p, "0 to 1", |p| (0.0..=1.0).contains(&p))?,
            seed: request.seed.map(i64::cast_unsigned),
            presence_penalty: penalty("presence_penalty", request.presence_penalty)?,
            frequency_penalty: penalty("frequency_penalty", request.frequency_penalty)?,
            repetition_penalty: number(
                "repetition_penalty",
                request.repetition_penalty,
                "a number above 0",
                |p| p as f32 > 0.0 && (p as f32).is_finite(),
            )?,
            logit_bias: logit_bias(request.logit_bias.as_ref())?,
            logprobs: logprobs(request.logprobs, request.top_logprobs)?,
            logprob_tokens: logprob_tokens(request)?,
        })
    }
}

impl TokenRules {
    /// Checks a request's fields.
    pub(super) fn read(
        request: &ChatCompletionRequest,
        max_tokens: Option<u32>,
    ) -> Result<TokenRules> {
        let allowed = request.allowed_token_ids.as_deref();
        if allowed.is_some_and(<[i64]>::is_empty) {
            return Err(invalid("allowed_token_ids", "an empty list", "at least one id"));
        }
        let bad_words = request.bad_words.clone().unwrap_or_default();
        if bad_words.len() > MAX_BAD_WORDS {
            return Err(invalid("bad_words", format!("{} texts", bad_words.len()), "at most 256"));
        }
        for (i, word) in bad_words.iter().enumerate() {
            let chars = word.chars().count();
            if !(1..=MAX_BAD_WORD_CHARS).contains(&chars) {
                let param = format!("bad_words[{i}]");
                return Err(invalid(param, format!("{chars} characters"), "1 to 256"));
            }
        }
        let min_tokens = request.min_tokens.unwrap_or(0);
        let most = max_tokens.unwrap_or(u32::MAX);
        Ok(TokenRules {
            allowed: allowed.map(|ids| token_ids("allowed_token_ids", ids)).transpose()?,
            bad_words,
            stop: token_ids("stop_token_ids", request.stop_token_ids.as_deref().unwrap_or(&[]))?,
            ignore_eos: request.ignore_eos.unwrap_or(false),
            min_tokens: match u32::try_from(min_tokens) {
                Ok(least) if least <= most => least,
                _ => return Err(invalid("min_tokens", min_tokens, "0 to max_tokens")),
            },
            thinking: thinking(request)?,
            repetition: match &request.repetition_detection {
                Some(detection) => repetition_limit(detection)?,
                None => None,
            },
        })
    }
}

/// Checks `prompt_logprobs`, the number of top tokens per token of the prompt.
pub(super) fn prompt_logprobs(count: Option<i64>, stream: bool) -> Result<Option<u32>> {
    if stream && let Some(count) = count {
        return Err(invalid("prompt_logprobs", count, "none unless stream is false"));
    }
    count.map(|count| top_count("prompt_logprobs", count)).transpose()
}

fn logprobs(wanted: Option<bool>, top: Option<i64>) -> Result<Option<u32>> {
    match (wanted.unwrap_or(false), top) {
        // No top tokens beside no log-probabilities.
        (false, None | Some(0)) => Ok(None),
        (false, Some(top)) => Err(invalid("top_logprobs", top, "none unless logprobs is true")),
        (true, top) => top_count("top_logprobs", top.unwrap_or(0)).map(Some),
    }
}

fn logprob_tokens(request: &ChatCompletionRequest) -> Result<Vec<u32>> {
    const PARAM: &str = "logprob_token_ids";
    let ids = request.logprob_token_ids.as_deref().unwrap_or(&[]);
    if !ids.is_empty() && !request.logprobs.unwrap_or(false) {
        return Err(invalid(PARAM, "ids", "none unless logprobs is true"));
    }
    if ids.len() > MAX_LOGPROB_TOKENS {
        return Err(invalid(PARAM, format!("{} ids", ids.len()), "at most 128"));
    }
    token_ids(PARAM, ids)
}

/// Checks `thinking_token_budget`.
fn thinking(request: &ChatCompletionRequest) -> Result<Option<u32>> {
    const PARAM: &str = "thinking_token_budget";
    let Some(budget) = request.thinking_token_budget else { return Ok(None) };
    let format = request.response_format.as_ref().filter(|format| format.kind != FormatKind::Text);
    if format.is_some() || request.structured_outputs.is_some() {
        return Err(invalid(PARAM, budget, "none where the form of the answer is given"));
    }
    u32::try_from(budget).map(Some).map_err(|_| invalid(PARAM, budget, "0 or more"))
}

fn top_count(param: &str, count: i64) -> Result<u32> {
    match u32::try_from(count) {
        Ok(count) if count <= MAX_LOGPROBS => Ok(count),
        _ => Err(invalid(param, count, "0 to 20")),
    }
}

fn logit_bias(bias: Option<&BTreeMap<String, f64>>) -> Result<Vec<(u32, f32)>> {
    let Some(bias) = bias else { return Ok(Vec::new()) };
    if bias.len() > MAX_BIAS {
        return Err(invalid("logit_bias", format!("{} entries", bias.len()), "at most 1024"));
    }
    let entry = |(id, value): (&String, &f64)| {
        // Only the canonical spelling of an id (no `+1`, no `01`), so that none occurs twice.
        let token = id.parse::<u32>().ok().filter(|token| token.to_string() == *id);
        let token = token.ok_or_else(|| invalid("logit_bias", format!("{id:?}"), "token ids"))?;
        let value = number(&format!("logit_bias.{id}"), Some(*value), "-100 to 100", |value| {
            (-100.0..=100.0).contains(&value)
        })?;
        Ok((token, value.unwrap_or(0.0)))
    };
    bias.iter().map(entry).filter(|entry| !matches!(entry, Ok((_, 0.0)))).collect()
}

fn repetition_limit(detection: &RepetitionDetection) -> Result<Option<RepetitionLimit>> {
    let RepetitionDetection { max_pattern_size, min_pattern_size, min_count } = *detection;
    let within = |field, value, least: u32, most: u32| match u32::try_from(value) {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => {
            let param = format!("repetition_detection.{field}");
            Err(invalid(param, value, &format!("{least} to {most}")))
        }
    };
    let max_size = within("max_pattern_size", max_pattern_size, 0, MAX_PATTERN)?;
    if max_size == 0 {
        return Ok(None);
    }
    let min_size = within("min_pattern_size", min_pattern_size, 0, max_size)?.max(1);
    let count = within("min_count", min_count, 2, u32::MAX)?;
    Ok(Some(RepetitionLimit { min_size, max_size, count }))
}

pub(super) fn token_ids(param: &str, ids: &[i64]) -> Result<Vec<u32>> {
    let id = |(i, id): (usize, &i64)| {
        u32::try_from(*id).map_err(|_| invalid(format!("{param}[{i}]"), id, "a token id"))
    };
    ids.iter().enumerate().map(id).collect()
}

fn number(
    param: &str,
    value: Option<f64>,
    expected: &str,
    in_range: impl Fn(f64) -> bool,
) -> Result<Option<f32>> {
    match value {
        // NaN is outside every range.
        Some(value) if !in_range(value) => Err(invalid(param, format!("{value:?}"), expected)),
        value => Ok(value.map(|value| value as f32)),
    }
}

fn top_k(value: Option<i64>) -> Result<Option<u32>> {
    match value {
        Some(-1) => Ok(Some(0)),
        Some(k) => match u32::try_from(k) {
            Ok(k) => Ok(Some(k)),
            Err(_) => Err(invalid("top_k", k, "a count, or 0 or -1 for no limit")),
        },
        None => Ok(None),
    }
}
