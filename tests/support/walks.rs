//! Random walks over the tokens that a form allows.
#![allow(dead_code)] // each test target uses its own part

use std::{fs, path::Path, sync::Arc};

use serde_json::Value;
use tabloom::{
    Error,
    api::{Form, Spec},
    sampling::{Constraint, Grammar, Tokens, Vocabulary},
    text::Tokenizer,
};

/// Byte-level and word-level tokenizers, with the tokens that end their answers.
const TOKENIZERS: [(&str, &str); 3] = [
    ("www/model", "<|im_end|>"),
    ("tests/goldens/tokenizer_bytes", "<|im_end|>"),
    ("tests/goldens/tokenizer_words", "</s>"),
];

/// After this many tokens, a walk prefers tokens that end the answer soon or spell words of its form.
const FREE_TOKENS: usize = 60;

/// Limit of answers.
const MAX_TOKENS: usize = 3000;

/// A tokenizer, and its tokens for constraints.
pub struct Model {
    pub name: &'static str,
    pub tokenizer: Arc<Tokenizer>,
    pub vocabulary: Vocabulary,
    pub size: usize,
    pub end: u32,
    /// Tokens that end something else.
    pub marks: Vec<u32>,
    pub spellings: Vec<Vec<u8>>,
}

impl Model {
    pub fn open(folder: &'static str, end: &str) -> Model {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("tokenizer.json");
        let tokenizer = Tokenizer::from_bytes(&fs::read(path).expect(folder)).expect(folder);
        Model::of(folder, &Arc::new(tokenizer), end)
    }

    pub fn of(name: &'static str, tokenizer: &Arc<Tokenizer>, end: &str) -> Model {
        // A model's embedding may have more rows than the tokenizer has tokens.
        let size = tokenizer.max_id() as usize + 38;
        let end = tokenizer.token_id(end).expect(end);
        let spellings = tokenizer.spellings(size).unwrap();
        let strip = tokenizer.leading_strip();
        let tokens = Tokens { spellings: spellings.clone(), end_ids: vec![end], strip };
        let vocabulary = Vocabulary::new(tokens).unwrap();
        Model {
            name,
            tokenizer: tokenizer.clone(),
            vocabulary,
            size,
            end,
            marks: Vec::new(),
            spellings,
        }
    }

    pub fn all() -> Vec<Model> {
        TOKENIZERS.iter().map(|(folder, end)| Model::open(folder, end)).collect()
    }

    pub fn compile(&self, form: &Form) -> tabloom::Result<Box<dyn Constraint>> {
        Grammar::compile(
            &self.vocabulary,
            &Spec { form: form.clone(), otherwise: None, param: "it".into() },
        )
    }

    /// Whether an answer may end here.
    pub fn allows_end(&self, constraint: &mut dyn Constraint) -> bool {
        constraint.mask().is_ok_and(|mask| tokens(&mask).contains(&self.end))
    }

    /// Samples allowed tokens until the answer is complete, and returns its text.
    pub fn walk(&self, form: &Form, random: &mut fastrand::Rng) -> String {
        self.tokenizer.decode(&self.walk_ids(form, random)).unwrap()
    }

    /// The tokens of such an answer.
    pub fn walk_ids(&self, form: &Form, random: &mut fastrand::Rng) -> Vec<u32> {
        let mut constraint = self.compile(form).unwrap();
        let words = words(form);
        let mut wanted = Vec::new();
        let mut sampled = Vec::new();
        while !constraint.is_complete() {
            let mask = constraint.mask().unwrap();
            assert_eq!(mask.len(), self.size.div_ceil(32));
            let allowed = tokens(&mask);
            assert!(allowed.iter().all(|&token| (token as usize) < self.size));
            self.refuse_one(form, &sampled, &allowed, random);
            if sampled.len() > FREE_TOKENS && wanted.is_empty() && random.bool() {
                wanted = random.choice(&words).cloned().unwrap_or_default();
            }
            let token = match self.spell(&mut wanted, &allowed) {
                Some(token) => token,
                None => self.pick(&allowed, sampled.len(), random),
            };
            constraint.accept(token).unwrap();
            if token == self.end {
                break;
            }
            sampled.push(token);
            assert!(sampled.len() < MAX_TOKENS, "{form:?}: {:?}", self.tokenizer.decode(&sampled));
        }
        sampled
    }

