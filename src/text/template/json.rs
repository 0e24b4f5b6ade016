//! `tojson` as transformers has it: Python's `json.dumps`.

use std::fmt::Write;

use minijinja::Value;
use minijinja::value::ValueKind;

use super::operators::sorted;
use super::python::{
    Result, Text, bind, float, float_text, invalid, is_float, is_true, items, needed, size, string,
    text,
};

const MAX_DEPTH: usize = 100;
const MAX_INDENT: usize = 100;

/// `value | tojson(ensure_ascii, indent, separators, sort_keys)`
pub fn to_json(arguments: &[Value]) -> Result<Value> {
    let names = ["", "ensure_ascii", "indent", "separators", "sort_keys"];
    let [value, ascii, indent, separators, sorts] = bind(names, arguments)?;
    let indent = match indent.filter(|indent| !indent.is_none()) {
        None => None,
        Some(indent) => Some(match indent.as_str() {
            Some(indent) => indent.to_owned(),
            None => " ".repeat(size(&indent)?.min(MAX_INDENT)),
        }),
    };
    let separators = match separators.filter(|separators| !separators.is_none()) {
        None if indent.is_some() => [",".into(), ": ".into()],
        None => [", ".into(), ": ".into()],
        Some(separators) => match &items(&separators)?[..] {
            [item, key] => [string(item)?.to_owned(), string(key)?.to_owned()],
            _ => return Err(invalid("separators are those of items and of keys")),
        },
    };
    let json = Json {
        out: Text::default(),
        ascii: is_true(&ascii),
        indent,
        separators,
        sorts: is_true(&sorts),
    };
    json.done(&needed(value, "value")?).map(Value::from)
}

/// A value as `json.dumps` writes it, with all characters as they are.
pub fn dumps(value: &Value) -> Result<String> {
    let separators = [", ".into(), ": ".into()];
    let out = Text::default();
    Json { out, ascii: false, indent: None, separators, sorts: false }.done(value)
}

struct Json {
    out: Text,
    ascii: bool,
    indent: Option<String>,
    separators: [String; 2],
    sorts: bool,
}

impl Json {
    fn done(mut self, value: &Value) -> Result<String> {
        self.write(value, 0)?;
        Ok(self.out.done())
    }

    fn write(&mut self, value: &Value, depth: usize) -> Result<()> {
        self.out.value()?;
        if depth > MAX_DEPTH {
            return Err(invalid(format!("tojson: nested deeper than {MAX_DEPTH} levels")));
        }
        match value.kind() {
            ValueKind::None | ValueKind::Bool | ValueKind::Number => self.out.push(&scalar(value)?),
            ValueKind::String => self.text(string(value)?),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = items(value)?;
                self.list(["[", "]"], items.len(), depth, |this, i| {
                    this.write(&items[i], depth + 1)
                })
            }
            ValueKind::Map => {
                let mut keys = items(value)?;
                if self.sorts {
                    keys = sorted(keys, |key| Ok(key.clone()), false)?;
                }
                self.list(["{", "}"], keys.len(), depth, |this, i| {
                    match keys[i].as_str() {
                        Some(key) => this.text(key)?,
                        None => this.text(&scalar(&keys[i])?)?,
                    }
                    this.out.push(&this.separators[1])?;
                    this.write(&value.get_item(&keys[i])?, depth + 1)
                })
            }
            kind => Err(invalid(format!("tojson: found {kind}, which JSON does not have"))),
        }
    }

    fn list(
        &mut self,
        [open, close]: [&str; 2],
        len: usize,
        depth: usize,
        item: impl Fn(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        self.out.push(open)?;
        for i in 0..len {
            if i > 0 {
                self.out.push(&self.separators[0])?;
            }
            self.line(depth + 1)?;
            item(self, i)?;
        }
        if len > 0 {
            self.line(depth)?;
        }
        self.out.push(close)
    }

    fn line(&mut self, depth: usize) -> Result<()> {
        let Some(indent) = &self.indent else { return Ok(()) };
        self.out.push("\n")?;
        self.out.repeat(indent, depth)
    }

    fn text(&mut self, text: &str) -> Result<()> {
        let mut quoted = String::with_capacity(text.len() + 2);
        quoted.push('"');
        for c in text.chars() {
            match c {
                '"' => quoted.push_str("\\\""),
                '\\' => quoted.push_str("\\\\"),
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '\x08' => quoted.push_str("\\b"),
                '\x0C' => quoted.push_str("\\f"),
                // These quote control tokens and do not reach the prompt.
                '\u{FDD0}'..='\u{FDD3}' => quoted.push(c),
                c if c < ' ' || self.ascii && c > '~' => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(quoted, "\\u{unit:04x}");
                    }
                }
                c => quoted.push(c),
            }
        }
        quoted.push('"');
        self.out.push(&quoted)
    }
}

/// A number, a truth value or null.
fn scalar(value: &Value) -> Result<String> {
    match value.kind() {
        ValueKind::None => Ok("null".into()),
        ValueKind::Bool => Ok(value.is_true().to_string()),
        ValueKind::Number if is_float(value) => {
            let text = float_text(float(value)?);
            Ok(match text.as_str() {
                "nan" => "NaN".into(),
                "inf" => "Infinity".into(),
                "-inf" => "-Infinity".into(),
                _ => text,
            })
        }
        ValueKind::Number => text(value),
        kind => Err(invalid(format!("tojson: found {kind} as a key"))),
    }
}
