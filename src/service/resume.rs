//! Streams that go on where another service left off.

use serde::Deserialize;

use super::request::{Asked, check_ids};
use crate::{
    Error, Result,
    api::ChatRequest,
    engine::{Engine, Request, RequestId},
    step::{Capacity, Executor},
};

/// How far an answer had come whose stream was cut off.
///
/// Every chunk brings the tokens whose text it tells, so the tokens received say what was told; those
/// whose text was still held back are drawn again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumed {
    /// The tokens that its chunks brought, in order.
    pub tokens: Vec<u32>,
    /// Whether it had any chunk.
    pub started: bool,
    /// What its last chunk said of its tokens, if it came to an end.
    pub ended: Option<usize>,
}

/// Checks that the answers to a request, of which the engine is asked `asked`, may have come so far.
pub fn check(
    resume: &[Resumed],
    request: &ChatRequest,
    asked: &[Asked],
    capacity: &Capacity,
) -> Result<()> {
    let refuse = |message: String| Err(Error::InvalidRequest { param: "resume".into(), message });
    if resume.is_empty() {
        return Ok(());
    }
    if !request.stream {
        return refuse("found answers to go on with, expected none unless stream is true".into());
    }
    let (answers, n) = (resume.len(), asked.len() * request.n);
    if answers != n {
        return refuse(format!("found {answers} answers, expected {n}"));
    }
    let prompts =
        asked.iter().flat_map(|asked| std::iter::repeat_n(&asked.request.prompt, request.n));
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

/// Asks for what is left of answers that differ in their seeds: seed, seed + 1, …
///
/// # Errors
/// As for [`Engine::submit`], for all of them or none.
pub fn submit<E: Executor>(
    engine: &mut Engine<E>,
    asked: &Request,
    resume: &[Resumed],
) -> Result<Vec<RequestId>> {
    let mut ids = Vec::new();
    for (i, resumed) in (0..).zip(resume) {
        let mut rest = Request { answered: resumed.tokens.clone(), ..asked.clone() };
        rest.sampling.seed = asked.sampling.seed.wrapping_add(i);
        if !rest.answered.is_empty() {
            // Told before.
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
