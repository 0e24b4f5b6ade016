//! The WebAssembly module of constrained answers in the npm package `tabloom`.
//!
//! It is a module of its own for two reasons: few pages ask for it, and what a hostile schema does
//! to it (a trap, memory that cannot be had) does not touch the engine.
#![cfg(target_arch = "wasm32")]

use std::sync::Arc;

use tabloom_grammar::{Form, Grammar, Strip, Vocabulary};
use wasm_bindgen::prelude::*;

/// The vocabulary of one model.
#[wasm_bindgen]
pub struct Grammars(Arc<Vocabulary>);

/// What may come next in one answer.
#[wasm_bindgen]
pub struct Constraint(Grammar);

#[wasm_bindgen]
impl Grammars {
    /// Takes the bytes of all tokens in a row, the length of each, the tokens that end an answer,
    /// and which character the beginning of an answer loses, how often at most.
    #[wasm_bindgen(constructor)]
    pub fn new(
        bytes: &[u8],
        lengths: &[u32],
        end_ids: &[u32],
        strip: Option<char>,
        strip_count: u32,
    ) -> Result<Grammars, JsError> {
        let mut rest = bytes;
        let mut tokens = Vec::with_capacity(lengths.len());
        for &length in lengths {
            let (token, behind) = rest
                .split_at_checked(length as usize)
                .ok_or_else(|| JsError::new("the tokens are longer than their bytes"))?;
            tokens.push(token.to_vec());
            rest = behind;
        }
        let strip = strip.map(|content| Strip { content, count: strip_count as usize });
        Ok(Grammars(Arc::new(Vocabulary::new(tokens, end_ids, strip)?)))
    }

    /// Compiles a form, given as JSON; what is refused is thrown as `[path, message]`.
    pub fn compile(&self, form: &str) -> Result<Constraint, JsValue> {
        let form: Form = serde_json::from_str(form).map_err(JsError::from)?;
        Ok(Constraint(Grammar::compile(&self.0, &form).map_err(refusal)?))
    }
}

#[wasm_bindgen]
impl Constraint {
    /// The tokens that may come next, one bit per token.
    pub fn mask(&mut self) -> Result<Vec<u32>, JsValue> {
        self.0.mask().map_err(refusal)
    }

    /// Takes in the token that was sampled.
    pub fn accept(&mut self, token: u32) -> Result<(), JsValue> {
        self.0.accept(token).map_err(refusal)
    }

    /// Takes back the last tokens.
    pub fn rollback(&mut self, count: u32) -> Result<(), JsValue> {
        self.0.rollback(count as usize).map_err(refusal)
    }

    /// Whether the answer is complete and nothing can follow.
    #[wasm_bindgen(js_name = isComplete)]
    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }
}

fn refusal(error: tabloom_grammar::Error) -> JsValue {
    vec![JsValue::from(error.path), JsValue::from(error.message)].into()
}
