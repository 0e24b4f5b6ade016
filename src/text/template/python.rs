//! Values as Python has them: their text, their numbers, arguments of calls.

use std::fmt::{self, Display, Write};

use minijinja::value::{Kwargs, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

pub type Result<T> = std::result::Result<T, Error>;

/// Longest text and longest list that one step may make.
pub const MAX_TEXT: usize = 16 << 20;
pub const MAX_ITEMS: usize = 1 << 20;
const MAX_DEPTH: usize = 100;

pub fn invalid(error: impl Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, error.to_string())
}

/// A text of at most [`MAX_TEXT`] bytes, with at most [`MAX_ITEMS`] values written into it.
#[derive(Default)]
pub struct Text(String, usize);

impl Text {
    pub fn push(&mut self, text: &str) -> Result<()> {
        if self.0.len() + text.len() > MAX_TEXT {
            return Err(invalid(format!("it makes a text longer than {MAX_TEXT} bytes")));
        }
        self.0.push_str(text);
        Ok(())
    }

    /// Writes a text several times.
    pub fn repeat(&mut self, text: &str, times: usize) -> Result<()> {
        if text.len().saturating_mul(times) > MAX_TEXT {
            return Err(invalid(format!("it makes a text longer than {MAX_TEXT} bytes")));
        }
        self.push(&text.repeat(times))
    }

    /// Counts a value that is written.
    pub fn value(&mut self) -> Result<()> {
        self.1 += 1;
        match self.1 > MAX_ITEMS {
            true => Err(invalid(format!("it writes more than {MAX_ITEMS} values"))),
            false => Ok(()),
        }
    }

    pub fn done(self) -> String {
        self.0
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text).map_err(|_| fmt::Error)
    }
}

/// A list's items; a dictionary's are its keys, a text's its characters.
pub fn items(value: &Value) -> Result<Vec<Value>> {
    if value.is_none() || value.len().is_some_and(|len| len > MAX_ITEMS) {
        return Err(invalid(format!("found {}, expected something to go through", value.kind())));
    }
    value.try_iter()?.checked().take(MAX_ITEMS + 1).collect::<Result<Vec<Value>>>()
}

pub fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// Python's `str`.
pub fn text(value: &Value) -> Result<String> {
    if let Some(text) = value.as_str() {
        return Ok(text.into());
    }
    let mut text = Text::default();
    write(value, false, &mut text, 0)?;
    Ok(text.done())
}

/// Python's `repr`.
pub fn repr(value: &Value) -> Result<String> {
    let mut text = Text::default();
    write(value, true, &mut text, 0)?;
    Ok(text.done())
}

fn write(value: &Value, quoted: bool, out: &mut Text, depth: usize) -> Result<()> {
    out.value()?;
    if depth > MAX_DEPTH {
        return Err(invalid(format!("it writes a value nested deeper than {MAX_DEPTH} levels")));
    }
    let listed = |out: &mut Text, [open, close]: [&str; 2], items: Vec<Value>| {
        out.push(open)?;
        for (i, item) in items.iter().enumerate() {
            out.push(if i > 0 { ", " } else { "" })?;
            write(item, true, out, depth + 1)?;
        }
        out.push(close)
    };
    match value.kind() {
        ValueKind::Undefined => out.push(if quoted { "Undefined" } else { "" }),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            if quoted { quote(text, out) } else { out.push(text) }
        }
        ValueKind::Number if !value.is_integer() => out.push(&float_text(float(value)?)),
        ValueKind::Seq if value.is_tuple() => {
            let items = items(value)?;
            let close = if items.len() == 1 { ",)" } else { ")" };
            listed(out, ["(", close], items)
        }
        ValueKind::Seq | ValueKind::Iterable => listed(out, ["[", "]"], items(value)?),
        ValueKind::Map => {
            out.push("{")?;
            for (i, key) in items(value)?.iter().enumerate() {
                out.push(if i > 0 { ", " } else { "" })?;
                write(key, true, out, depth + 1)?;
                out.push(": ")?;
                write(&value.get_item(key)?, true, out, depth + 1)?;
            }
            out.push("}")
        }
        _ => out.push(&value.to_string()),
    }
}

