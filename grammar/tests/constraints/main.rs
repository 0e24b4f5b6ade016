//! Constraints that the compiler takes, refuses, or survives.

mod hostile;
mod keywords;

use std::{sync::Arc, thread};

use serde_json::Value;
use tabloom_grammar::{Error, Form, Grammar, Result, Vocabulary};

const END: u32 = 256;
const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

/// Every byte, the end token, and some words.
fn vocabulary() -> Arc<Vocabulary> {
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let words = ["<end>", "aa", "aaaa", "a b", "{\"", "\":", "\"}", "true", "é", "\u{1F600}", ""];
    tokens.extend(words.map(|word| word.as_bytes().to_vec()));
    Arc::new(Vocabulary::new(tokens, &[END], None).unwrap())
}

fn allowed(grammar: &mut Grammar) -> Result<Vec<u32>> {
    let mask = grammar.mask()?;
    Ok((0..mask.len() as u32 * 32)
        .filter(|&t| mask[t as usize / 32] >> (t % 32) & 1 == 1)
        .collect())
}

/// Compiles a form and samples some tokens, on a small thread's stack.
fn follow(form: Form) -> Result<Vec<u32>> {
    let run = move || {
        let mut random = fastrand::Rng::new();
        let mut grammar = Grammar::compile(&vocabulary(), &form)?;
        let mut sampled = Vec::new();
        while sampled.len() < 40 && !grammar.is_complete() {
            let token = *random.choice(&allowed(&mut grammar)?).expect("something is allowed");
            grammar.accept(token)?;
            sampled.push(token);
        }
        Ok(sampled)
    };
    let result = thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
    if let Err(Error { message, .. }) = &result {
        assert!(!message.contains("panic"), "{message}");
    }
    result
}

fn schema(schema: Value) -> Result<Vec<u32>> {
    follow(Form::JsonSchema(schema))
}

fn refused(result: Result<Vec<u32>>, part: &str) {
    match result {
        Err(Error { path, message }) => {
            assert!(format!("{path}: {message}").contains(part), "{path}: {message}");
        }
        Ok(sampled) => panic!("expected a refusal for {part:?}, got {sampled:?}"),
    }
}

/// Whether the form allows exactly this text.
fn takes(form: &Form, text: &str) -> bool {
    let mut grammar = Grammar::compile(&vocabulary(), form).unwrap();
    text.bytes().all(|byte| !grammar.is_complete() && grammar.accept(byte.into()).is_ok())
        && (grammar.is_complete() || allowed(&mut grammar).is_ok_and(|all| all.contains(&END)))
}
