//! Checks of a form before it is compiled.
//!
//! The compiler relies on well-formed keywords of JSON schemas, small numbers, and a stack that is
//! deep enough for the nesting of its input.

use regex_syntax::ast::{Ast, Visitor, parse::ParserBuilder, visit};
use serde_json::{Map, Value};

use crate::{
    Error, Result,
    beyond::{FORMATS, is_beyond, terms},
    endless,
    schema::{Held, held, inside, resolve, rust_pattern},
};

/// Largest form in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Deepest nesting of a schema.
const MAX_DEPTH: usize = 64;

/// Above this, JSON parsers cannot distinguish all integers.
pub const MAX_NUMBER: f64 = 9_007_199_254_740_992.0; // 2^53

/// Largest length or count.
pub const MAX_COUNT: u64 = 1 << 20;

/// `multipleOf` is counted in steps of `1 / STEPS`; [`MAX_MULTIPLE`] limits the least common multiple of
/// all, in steps.
const STEPS: f64 = 1000.0;
const MAX_MULTIPLE: u64 = 10_000;

/// Most rules and terminals of a grammar: a chain of them uses one stack.
const MAX_RULES: usize = 300;

/// Most texts in a choice.
const MAX_CHOICES: usize = 2000;

/// The characters that texts may contain.
const WRITABLE: &str = "no control characters other than \\b, \\t, \\n, \\f and \\r";

pub fn json_schema(schema: &Value) -> Result<()> {
    if schema == &Value::Bool(false) {
        return Err(Error::found("false", "a schema that something meets"));
    }
    if let Value::Object(schema) = schema {
        no_foreign_schema(schema)?;
    }
    let mut walk = Walk {
        root: schema,
        schemas: Vec::new(),
        references: Vec::new(),
        below_id: false,
        multiple: 1,
    };
    walk.schema(schema, 0)?;
    length(schema.to_string().len())?;
    walk.check_references()
}

/// Refuses what JSON shows of an object of Zod (`def`, `_def`) or another library of Standard Schema: it would be a
/// schema without keywords, which everything meets.
fn no_foreign_schema(schema: &Map<String, Value>) -> Result<()> {
    let is_of_zod =
        ["def", "_def"].iter().any(|name| schema.get(*name).is_some_and(Value::is_object));
    match is_of_zod || schema.contains_key("~standard") {
        true => Err(Error::found(
            "a schema object of a library",
            "JSON Schema: z.toJSONSchema(schema) of Zod",
        )),
        false => Ok(()),
    }
}

pub fn regex(regex: &str) -> Result<()> {
    length(regex.len())?;
    parsed(regex).map(|_| ())
}

fn parsed(regex: &str) -> Result<Ast> {
    let parsed = ParserBuilder::new().nest_limit(MAX_DEPTH as u32).build().parse(regex);
    parsed.map_err(|error| Error::new(format!("expected a regular expression: {}", error.kind())))
}

pub fn grammar(grammar: &str) -> Result<()> {
    length(grammar.len())?;
    let mut rules = grammar.matches(':').count();
    // Schemas inside a grammar get the same checks as separate ones.
    for (at, schema) in inside(grammar) {
        json_schema(&schema)?;
        rules -= grammar[at].matches(':').count().min(rules);
    }
    if rules > MAX_RULES {
        let found = format!("{rules} colons outside of schemas");
        return Err(Error::found(found, "at most 300 rules and terminals"));
    }
    Ok(())
}

pub fn choice(texts: &[String]) -> Result<()> {
    if !(1..=MAX_CHOICES).contains(&texts.len()) {
        return Err(Error::found(format!("{} texts", texts.len()), "1 to 2000"));
    }
    length(texts.iter().map(String::len).sum())
}

/// Checks the size and the depth of a schema that is not compiled.
pub fn size(schema: &Map<String, Value>) -> Result<()> {
    no_foreign_schema(schema)?;
    // A level of a schema is up to two of JSON: `properties`, and one of them.
    schema.values().try_for_each(|value| depth(value, 2 * MAX_DEPTH))?;
    length(Value::Object(schema.clone()).to_string().len())
}

fn depth(value: &Value, most: usize) -> Result<()> {
    let below =
        most.checked_sub(1).ok_or_else(|| Error::found("deeper nesting", "at most 64 levels"))?;
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| depth(value, below)),
        Value::Object(values) => values.values().try_for_each(|value| depth(value, below)),
        _ => Ok(()),
    }
}

pub fn length(bytes: usize) -> Result<()> {
    match bytes <= MAX_BYTES {
        true => Ok(()),
        false => Err(Error::found(format!("{bytes} bytes"), "at most 65536")),
    }
}

