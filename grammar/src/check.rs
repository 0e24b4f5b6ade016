//! What is asked of a form before it is compiled.
//!
//! The compiler takes much for granted: well-formed keywords of JSON schemas, small numbers, a
//! stack as deep as the nesting of what it reads.

use regex_syntax::ast::parse::ParserBuilder;
use serde_json::Value;

use crate::{Error, Result};

/// Most bytes of any form.
const MAX_BYTES: usize = 64 << 10;

/// Deepest nesting of a schema.
const MAX_DEPTH: usize = 64;

/// Numbers beyond are not told apart by JSON's readers.
const MAX_NUMBER: f64 = 9_007_199_254_740_992.0; // 2^53

/// Most lengths and counts.
const MAX_COUNT: u64 = 1 << 20;

/// Steps of `multipleOf` in `1 / STEPS`, and most of them in the least common multiple of all.
const STEPS: f64 = 1000.0;
const MAX_MULTIPLE: u64 = 10_000;

/// Most rules and terminals of a grammar: each may lead to the next, down one stack.
const MAX_RULES: usize = 300;

/// Most texts to choose from.
const MAX_CHOICES: usize = 2000;

pub fn json_schema(schema: &Value) -> Result<()> {
    if schema == &Value::Bool(false) {
        return Err(Error::found("false", "a schema that something meets"));
    }
    let mut walk = Walk { root: schema, schemas: Vec::new(), references: Vec::new(), multiple: 1 };
    walk.schema(schema, 0)?;
    length(schema.to_string().len())?;
    walk.check_references()
}

pub fn regex(regex: &str) -> Result<()> {
    length(regex.len())?;
    let parsed = ParserBuilder::new().nest_limit(MAX_DEPTH as u32).build().parse(regex);
    parsed
        .map(|_| ())
        .map_err(|error| Error::new(format!("expected a regular expression: {}", error.kind())))
}

pub fn grammar(grammar: &str) -> Result<()> {
    length(grammar.len())?;
    let mut rules = grammar.matches(':').count();
    // Schemas inside are held to what schemas by themselves are held to.
    for (at, word) in grammar.match_indices("%json") {
        let behind = &grammar[at + word.len()..];
        let mut values = serde_json::Deserializer::from_str(behind).into_iter();
        if let Some(Ok(schema)) = values.next() {
            json_schema(&schema)?;
            rules -= behind[..values.byte_offset()].matches(':').count().min(rules);
        }
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

fn length(bytes: usize) -> Result<()> {
    match bytes <= MAX_BYTES {
        true => Ok(()),
        false => Err(Error::found(format!("{bytes} bytes"), "at most 65536")),
    }
}

/// A walk over a JSON schema as the compiler reads it: the values of `const`, `enum` and annotations
/// are data, the rest is schemas and their keywords.
struct Walk<'a> {
    root: &'a Value,
    /// Every value that is a schema.
    schemas: Vec<&'a Value>,
    references: Vec<&'a str>,
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
        for (keyword, value) in keywords {
            self.keyword(keyword, value, depth).map_err(|error| error.below(keyword))?;
        }
        Ok(())
    }

    fn keyword(&mut self, keyword: &str, value: &'a Value, depth: usize) -> Result<()> {
        match keyword {
            "properties" | "patternProperties" | "$defs" | "definitions" => {
                let Value::Object(schemas) = value else { return Err(wrong(value, "an object")) };
                for (name, schema) in schemas {
                    if keyword == "patternProperties" {
                        regex(name).map_err(|error| error.below(name))?;
                    }
                    self.schema(schema, depth + 1).map_err(|error| error.below(name))?;
                }
                Ok(())
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => self.list(value, depth),
            "items" | "additionalItems" if value.is_array() => self.list(value, depth),
            "items" | "additionalItems" | "additionalProperties" => self.schema(value, depth + 1),
            "const" => data(value, depth + 1),
            "enum" => data(array(value)?, depth + 1),
            "type" => match value {
                Value::Array(names) => names.iter().try_for_each(|name| text(name).map(|_| ())),
                name => text(name).map(|_| ()),
            },
            "required" => {
                array(value)?;
                (value.as_array().into_iter().flatten()).try_for_each(|name| text(name).map(|_| ()))
            }
            "minimum" | "maximum" => number(value).map(|_| ()),
            "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => Ok(()),
            "exclusiveMinimum" | "exclusiveMaximum" => number(value).map(|_| ()),
            "multipleOf" => self.multiple_of(value),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
            | "maxProperties" => match value.as_u64() {
                Some(count) if count <= MAX_COUNT => Ok(()),
                _ => Err(wrong(value, "a count of at most 1048576")),
            },
            "pattern" => regex(text(value)?),
            "format" => text(value).map(|_| ()),
            "$ref" => {
                self.references.push(text(value)?);
                Ok(())
            }
            _ => Ok(()),
        }
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
        for reference in &self.references {
            let target = resolve(self.root, reference);
            if !self.schemas.iter().any(|&schema| target.is_some_and(|at| std::ptr::eq(at, schema)))
            {
                let expected = "the place of a schema in this one, such as \"#/$defs/name\"";
                return Err(Error::found(format!("$ref {reference:?}"), expected));
            }
        }
        Ok(())
    }
}

/// The value that a reference names, by the compiler's reading: names are not unescaped.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    if matches!(reference, "#" | "#/") {
        return Some(root);
    }
    reference.strip_prefix("#/")?.split('/').try_fold(root, |value, name| match value {
        Value::Array(values) => values.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })
}

/// Checks a value that answers may have to equal.
fn data(value: &Value, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::found("deeper nesting", "at most 64 levels"));
    }
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| data(value, depth + 1)),
        Value::Object(values) => values.values().try_for_each(|value| data(value, depth + 1)),
        Value::Number(_) => number(value).map(|_| ()),
        _ => Ok(()),
    }
}

fn number(value: &Value) -> Result<f64> {
    let found = value.as_f64().filter(|number| number.abs() <= MAX_NUMBER);
    found.ok_or_else(|| wrong(value, "a number of at most 2^53"))
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
