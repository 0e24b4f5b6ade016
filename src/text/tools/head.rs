//! Parses the head of a tool call: its name, and where its arguments start.

use serde_json::Value;

use super::dialect::{Arguments, Call, Dialect, Format};

/// Longest call, in bytes, whose name does not come before its arguments.
const MOST: usize = 64 << 10;

/// The head of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    pub name: String,
    /// Its length in bytes.
    pub len: usize,
    /// The arguments if they are part of the head; otherwise they follow it.
    pub arguments: Option<String>,
}

/// Why no head was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The text ends too early: more is needed to decide.
    Short,
    /// The text is no call.
    Wrong,
}

type Result<T> = std::result::Result<T, Halt>;

impl Head {
    /// Parses the text from a marker on; `known` says whether a name is one of the tools.
    pub fn read(dialect: Dialect, text: &str, known: &dyn Fn(&str) -> bool) -> Result<Head> {
        let format = dialect.format();
        let mut cursor = Cursor { text, at: 0 };
        let mut halt = Halt::Wrong;
        let found = format.opens.iter().find(|open| match cursor.peek(open) {
            Ok(found) => found,
            Err(short) => {
                halt = short;
                false
            }
        });
        match found {
            None if halt == Halt::Short || !dialect.bare() => return Err(halt),
            None => {}
            // The marker of a single call may be the text before its name.
            Some(open) if matches!(format.call, Call::Named { before, .. } if before == *open) => {}
            Some(open) => cursor.expect(open)?,
        }
        cursor.blank();
        // Models also write lists where single calls are expected.
        let listed = format.bracketed || matches!(format.call, Call::Object(_));
        if found.is_some() && listed {
            cursor.passes("[")?;
        }
        Head::item(format, cursor, known)
    }

    /// Parses the text after the separator before a further call.
    pub fn next(dialect: Dialect, text: &str, known: &dyn Fn(&str) -> bool) -> Result<Head> {
        Head::item(dialect.format(), Cursor { text, at: 0 }, known)
    }

    fn item(format: &Format, mut cursor: Cursor, known: &dyn Fn(&str) -> bool) -> Result<Head> {
        cursor.blank();
        match &format.call {
            Call::Named { before, after, arguments, end } => {
                named(cursor, [before, after], arguments, end, known)
            }
            Call::Object(_) => match streamed(cursor, known) {
                Err(Halt::Wrong) => whole(cursor, known),
                head => head,
            },
        }
    }
}

/// A name between two texts; a JSON object, the first key of the arguments or the call's end follows.
fn named(
    mut cursor: Cursor,
    [before, after]: [&str; 2],
    arguments: &Arguments,
    end: &[&str],
    known: &dyn Fn(&str) -> bool,
) -> Result<Head> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    cursor.expect(before)?;
    let name = cursor.take_while(word)?.to_owned();
    if !known(&name) {
        return Err(Halt::Wrong);
    }
    cursor.blank();
    if cursor.passes("[CALL_ID]")? {
        cursor.take_while(word)?;
        cursor.blank();
    }
    cursor.parts(&after.split_whitespace().collect::<Vec<_>>())?;
    let head = Head { name, len: cursor.at, arguments: None };
    cursor.blank();
    match arguments {
        Arguments::Json if cursor.peek("{")? => Ok(Head { len: cursor.at, ..head }),
        Arguments::Json => nothing(cursor, head),
        Arguments::Pairs { .. } if cursor.peek(end.first().unwrap_or(&""))? => Ok(head),
        Arguments::Pairs { key, value, .. } => cursor.key(key, value[0]).map(|_| head),
    }
}

/// A call whose arguments are no object: all that may be left out is `null` or an empty string.
fn nothing(mut cursor: Cursor, head: Head) -> Result<Head> {
    for empty in ["null", "\"\""] {
        if cursor.passes(empty)? {
            break;
        }
    }
    Ok(Head { len: cursor.at, arguments: Some("{}".into()), ..head })
}

/// `{"name": …, "arguments": {…}}`; the arguments may be incomplete.
fn streamed(mut cursor: Cursor, known: &dyn Fn(&str) -> bool) -> Result<Head> {
    cursor.parts(&["", "{", "\"name\"", ":", ""])?;
    let name = cursor.string()?;
    if !known(&name) {
        return Err(Halt::Wrong);
    }
    cursor.parts(&["", ",", ""])?;
    let key = if cursor.peek("\"parameters\"")? { "\"parameters\"" } else { "\"arguments\"" };
    cursor.parts(&[key, ":", ""])?;
    let head = Head { name, len: cursor.at, arguments: None };
    cursor.expect("{")?;
    Ok(head)
}

