//! Values of arguments that are not written as a JSON object: what type they have, and literals.

use serde_json::{Map, Value};

use super::head::{Cursor, Halt};
use crate::api::Tool;

/// Nested lists and objects in a literal, and references in a schema, are followed to this depth.
const DEPTH: usize = 64;

/// A schema's types, or types within a schema: `string`, `number`, ….
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Types {
    /// Empty if any type is allowed.
    names: Vec<String>,
}

impl Types {
    /// The types that a tool's schema allows for a parameter.
    pub fn of(tool: Option<&Tool>, parameter: &str) -> Types {
        let parameters = tool.and_then(|tool| tool.parameters.clone());
        let root = parameters.map_or(Value::Null, Value::Object);
        let mut types = Types::default();
        if let Some(schema) = root["properties"].get(parameter)
            && !types.collect(&root, schema, DEPTH)
        {
            types.names.clear();
        }
        types
    }

    /// Whether strings are the only values: their text needs no end to be understood.
    pub fn only_strings(&self) -> bool {
        self.names == ["string"]
    }

    /// The JSON value that a text without quotes stands for.
    pub fn value(&self, text: &str) -> Value {
        let word = text.trim();
        let parsed = serde_json::from_str::<Value>(word).ok().or_else(|| {
            // Templates that write them as Python does teach models to do so.
            let ended = format!("{word},");
            let mut cursor = Cursor { text: &ended, at: 0 };
            literal(&mut cursor).ok().filter(|_| cursor.at == word.len())
        });
        parsed.filter(|value| self.allows(value)).unwrap_or_else(|| text.into())
    }

    fn allows(&self, value: &Value) -> bool {
        let strings = self.names.iter().any(|name| name == "string");
        match value {
            // Where no schema says otherwise, quotes are part of a string.
            Value::String(_) => !self.names.is_empty() && !strings,
            // A value that is certainly no string is JSON, whether or not the schema allows it.
            _ if !strings => true,
            value => self
                .names
                .iter()
                .any(|name| name == named(value) || name == "integer" && value.is_i64()),
        }
    }

    /// Adds a schema's types; false if it allows any.
    fn collect(&mut self, root: &Value, schema: &Value, depth: usize) -> bool {
        let mut add = |name: &str| {
            if !self.names.iter().any(|known| known == name) {
                self.names.push(name.into());
            }
        };
        if depth == 0 {
            return false;
        }
        match &schema["type"] {
            Value::String(name) => add(name),
            Value::Array(names) => names.iter().filter_map(Value::as_str).for_each(add),
            _ => {
                if let Some(values) = schema["enum"].as_array() {
                    values.iter().for_each(|value| add(named(value)));
                } else if let Some(value) = schema.get("const") {
                    add(named(value));
                } else if let Some(name) = schema["$ref"].as_str() {
                    let found = tabloom_grammar::resolve(root, name);
                    return found.is_some_and(|found| self.collect(root, found, depth - 1));
                } else if let Some(options) =
                    schema["anyOf"].as_array().or(schema["oneOf"].as_array())
                {
                    return options.iter().all(|option| self.collect(root, option, depth - 1));
                } else {
                    return false;
                }
            }
        }
        true
    }
}

/// The name of a value's type in a schema.
fn named(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Parses a literal: JSON, with Python's words and single quotes, tuples, and Gemma's keys and quotes.
pub fn literal(cursor: &mut Cursor) -> Result<Value, Halt> {
    nested(cursor, DEPTH)
}

fn nested(cursor: &mut Cursor, depth: usize) -> Result<Value, Halt> {
    cursor.blank();
    let first = cursor.rest().chars().next().ok_or(Halt::Short)?;
    match first {
        '[' | '(' | '{' if depth == 0 => Err(Halt::Wrong),
        '[' | '(' => {
            let close = if first == '[' { "]" } else { ")" };
            let mut items = Vec::new();
            cursor.at += 1;
            while !ends(cursor, close)? {
                items.push(nested(cursor, depth - 1)?);
            }
            Ok(items.into())
        }
        '{' => {
            let mut object = Map::new();
            cursor.at += 1;
            while !ends(cursor, "}")? {
                let key = match nested(cursor, depth - 1)? {
                    Value::String(key) => key,
                    key => key.to_string(),
                };
                cursor.blank();
                cursor.expect(":")?;
                object.insert(key, nested(cursor, depth - 1)?);
            }
            Ok(object.into())
        }
        '"' | '\'' => quoted(cursor, first),
        '<' => {
            const MARK: &str = "<|\"|>";
            cursor.expect(MARK)?;
            let rest = cursor.rest();
            let len = rest.find(MARK).ok_or(Halt::Short)?;
            cursor.at += len + MARK.len();
            Ok(rest[..len].into())
        }
        _ => {
            let word = cursor.take_while(|c| c.is_alphanumeric() || "+-._".contains(c))?;
            Ok(match word {
                "True" | "true" => true.into(),
                "False" | "false" => false.into(),
                "None" | "null" => Value::Null,
                word => serde_json::from_str(word).unwrap_or_else(|_| word.into()),
            })
        }
    }
}

/// Passes the comma between items; whether the list or object ends.
fn ends(cursor: &mut Cursor, close: &str) -> Result<bool, Halt> {
    cursor.blank();
    if cursor.passes(",")? {
        cursor.blank();
    }
    cursor.passes(close)
}

/// A string in quotes. Models do not always escape a quote within: one counts as the end where something
/// follows that can follow a value.
fn quoted(cursor: &mut Cursor, quote: char) -> Result<Value, Halt> {
    let body = &cursor.rest()[1..];
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        if c == quote && !escaped {
            match body[at + 1..].trim_start().chars().next() {
                None => return Err(Halt::Short),
                Some(',' | ')' | ']' | '}' | ':') => {
                    cursor.at += at + 2;
                    return Ok(unescaped(&body[..at]).into());
                }
                Some(_) => {}
            }
        }
        escaped = c == '\\' && !escaped;
    }
    Err(Halt::Short)
}

/// The text that a string's escapes stand for; a backslash before any other character is itself.
fn unescaped(raw: &str) -> String {
    let mut json = String::from('"');
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\'') => json.push('\''),
                Some(c @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u')) => {
                    json.extend(['\\', c]);
                }
                other => json.extend(["\\\\".into(), other.map_or_else(String::new, String::from)]),
            },
            c => json.push_str(&escaped(c.encode_utf8(&mut [0; 4]))),
        }
    }
    json.push('"');
    serde_json::from_str(&json).unwrap_or_else(|_| raw.into())
}

/// A text as the inside of a JSON string.
pub fn escaped(text: &str) -> String {
    let json = Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}