/// Walks a JSON schema as the compiler does: values of `const`, `enum` and annotations are data, all
/// else is schemas and their keywords.
struct Walk<'a> {
    root: &'a Value,
    /// All values that are schemas.
    schemas: Vec<&'a Value>,
    references: Vec<&'a str>,
    /// Whether references are relative to a schema inside the root, because it has an `$id`.
    below_id: bool,
    /// The least common multiple of all `multipleOf`, in steps.
    multiple: u64,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::found("deeper nesting", "at most 64 levels"));
        }
        self.schemas.push(schema);
        let keywords = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(keywords) => keywords,
            other => return Err(wrong(other, "an object or a boolean")),
        };
        let below_id = self.below_id;
        self.below_id |= depth > 0 && keywords.contains_key("$id");
        for (keyword, value) in keywords {
            let held = match held(keyword, value) {
                _ if is_beyond(keyword, value) && !self.can_hold(keyword, value, keywords) => {
                    Err(unsupported(keyword, value))
                }
                Held::Schema => self.schema(value, depth + 1),
                Held::Schemas => self.list(value, depth),
                Held::NamedSchemas => self.named(keyword, value, depth),
                Held::Data => self.keyword(keyword, value, depth),
            };
            held.and_then(|()| beside(keyword, value, keywords))
                .map_err(|error| error.below(keyword))?;
        }
        self.below_id = below_id;
        Ok(())
    }

    fn keyword(&mut self, keyword: &str, value: &'a Value, depth: usize) -> Result<()> {
        match keyword {
            "const" => data(value, depth + 1),
            "enum" => data(array(value)?, depth + 1),
            "type" => match value {
                Value::Array(names) => names.iter().try_for_each(type_name),
                name => type_name(name),
            },
            "required" => {
                array(value)?;
                (value.as_array().into_iter().flatten()).try_for_each(|name| text(name).map(|_| ()))
            }
            "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => Ok(()),
            // Bounds further out are met by all numbers that are allowed.
            "minimum" | "exclusiveMinimum" if value.as_f64().is_some_and(|least| least < 0.0) => {
                Ok(())
            }
            "maximum" | "exclusiveMaximum" if value.as_f64().is_some_and(|most| most > 0.0) => {
                Ok(())
            }
            "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" => {
                number(value).map(|_| ())
            }
            "multipleOf" => self.multiple_of(value),
            "maxLength" | "maxItems" | "maxProperties" if value.is_u64() => Ok(()),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
            | "maxProperties" => match value.as_u64() {
                Some(count) if count <= MAX_COUNT => Ok(()),
                _ => Err(wrong(value, "a count of at most 1048576")),
            },
            "pattern" => pattern(text(value)?),
            "format" => text(value).map(|_| ()),
            "$ref" if self.below_id => Err(wrong(value, "no reference in a schema with an $id")),
            "$ref" => {
                self.references.push(text(value)?);
                Ok(())
            }
            "$schema" if self.root.get("$schema") != Some(value) => {
                Err(wrong(value, "one draft for all of the schema"))
            }
            _ => Ok(()),
        }
    }

    /// Whether answers can be held to a keyword that the compiler does not know.
    fn can_hold(&self, keyword: &str, value: &Value, keywords: &Map<String, Value>) -> bool {
        let Some(terms) = terms(keyword, value, keywords, self.root) else { return false };
        // The walk comes to the schemas in `unevaluated…` by itself.
        let is_checked = held(keyword, value) == Held::Schema;
        is_checked || terms.iter().all(|term| term.is_boolean() || json_schema(term).is_ok())
    }

    fn named(&mut self, keyword: &str, value: &'a Value, depth: usize) -> Result<()> {
        let Value::Object(schemas) = value else { return Err(wrong(value, "an object")) };
        for (name, schema) in schemas {
            if keyword == "patternProperties" {
                pattern(name).map_err(|error| error.below(name))?;
            }
            self.schema(schema, depth + 1).map_err(|error| error.below(name))?;
        }
        Ok(())
    }

    fn list(&mut self, value: &'a Value, depth: usize) -> Result<()> {
        let schemas = value.as_array().ok_or_else(|| wrong(value, "an array"))?;
        for (i, schema) in schemas.iter().enumerate() {
            self.schema(schema, depth + 1).map_err(|error| error.below(&i.to_string()))?;
        }
        Ok(())
    }

    fn multiple_of(&mut self, value: &Value) -> Result<()> {
        let expected = "a positive multiple of 0.001, and together at most 10";
        let steps = number(value)? * STEPS;
        let exact = (steps - steps.round()).abs() < 1e-6 && steps.round() >= 1.0;
        if !exact || steps > MAX_MULTIPLE as f64 {
            return Err(wrong(value, expected));
        }
        let steps = steps.round() as u64;
        self.multiple *= steps / gcd(self.multiple, steps);
        match self.multiple <= MAX_MULTIPLE {
            true => Ok(()),
            false => Err(wrong(value, expected)),
        }
    }

    fn check_references(&self) -> Result<()> {
        let mut targets = Vec::new();
        for reference in &self.references {
            let is_schema =
                |at: &&Value| self.schemas.iter().any(|&schema| std::ptr::eq(*at, schema));
            let Some(target) = resolve(self.root, reference).filter(is_schema) else {
                let expected = "the place of a schema in this one, such as \"#/$defs/name\"";
                return Err(Error::found(format!("$ref {reference:?}"), expected));
            };
            targets.push(target);
        }
        match endless::all_end(targets, |reference| resolve(self.root, reference)) {
            true => Ok(()),
            false => Err(Error::found("a $ref without end", "a schema that something meets")),
        }
    }
}