/// A complete object with the keys in any order, and other keys.
fn whole(mut cursor: Cursor, known: &dyn Fn(&str) -> bool) -> Result<Head> {
    const KEYS: [&str; 6] = ["type", "id", "name", "arguments", "parameters", "function"];
    cursor.parts(&[""])?;
    let start = cursor.at;
    cursor.parts(&["{", ""])?;
    let key = cursor.string()?;
    if !KEYS.contains(&key.as_str()) {
        return Err(Halt::Wrong);
    }
    let rest = &cursor.text[start..];
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) if error.is_eof() && rest.len() <= MOST => return Err(Halt::Short),
        _ => return Err(Halt::Wrong),
    };
    let len = start + values.byte_offset();
    if values.byte_offset() > MOST {
        return Err(Halt::Wrong);
    }
    let call = value.get("function").filter(|inner| inner.is_object()).unwrap_or(&value);
    let name = call["name"].as_str().filter(|name| known(name)).ok_or(Halt::Wrong)?.to_owned();
    let arguments = match call.get("arguments").or(call.get("parameters")) {
        None | Some(Value::Null) => "{}".into(),
        Some(Value::Object(arguments)) => Value::Object(arguments.clone()).to_string(),
        // Some models write the arguments as a JSON string, as OpenAI's API does.
        Some(Value::String(text)) if text.trim().is_empty() => "{}".into(),
        Some(Value::String(text)) => match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(_)) => text.clone(),
            Ok(Value::Null) => "{}".into(),
            _ => return Err(Halt::Wrong),
        },
        Some(_) => return Err(Halt::Wrong),
    };
    Ok(Head { name, len, arguments: Some(arguments) })
}

/// A position in a text that may be incomplete.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn blank(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Whether `part` comes next.
    pub fn peek(&self, part: &str) -> Result<bool> {
        match overlap(self.rest(), part) {
            Err(Halt::Short) => Err(Halt::Short),
            found => Ok(found.is_ok()),
        }
    }

    /// Passes `part` if it comes next; whether it did.
    pub fn passes(&mut self, part: &str) -> Result<bool> {
        let found = self.peek(part)?;
        self.at += if found { part.len() } else { 0 };
        Ok(found)
    }

    pub fn expect(&mut self, part: &str) -> Result<()> {
        overlap(self.rest(), part)?;
        self.at += part.len();
        Ok(())
    }

    /// Expects these parts with optional white space between them.
    pub fn parts(&mut self, parts: &[&str]) -> Result<()> {
        for (i, part) in parts.iter().enumerate() {
            if i > 0 || part.is_empty() {
                self.blank();
            }
            self.expect(part)?;
        }
        Ok(())
    }

    /// Takes one or more characters of a kind; a character of another kind must follow.
    pub fn take_while(&mut self, kind: impl Fn(char) -> bool) -> Result<&'a str> {
        let rest = self.rest();
        match rest.find(|c| !kind(c)) {
            None => Err(Halt::Short),
            Some(0) => Err(Halt::Wrong),
            Some(end) => {
                self.at += end;
                Ok(&rest[..end])
            }
        }
    }

    /// Parses the key of an argument between two texts, and the text before its value.
    pub fn key(&mut self, [before, after]: &[&str; 2], value: &str) -> Result<&'a str> {
        self.expect(before)?;
        let key = self.take_while(|c| !"<>\"'=:,(){}[]\n".contains(c))?;
        self.expect(after.trim())?;
        if !value.trim().is_empty() {
            self.blank();
            self.expect(value.trim())?;
        }
        Ok(key.trim())
    }

    /// Parses a JSON string.
    fn string(&mut self) -> Result<String> {
        self.expect("\"")?;
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let end = end.ok_or(Halt::Short)?;
        let quoted = &self.text[self.at - 1..=self.at + end];
        self.at += end + 1;
        serde_json::from_str(quoted).map_err(|_| Halt::Wrong)
    }
}

/// Whether the text starts with `part`; [`Halt::Short`] if it ends within it.
pub fn overlap(text: &str, part: &str) -> Result<()> {
    if text.starts_with(part) {
        Ok(())
    } else if part.starts_with(text) {
        Err(Halt::Short)
    } else {
        Err(Halt::Wrong)
    }
}