    /// A walk whose text is JSON, and its value.
    pub fn json(&self, form: &Form, random: &mut fastrand::Rng) -> (String, Value) {
        loop {
            let text = self.walk(form, random);
            if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&text) {
                panic!("{}: {form:?}: {text:?}: {error}", self.name);
            }
            // JSON allows larger numbers than its parsers.
            if let Ok(value) = serde_json::from_str(&text) {
                return (text, value);
            }
        }
    }

    /// The allowed token that spells most of the wanted text.
    fn spell(&self, wanted: &mut Vec<u8>, allowed: &[u32]) -> Option<u32> {
        let length = |token: u32| self.spellings[token as usize].len();
        let spells =
            |&token: &u32| length(token) > 0 && wanted.starts_with(&self.spellings[token as usize]);
        let token = allowed.iter().copied().filter(spells).max_by_key(|&token| length(token));
        let spelled = token.map_or(wanted.len(), length);
        wanted.drain(..spelled);
        token
    }

    /// Picks an allowed token; in a long answer one that ends or closes something.
    fn pick(&self, allowed: &[u32], sampled: usize, random: &mut fastrand::Rng) -> u32 {
        // Not always: a form may require something else first.
        if sampled > FREE_TOKENS && random.bool() {
            let closing = |token: &&u32| {
                let spelling = self.spellings[**token as usize].as_slice();
                let marks = self.marks.contains(token) || **token == self.end;
                // An address goes on until the colon behind its scheme.
                marks || matches!(spelling, b"\"" | b"}" | b"]" | b":")
            };
            let closing: Vec<&u32> = allowed.iter().filter(closing).collect();
            if let Some(&&token) = random.choice(&closing) {
                return token;
            }
        }
        *random.choice(allowed).expect("something is allowed")
    }

    /// Checks that a token outside the mask is refused.
    fn refuse_one(
        &self,
        form: &Form,
        sampled: &[u32],
        allowed: &[u32],
        random: &mut fastrand::Rng,
    ) {
        let token = random.u32(0..self.size as u32);
        if !random.u8(..).is_multiple_of(16) || allowed.contains(&token) {
            return;
        }
        let mut again = self.compile(form).unwrap();
        sampled.iter().for_each(|&token| again.accept(token).unwrap());
        let refused = again.accept(token);
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{form:?}: {refused:?}");
    }
}

/// Texts that a pattern may require: the words of a schema, the ends of free text in a grammar.
fn words(form: &Form) -> Vec<Vec<u8>> {
    match form {
        Form::JsonSchema(schema) => {
            let text = schema.to_string();
            let words = text.split(|char: char| !char.is_alphanumeric());
            words.map(|word| word.as_bytes().to_vec()).collect()
        }
        Form::Grammar(text) => {
            let ends = text.lines().filter(|line| line.contains("[lazy]")).filter_map(|line| {
                let literal = &line[line.find(" \"")? + 1..];
                serde_json::from_str::<String>(literal).ok()
            });
            ends.map(String::into_bytes).collect()
        }
        _ => Vec::new(),
    }
}

pub fn tokens(mask: &[u32]) -> Vec<u32> {
    (0..mask.len() as u32 * 32).filter(|&t| mask[t as usize / 32] >> (t % 32) & 1 == 1).collect()
}

/// A random generator with a printed seed.
pub fn random() -> fastrand::Rng {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    fastrand::Rng::with_seed(seed)
}
