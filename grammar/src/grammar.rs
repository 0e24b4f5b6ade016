//! The state of a constraint for one answer.

use std::{fmt, sync::Arc};

use llguidance::{JsonCompileOptions, Matcher, TokenParser, api::TopLevelGrammar};
use serde_json::{Value, json};

use crate::{Error, Form, Result, Vocabulary, adapt::adapt, number::Place, schema::inside};

/// White space between the parts of a JSON text: one blank, as most texts have it that models are trained
/// on. A weak model spends its tokens on any further ones.
const WHITE_SPACE: &str = r"\x20";

/// Letters of the allowed escapes in strings. `\u` is not allowed: it would give property names further
/// spellings, which the compiler takes for other names.
const ESCAPES: &str = "nrbtf\\\"";

/// Most tokens in a row without a mask. Masks renew the compiler's budget, without which it takes allowed
/// tokens for wrong ones.
const MOST_WITHOUT_MASK: usize = 8;

/// Enough for the deepest form that passes the checks.
#[cfg(not(target_arch = "wasm32"))]
const STACK_BYTES: usize = 64 << 20;

/// A compiled form, and its state for one answer.
pub struct Grammar {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    /// Characters that may still be stripped from the start of the answer.
    strip: usize,
    /// Number of tokens so far that were stripped at the start; the matcher has seen the others.
    stripped: usize,
    matched: usize,
    /// Where an answer in JSON stands: first before its tokens, then behind each.
    places: Option<Vec<Place>>,
    /// Number of tokens since the last mask.
    unmasked: usize,
}

impl Grammar {
    /// Compiles a form, for the start of an answer.
    ///
    /// # Errors
    /// The form is invalid, too large or too complex.
    pub fn compile(vocabulary: &Arc<Vocabulary>, form: &Form) -> Result<Grammar> {
        form.check()?;
        let parser = parse(vocabulary, form).map_err(refused)?;
        let strip = vocabulary.strip.as_ref().map_or(0, |strip| strip.count);
        let matcher = Matcher::new(Ok(parser));
        let vocabulary = vocabulary.clone();
        let places = form.is_json().then(|| vec![Place::default()]);
        let mut grammar =
            Grammar { vocabulary, matcher, strip, stripped: 0, matched: 0, places, unmasked: 0 };
        if let Form::After(text, _) = form {
            grammar.begin(text)?;
        }
        // Report a form that allows no token at all before the answer starts.
        grammar.mask()?;
        Ok(grammar)
    }

    /// Takes in the text that stands before the answer, in any tokens; it is never taken back.
    fn begin(&mut self, text: &str) -> Result<()> {
        let refused = |reason: String| {
            let expected = "the beginning of a text of this form";
            Error::found(format!("{text:?} before the answer ({reason})"), expected)
        };
        let trie = self.vocabulary.factory.tok_env().tok_trie();
        let tokens = trie.greedy_tokenize(text.as_bytes());
        if trie.decode(&tokens) != text.as_bytes() {
            return Err(refused("the vocabulary cannot spell it".into()));
        }
        if !text.is_empty() {
            self.strip = 0;
        }
        for token in tokens {
            self.accept(token).map_err(|error| refused(error.message))?;
        }
        self.matched = 0;
        if let Some(places) = &mut self.places {
            places.drain(..places.len() - 1);
        }
        Ok(())
    }

    /// The tokens that may come next: token t is bit t mod 32 of word t / 32. End tokens are included if
    /// the answer may end.
    ///
    /// # Errors
    /// No token of the vocabulary continues the answer, or the computation exceeded its limits.
    pub fn mask(&mut self) -> Result<Vec<u32>> {
        let allowed = self.matcher.compute_mask_or_eos().map_err(failed)?;
        self.unmasked = 0;
        let size = self.vocabulary.size;
        let mut mask = allowed.as_slice().to_vec();
        mask.resize(size.div_ceil(32), 0);
        if let (Some(last), 1..) = (mask.last_mut(), size % 32) {
            *last &= (1 << (size % 32)) - 1;
        }
        if self.strips()
            && let Some(strip) = &self.vocabulary.strip
        {
            strip.longer.iter().for_each(|&id| mask[id as usize / 32] &= !(1 << (id % 32)));
            strip.alone.iter().for_each(|&id| mask[id as usize / 32] |= 1 << (id % 32));
        }
        if mask.iter().all(|&word| word == 0) {
            return Err(failed("no token continues it"));
        }
        if self.ends_digits() {
            let mut others = mask.clone();
            let digits = &self.vocabulary.digits;
            digits.iter().for_each(|&id| others[id as usize / 32] &= !(1 << (id % 32)));
            // Where the form asks for more digits, there are more.
            if others.iter().any(|&word| word != 0) {
                return Ok(others);
            }
        }
        Ok(mask)
    }