/// Checks a regular expression for JSON strings.
fn pattern(pattern: &str) -> Result<()> {
    length(pattern.len())?;
    visit(&parsed(&rust_pattern(pattern))?, Writable).map_err(|()| Error::found(pattern, WRITABLE))
}

/// Finds characters in a pattern that no answer can contain.
struct Writable;

impl Visitor for Writable {
    type Output = ();
    type Err = ();

    fn finish(self) -> std::result::Result<(), ()> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> std::result::Result<(), ()> {
        match ast {
            Ast::Literal(literal) if is_unwritable(literal.c) => Err(()),
            _ => Ok(()),
        }
    }
}

fn unsupported(keyword: &str, value: &Value) -> Error {
    match keyword {
        "format" => wrong(value, &format!("one of {}", FORMATS.join(", "))),
        _ => Error::found(keyword, "only keywords that answers can be held to"),
    }
}

/// Checks a keyword against the other keywords of its schema.
fn beside(keyword: &str, value: &Value, keywords: &Map<String, Value>) -> Result<()> {
    match keyword {
        // The compiler would ignore the prefix items.
        "additionalItems" if keywords.contains_key("prefixItems") => {
            Err(wrong(value, "prefixItems and items without it"))
        }
        // Two names that the model makes up can be equal, so the count could be wrong.
        "minProperties"
            if keywords.get("additionalProperties") != Some(&Value::Bool(false))
                || keywords.contains_key("patternProperties") =>
        {
            let required = keywords.get("required").and_then(Value::as_array).map_or(0, Vec::len);
            match value.as_u64().is_some_and(|count| count <= required as u64 + 1) {
                true => Ok(()),
                false => Err(wrong(value, "at most one property more than are required")),
            }
        }
        _ => Ok(()),
    }
}

/// Checks a value of `const` or `enum`.
fn data(value: &Value, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::found("deeper nesting", "at most 64 levels"));
    }
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| data(value, depth + 1)),
        Value::Object(values) => values.values().try_for_each(|value| data(value, depth + 1)),
        Value::Number(_) => number(value).map(|_| ()),
        Value::String(text) if text.contains(is_unwritable) => Err(wrong(value, WRITABLE)),
        _ => Ok(()),
    }
}

/// Whether an answer cannot contain a character: `\u` escapes are not allowed.
fn is_unwritable(char: char) -> bool {
    char.is_ascii_control() && !matches!(char, '\u{8}' | '\t' | '\n' | '\u{C}' | '\r')
}

fn number(value: &Value) -> Result<f64> {
    let found = value.as_f64().filter(|number| number.abs() <= MAX_NUMBER);
    found.ok_or_else(|| wrong(value, "a number of at most 2^53"))
}

fn type_name(value: &Value) -> Result<()> {
    match value.as_str() {
        Some("array" | "boolean" | "integer" | "null" | "number" | "object" | "string") => Ok(()),
        _ => Err(wrong(
            value,
            "array, boolean, integer, null, number, object, string or some of them",
        )),
    }
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().ok_or_else(|| wrong(value, "a string"))
}

fn array(value: &Value) -> Result<&Value> {
    if value.is_array() { Ok(value) } else { Err(wrong(value, "an array")) }
}

fn wrong(value: &Value, expected: &str) -> Error {
    let found: String = value.to_string().chars().take(60).collect();
    Error::found(found, expected)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