/// Writes a text as Python's `repr` does.
fn quote(text: &str, out: &mut Text) -> Result<()> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push(quote);
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c == quote => quoted.extend(['\\', c]),
            c if is_printable(c) => quoted.push(c),
            c => {
                let _ = match c as u32 {
                    code @ ..=0xff => write!(quoted, "\\x{code:02x}"),
                    code @ ..=0xffff => write!(quoted, "\\u{code:04x}"),
                    code => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push(quote);
    out.push(&quoted)
}

/// Whether Python's `repr` writes a character as it is. The noncharacters that quote control tokens
/// stay, or quoting would end here.
pub fn is_printable(c: char) -> bool {
    // After another character, since combining ones stand alone nowhere.
    matches!(c, ' '..='~' | '\u{FDD0}'..='\u{FDD3}')
        || c > '~' && format!("a{c}").escape_debug().nth(1) == Some(c)
}

/// White space as Python knows it.
pub fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\x1c'..='\x1f')
}

/// A number as Python's `repr` writes it.
pub fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    } else if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.into();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        exponent @ -4..=15 => {
            let text = number.to_string();
            if exponent >= 0 && !text.contains('.') { text + ".0" } else { text }
        }
        exponent if exponent < 0 => format!("{digits}e-{:02}", -exponent),
        exponent => format!("{digits}e+{exponent:02}"),
    }
}

pub fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

/// A whole number or a truth value.
pub fn whole(value: &Value) -> Result<i128> {
    let is = value.is_integer() || value.kind() == ValueKind::Bool;
    let number = is.then(|| i128::try_from(value.clone()).ok()).flatten();
    number.ok_or_else(|| invalid(format!("found {}, expected a whole number", value.kind())))
}

/// A whole number as a number of characters or items; a negative one is 0.
pub fn size(value: &Value) -> Result<usize> {
    Ok(usize::try_from(whole(value)?.max(0)).unwrap_or(usize::MAX))
}

pub fn float(value: &Value) -> Result<f64> {
    match whole(value) {
        Ok(whole) => Ok(whole as f64),
        Err(_) if is_float(value) => f64::try_from(value.clone()),
        Err(error) => Err(error),
    }
}

/// A text, where Python takes nothing else.
pub fn string(value: &Value) -> Result<&str> {
    value.as_str().ok_or_else(|| invalid(format!("found {}, expected a string", value.kind())))
}

pub fn tuple(items: Vec<Value>) -> Value {
    Value::from(Tuple::from(items))
}

/// Arguments by position and by name; absent ones are `None`.
pub fn bind<const N: usize>(names: [&str; N], arguments: &[Value]) -> Result<[Option<Value>; N]> {
    let named = arguments.last().filter(|last| last.is_kwargs());
    let positional = &arguments[..arguments.len() - usize::from(named.is_some())];
    if positional.len() > N {
        return Err(invalid(format!("found {} arguments, expected {N}", positional.len())));
    }
    let mut bound: [Option<Value>; N] = std::array::from_fn(|i| positional.get(i).cloned());
    if let Some(named) = named {
        let named = Kwargs::try_from(named.clone())?;
        for name in named.args() {
            let at = names.iter().position(|known| *known == name && !name.is_empty());
            match at.filter(|at| bound[*at].is_none()) {
                Some(at) => bound[at] = Some(named.peek(name)?),
                None => return Err(invalid(format!("found an argument {name:?} too many"))),
            }
        }
    }
    Ok(bound)
}

pub fn needed(argument: Option<Value>, name: &str) -> Result<Value> {
    argument.ok_or_else(|| invalid(format!("expected an argument {name:?}")))
}

pub fn is_true(argument: &Option<Value>) -> bool {
    argument.as_ref().is_some_and(Value::is_true)
}

/// The value of a filter or test without arguments.
pub fn only(arguments: &[Value]) -> Result<Value> {
    let [value] = bind([""], arguments)?;
    needed(value, "value")
}

/// The text of the value of a filter without arguments.
pub fn one(arguments: &[Value]) -> Result<String> {
    text(&only(arguments)?)
}

/// A whole number as a value.
pub fn integer(number: i128) -> Value {
    i64::try_from(number).map_or_else(|_| Value::from(number), Value::from)
}