    /// Advances by a sampled token.
    ///
    /// # Errors
    /// The token was not allowed.
    pub fn accept(&mut self, token: u32) -> Result<()> {
        if let Some(strip) = self.vocabulary.strip.as_ref().filter(|_| self.strips()) {
            if strip.alone.binary_search(&token).is_ok() {
                self.stripped += 1;
                return Ok(());
            }
            if strip.longer.binary_search(&token).is_ok() {
                return Err(failed("its beginning is not kept"));
            }
        }
        if self.ends_digits() && self.vocabulary.digits.binary_search(&token).is_ok() {
            let mask = self.mask()?;
            if mask[token as usize / 32] & (1 << (token % 32)) == 0 {
                return Err(failed("its number is too long"));
            }
        }
        if self.unmasked == MOST_WITHOUT_MASK {
            self.mask()?;
        }
        self.matcher.consume_token(token).map_err(failed)?;
        self.unmasked += 1;
        self.matched += 1;
        if let Some(places) = &mut self.places {
            let trie = self.vocabulary.factory.tok_env().tok_trie();
            let place = places[places.len() - 1];
            places.push(place.after(trie.token(token)));
        }
        Ok(())
    }

    /// Removes the last `count` tokens; all, if there are fewer.
    ///
    /// # Errors
    /// The answer had failed before.
    pub fn rollback(&mut self, count: usize) -> Result<()> {
        let matched = count.min(self.matched);
        self.matcher.rollback(matched).map_err(failed)?;
        self.matched -= matched;
        if let Some(places) = &mut self.places {
            places.truncate(self.matched + 1);
        }
        self.stripped -= (count - matched).min(self.stripped);
        Ok(())
    }

    /// Whether a number must end here, if the form allows it.
    fn ends_digits(&self) -> bool {
        let place = self.places.as_ref().and_then(|places| places.last());
        place.is_some_and(|place| place.ends_digits())
    }

    /// Whether the next token may be stripped.
    fn strips(&self) -> bool {
        self.matched == 0 && self.stripped < self.strip
    }

    /// Whether the answer is complete and nothing can follow.
    pub fn is_complete(&self) -> bool {
        self.matcher.is_stopped()
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.debug_struct("Grammar").field("complete", &self.is_complete()).finish_non_exhaustive()
    }
}

/// An error of the compiler, reworded for the author of the form.
fn refused(error: impl fmt::Display) -> Error {
    let message = format!("{error:#}");
    match message.contains("oneOf constraints") {
        true => Error::found("oneOf", "alternatives told apart by type or by a required constant"),
        false => Error::new(message),
    }
}

fn failed(error: impl fmt::Display) -> Error {
    let message = error.to_string();
    let reason = message.lines().next().unwrap_or_default();
    Error::new(format!("the answer cannot go on: {reason}"))
}

/// Compiles on a separate stack: compiler and parser recurse, and threads' stacks differ in size.
#[cfg(not(target_arch = "wasm32"))]
fn parse(vocabulary: &Vocabulary, form: &Form) -> anyhow::Result<TokenParser> {
    let parse = || vocabulary.factory.create_parser(source(form));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let parser = thread.spawn_scoped(scope, parse)?.join();
        parser.unwrap_or_else(|_| Err(anyhow::anyhow!("the compiler broke down")))
    })
}

/// The size of the module's stack is set at build time; a form that exceeds it traps the module.
#[cfg(target_arch = "wasm32")]
fn parse(vocabulary: &Vocabulary, form: &Form) -> anyhow::Result<TokenParser> {
    vocabulary.factory.create_parser(source(form))
}

/// A form as input for llguidance.
fn source(form: &Form) -> TopLevelGrammar {
    match form {
        Form::JsonObject => json_source(json!({ "type": "object" })),
        Form::JsonSchema(Value::Object(schema)) => json_source(Value::Object(schema.clone())),
        Form::JsonSchema(_) => json_source(json!({})),
        Form::Regex(regex) => TopLevelGrammar::from_regex(regex),
        Form::Grammar(grammar) => TopLevelGrammar::from_lark(with_adapted_schemas(grammar)),
        Form::Choice(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| regex_syntax::escape(text)).collect();
            TopLevelGrammar::from_regex(&format!("({})", texts.join("|")))
        }
        Form::After(_, whole) => source(whole),
    }
}

fn json_source(mut schema: Value) -> TopLevelGrammar {
    adapt(&mut schema);
    let compact = schema["x-guidance"]["whitespace_flexible"] == false;
    let options = JsonCompileOptions {
        whitespace_pattern: (!compact).then(|| WHITE_SPACE.into()),
        whitespace_flexible: !compact,
        json_allowed_escapes: Some(ESCAPES.into()),
        ..JsonCompileOptions::default()
    };
    options.apply_to(&mut schema);
    TopLevelGrammar::from_json_schema(schema)
}

/// Rewrites the schemas inside a grammar; they keep their options.
fn with_adapted_schemas(grammar: &str) -> String {
    let mut adapted = String::new();
    let mut done = 0;
    for (at, mut schema) in inside(grammar) {
        adapt(&mut schema);
        if let Value::Object(schema) = &mut schema {
            let options = schema.entry("x-guidance").or_insert_with(|| json!({}));
            if let Value::Object(options) = options {
                options.insert("json_allowed_escapes".into(), ESCAPES.into());
            }
        }
        adapted.extend([&grammar[done..at.start], &format!(" {schema}")]);
        done = at.end;
    }
    adapted + &grammar[done..]
}
