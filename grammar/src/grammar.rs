//! A constraint at work on one answer.

use std::{fmt, sync::Arc};

use llguidance::{JsonCompileOptions, Matcher, TokenParser, api::TopLevelGrammar};
use serde_json::{Value, json};

use crate::{Error, Form, Result, Vocabulary, adapt::adapt, schema::inside};

/// White space between the parts of a JSON text, bounded so that a weak model cannot go on with
/// nothing else.
const WHITE_SPACE: &str = r"[\x20\x0A\x0D\x09]{1,32}";

/// What may be escaped in a text, and by which letter. Never by number: names of properties would have
/// further spellings, which the compiler takes for other names.
const ESCAPES: &str = "nrbtf\\\"";

/// Enough for the deepest forms that are not refused at once.
#[cfg(not(target_arch = "wasm32"))]
const STACK_BYTES: usize = 64 << 20;

/// What may come next in one answer.
pub struct Grammar {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    /// Characters that the beginning of the answer may lose.
    strip: usize,
    /// Tokens so far: first those that the beginning lost, then those that the matcher has seen.
    lost: usize,
    matched: usize,
}

impl Grammar {
    /// Compiles a form, at the beginning of an answer.
    ///
    /// # Errors
    /// What the form gets wrong, or that it is too large or too complex.
    pub fn compile(vocabulary: &Arc<Vocabulary>, form: &Form) -> Result<Grammar> {
        form.check()?;
        let parser = parse(vocabulary, form).map_err(refused)?;
        let strip = vocabulary.strip.as_ref().map_or(0, |strip| strip.count);
        let matcher = Matcher::new(Ok(parser));
        let vocabulary = vocabulary.clone();
        let mut grammar = Grammar { vocabulary, matcher, strip, lost: 0, matched: 0 };
        // What allows nothing at all is told before the answer begins.
        grammar.mask()?;
        Ok(grammar)
    }

    /// The tokens that may come next: token t is bit t mod 32 of word t / 32. End tokens are among
    /// them where the answer may end.
    ///
    /// # Errors
    /// No token of the vocabulary continues the answer, or to find out took too long.
    pub fn mask(&mut self) -> Result<Vec<u32>> {
        let allowed = self.matcher.compute_mask_or_eos().map_err(failed)?;
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
        match mask.iter().all(|&word| word == 0) {
            true => Err(failed("no token continues it")),
            false => Ok(mask),
        }
    }

    /// Takes in the token that was drawn.
    ///
    /// # Errors
    /// The token was not allowed.
    pub fn accept(&mut self, token: u32) -> Result<()> {
        if let Some(strip) = self.vocabulary.strip.as_ref().filter(|_| self.strips()) {
            if strip.alone.binary_search(&token).is_ok() {
                self.lost += 1;
                return Ok(());
            }
            if strip.longer.binary_search(&token).is_ok() {
                return Err(failed("its beginning is not kept"));
            }
        }
        self.matcher.consume_token(token).map_err(failed)?;
        self.matched += 1;
        Ok(())
    }

    /// Takes back the last `count` tokens that it took in; all, if there were fewer.
    ///
    /// # Errors
    /// The answer had failed before.
    pub fn rollback(&mut self, count: usize) -> Result<()> {
        let matched = count.min(self.matched);
        self.matcher.rollback(matched).map_err(failed)?;
        self.matched -= matched;
        self.lost -= (count - matched).min(self.lost);
        Ok(())
    }

    /// Whether the next token may be lost.
    fn strips(&self) -> bool {
        self.matched == 0 && self.lost < self.strip
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

/// What the compiler says of a form, in terms of the form alone.
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

/// Compiles on a stack of its own: compilers and parsers recurse, and threads' stacks differ.
#[cfg(not(target_arch = "wasm32"))]
fn parse(vocabulary: &Vocabulary, form: &Form) -> anyhow::Result<TokenParser> {
    let parse = || vocabulary.factory.create_parser(source(form));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let parser = thread.spawn_scoped(scope, parse)?.join();
        parser.unwrap_or_else(|_| Err(anyhow::anyhow!("the compiler broke down")))
    })
}

/// The module's stack is as large as its build says, and a form that exceeds it ends the module.
#[cfg(target_arch = "wasm32")]
fn parse(vocabulary: &Vocabulary, form: &Form) -> anyhow::Result<TokenParser> {
    vocabulary.factory.create_parser(source(form))
}

/// A form in llguidance's terms.
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
    }
}

fn json_source(mut schema: Value) -> TopLevelGrammar {
    adapt(&mut schema);
    let options = JsonCompileOptions {
        whitespace_pattern: Some(WHITE_SPACE.into()),
        json_allowed_escapes: Some(ESCAPES.into()),
        ..JsonCompileOptions::default()
    };
    options.apply_to(&mut schema);
    TopLevelGrammar::from_json_schema(schema)
}

/// Schemas inside a grammar keep the options that they bring.
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
