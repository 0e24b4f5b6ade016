//! Resumes streams that another service began.

use serde::Deserialize;

use super::request::{Prepared, check_ids};
use crate::{
    Error, Result,
    api::ChatRequest,
    engine::{Engine, Request, RequestId},
    step::{Capacity, Executor},
};

/// The progress of an answer whose stream was interrupted.
///
/// Every chunk carries the tokens of its text, so the received tokens say which text was sent. Tokens
/// whose text was still held back are sampled again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumed {
    /// The tokens of its chunks, in order.
    pub tokens: Vec<u32>,
    /// Whether any chunk was received.
    pub started: bool,
    /// The token count in its last chunk, if the answer ended.
    pub ended: Option<usize>,
}

/// Checks that `resume` fits the request and its engine requests `prepared`.
pub fn check(
    resume: &[Resumed],
    request: &ChatRequest,
    prepared: &[Prepared],
    capacity: &Capacity,
) -> Result<()> {
    let refuse = |message: String| Err(Error::InvalidRequest { param: "resume".into(), message });
    if resume.is_empty() {
        return Ok(());
    }
    if !request.stream {
        return refuse("found answers to resume, expected none unless stream is true".into());
    }
    let (answers, n) = (resume.len(), prepared.len() * request.n);
    if answers != n {
        return refuse(format!("found {answers} answers, expected {n}"));
    }
    let prompts =
        prepared.iter().flat_map(|one| std::iter::repeat_n(&one.request.prompt, request.n));
    for (prompt, Resumed { tokens, ended, .. }) in prompts.zip(resume) {
        let most = capacity.longest().saturating_sub(prompt.len());
        let count = tokens.len().max(ended.unwrap_or(0));
        if count > most {
            return refuse(format!("found {count} tokens, expected at most {most}"));
        }
        check_ids("resume", tokens, capacity.vocab)?;
    }
    Ok(())
}

/// Submits the rest of answers that differ in their seeds: seed, seed + 1, …
///
/// # Errors
/// As for [`Engine::submit`], for all of them or none.
pub fn submit<E: Executor>(
    engine: &mut Engine<E>,
    prepared: &Request,
    resume: &[Resumed],
) -> Result<Vec<RequestId>> {
    let mut ids = Vec::new();
    for (i, resumed) in (0..).zip(resume) {
        let mut rest = Request { answered: resumed.tokens.clone(), ..prepared.clone() };
        rest.sampling.seed = prepared.sampling.seed.wrapping_add(i);
        if !rest.answered.is_empty() {
            // They were sent before the first token.
            rest.prompt_logprobs = None;
        }
        match engine.submit(rest) {
            Ok(id) => ids.push(id),
            Err(error) => {
                ids.into_iter().for_each(|id| engine.cancel(id));
                return Err(error);
            }
        }
    }
    Ok(ids)
}
