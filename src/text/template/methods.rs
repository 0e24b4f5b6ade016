//! Methods of Python's strings, lists, dictionaries and numbers that a sandbox allows.

use minijinja::formatting::FormatStyle;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

use super::operators::formatted;
use super::python::{
    Result, Text, bind, float, integer, invalid, is_blank, is_float, is_printable, is_true, items,
    needed, size, string, tuple, whole,
};
use super::work::counted;

/// Calls a method that minijinja does not know.
pub fn call(state: &mut State, value: &Value, name: &str, arguments: &[Value]) -> Result<Value> {
    let made = match value.kind() {
        ValueKind::String => text_method(string(value)?, name, arguments),
        ValueKind::Map => map_method(value, name, arguments),
        ValueKind::Seq | ValueKind::Iterable => list_method(value, name, arguments),
        ValueKind::Number | ValueKind::Bool => number_method(value, name, arguments),
        _ => Err(unknown()),
    };
    counted(state, &[std::slice::from_ref(value), arguments].concat(), made?)
}

fn unknown() -> Error {
    Error::from(ErrorKind::UnknownMethod)
}

fn list_method(list: &Value, name: &str, arguments: &[Value]) -> Result<Value> {
    match name {
        "count" => {
            let [wanted] = bind([""], arguments)?;
            let wanted = needed(wanted, "value")?;
            Ok(items(list)?.iter().filter(|item| **item == wanted).count().into())
        }
        "index" => {
            let [wanted] = bind([""], arguments)?;
            let wanted = needed(wanted, "value")?;
            let at = items(list)?.iter().position(|item| *item == wanted);
            at.map(Value::from).ok_or_else(|| invalid("index: the value is not in the list"))
        }
        "copy" if !list.is_tuple() => {
            let [] = bind([], arguments)?;
            Ok(items(list)?.into())
        }
        _ => Err(unknown()),
    }
}

fn map_method(map: &Value, name: &str, arguments: &[Value]) -> Result<Value> {
    let pairs = || -> Result<Vec<(Value, Value)>> {
        items(map)?.into_iter().map(|key| Ok((key.clone(), map.get_item(&key)?))).collect()
    };
    match name {
        "get" => {
            let [key, default] = bind(["", ""], arguments)?;
            let key = needed(key, "key")?;
            Ok(match map.as_object().and_then(|map| map.get_value(&key)) {
                Some(value) => value,
                None => default.unwrap_or_else(|| Value::from(())),
            })
        }
        "fromkeys" => {
            let [keys, value] = bind(["", ""], arguments)?;
            let value = value.unwrap_or_else(|| Value::from(()));
            let keys = items(&needed(keys, "keys")?)?;
            Ok(Value::from_pairs(keys.into_iter().map(|key| (key, value.clone()))))
        }
        "keys" | "values" | "items" | "copy" => {
            let [] = bind([], arguments)?;
            let pairs = pairs()?.into_iter();
            Ok(match name {
                "keys" => pairs.map(|(key, _)| key).collect::<Vec<_>>().into(),
                "values" => pairs.map(|(_, value)| value).collect::<Vec<_>>().into(),
                "items" => {
                    pairs.map(|(key, value)| tuple(vec![key, value])).collect::<Vec<_>>().into()
                }
                _ => Value::from_pairs(pairs),
            })
        }
        _ => Err(unknown()),
    }
}

fn number_method(number: &Value, name: &str, arguments: &[Value]) -> Result<Value> {
    match name {
        "is_integer" => {
            let [] = bind([], arguments)?;
            Ok((float(number)?.fract() == 0.0).into())
        }
        "bit_length" if !is_float(number) => {
            let [] = bind([], arguments)?;
            Ok((128 - whole(number)?.unsigned_abs().leading_zeros()).into())
        }
        "conjugate" => {
            let [] = bind([], arguments)?;
            Ok(number.clone())
        }
        _ => Err(unknown()),
    }
}

pub fn text_method(this: &str, name: &str, arguments: &[Value]) -> Result<Value> {
    if name == "format" {
        return formatted(FormatStyle::StrFormat, this, arguments);
    }
    if let Some(result) = changed(this, name).map(Value::from).or_else(|| asked(this, name)) {
        let [] = bind([], arguments)?;
        return Ok(result);
    }
    match name {
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = bind([""], arguments)?;
            let chars = chars.filter(|chars| !chars.is_none());
            let chars = chars.as_ref().map(string).transpose()?;
            let strips = |c: char| chars.map_or(is_blank(c), |chars| chars.contains(c));
            Ok(match name {
                "strip" => this.trim_matches(strips),
                "lstrip" => this.trim_start_matches(strips),
                _ => this.trim_end_matches(strips),
            }
            .into())
        }
        "removeprefix" | "removesuffix" => {
            let [part] = bind([""], arguments)?;
            let part = needed(part, "text")?;
            let rest = match name {
                "removeprefix" => this.strip_prefix(string(&part)?),
                _ => this.strip_suffix(string(&part)?),
            };
            Ok(rest.unwrap_or(this).into())
        }
        "center" | "ljust" | "rjust" | "zfill" => {
            let [width, fill] = bind(["", ""], arguments)?;
            let fill = fill.unwrap_or_else(|| " ".into());
            padded(this, name, size(&needed(width, "width")?)?, string(&fill)?).map(Value::from)
        }
        "expandtabs" => {
            let [size_of_tab] = bind(["tabsize"], arguments)?;
            expanded(this, size_of_tab.as_ref().map_or(Ok(8), size)?).map(Value::from)
        }
        "count" | "find" | "rfind" | "index" | "rindex" | "startswith" | "endswith" => {
            searched(this, name, arguments)
        }
        "partition" | "rpartition" => {
            let [separator] = bind([""], arguments)?;
            let separator = needed(separator, "sep")?;
            let separator = string(&separator)?;
            if separator.is_empty() {
                return Err(invalid("partition: the separator is empty"));
            }
            let parts = match name {
                "partition" => this.split_once(separator),
                _ => this.rsplit_once(separator),
            };
            let parts = match parts {
                Some((before, after)) => [before, separator, after],
                None if name == "partition" => [this, "", ""],
                None => ["", "", this],
            };
            Ok(tuple(parts.map(Value::from).into()))
        }
        "split" | "rsplit" => {
            let [separator, most] = bind(["sep", "maxsplit"], arguments)?;
            let most = at_most(&most)?;
            let separator = separator.filter(|separator| !separator.is_none());
            let separator = separator.as_ref().map(string).transpose()?;
            let parts = split(this, separator, most, name == "rsplit")?;
            Ok(parts.into_iter().map(Value::from).collect::<Vec<_>>().into())
        }
        "splitlines" => {
            let [keeps] = bind(["keepends"], arguments)?;
            let lines = lines(this, is_true(&keeps));
            Ok(lines.into_iter().map(Value::from).collect::<Vec<_>>().into())
        }
        "join" => {
            let [parts] = bind([""], arguments)?;
            let mut joined = Text::default();
            for (i, part) in items(&needed(parts, "parts")?)?.iter().enumerate() {
                joined.push(if i > 0 { this } else { "" })?;
                joined.push(string(part)?)?;
            }
            Ok(joined.done().into())
        }
        "replace" => {
            let [old, new, most] = bind(["", "", "count"], arguments)?;
            let (old, new) = (needed(old, "old")?, needed(new, "new")?);
            let most = at_most(&most)?;
            replaced(this, string(&old)?, string(&new)?, most).map(Value::from)
        }
        "translate" => {
            let [table] = bind([""], arguments)?;
            let table = needed(table, "table")?;
            let mut out = Text::default();
            for c in this.chars() {
                match table.get_item(&Value::from(c as u32))? {
                    to if to.is_undefined() => out.push(c.encode_utf8(&mut [0; 4]))?,
                    to if to.is_none() => {}
                    to if to.as_str().is_some() => out.push(string(&to)?)?,
                    to => {
                        let code = u32::try_from(whole(&to)?).ok().and_then(char::from_u32);
                        let c = code.ok_or_else(|| invalid("translate: no character"))?;
                        out.push(c.encode_utf8(&mut [0; 4]))?;
                    }
                }
            }
            Ok(out.done().into())
        }
        _ => Err(unknown()),
    }
}

/// How often at most; without an argument, or with a negative one, always.
fn at_most(count: &Option<Value>) -> Result<usize> {
    let count = count.as_ref().map(whole).transpose()?.filter(|count| *count >= 0);
    Ok(count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX))
}

/// The methods without arguments that give another text.
fn changed(this: &str, name: &str) -> Option<String> {
    Some(match name {
        "upper" => this.to_uppercase(),
        "lower" => this.to_lowercase(),
        "casefold" => this.to_lowercase().replace('ß', "ss").replace('ŉ', "ʼn"),
        "swapcase" => {
            let swapped = |c: char| match c.is_uppercase() {
                true => c.to_lowercase().collect::<String>(),
                false => c.to_uppercase().collect(),
            };
            this.chars().map(swapped).collect()
        }
        "capitalize" => capitalized(this),
        "title" => titled(this, |before| before.is_alphabetic()),
        _ => return None,
    })
}

/// The first character in title case, the others in lower case.
pub fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(title_case).unwrap_or_default();
    first + &rest.as_str().to_lowercase()
}

/// A word's first character in title case: only the first letter of a ligature is a capital.
fn title_case(c: char) -> String {
    let mut upper = c.to_uppercase();
    let first: String = upper.next().into_iter().collect();
    first + &upper.flat_map(char::to_lowercase).collect::<String>()
}

/// Words with a capital; a character goes on a word if `goes_on` says so of the one before.
pub fn titled(text: &str, goes_on: impl Fn(char) -> bool) -> String {
    let mut before = None;
    let mut titled = String::with_capacity(text.len());
    for c in text.chars() {
        match before.is_some_and(&goes_on) {
            true => titled.extend(c.to_lowercase()),
            false => titled.push_str(&title_case(c)),
        }
        before = Some(c);
    }
    titled
}

/// The methods without arguments that ask something of all characters.
fn asked(this: &str, name: &str) -> Option<Value> {
    let all = |is: fn(char) -> bool| !this.is_empty() && this.chars().all(is);
    let decimal = |c: char| c.is_numeric() && is_decimal(c);
    Some(Value::from(match name {
        "isalnum" => all(|c| c.is_alphanumeric()),
        "isalpha" => all(char::is_alphabetic),
        "isascii" => this.is_ascii(),
        "isdecimal" => !this.is_empty() && this.chars().all(decimal),
        "isdigit" => {
            let is =
                |c: char| decimal(c) || matches!(c, '²' | '³' | '¹' | '⁰' | '⁴'..='⁹' | '₀'..='₉');
            !this.is_empty() && this.chars().all(is)
        }
        "isnumeric" => {
            let han = |c: char| "零〇一二三四五六七八九十百千万亿億".contains(c);
            !this.is_empty() && this.chars().all(|c| c.is_numeric() || han(c))
        }
        "isidentifier" => {
            all(|c| c.is_alphanumeric() || c == '_') && !this.starts_with(char::is_numeric)
        }
        "isprintable" => this.chars().all(is_printable),
        "isspace" => all(is_blank),
        "islower" => this.chars().any(char::is_lowercase) && !this.chars().any(char::is_uppercase),
        "isupper" => this.chars().any(char::is_uppercase) && !this.chars().any(char::is_lowercase),
        "istitle" => {
            let cased = |c: char| c.is_uppercase() || c.is_lowercase();
            let before = std::iter::once(' ').chain(this.chars());
            let fits = |(before, c): (char, char)| match c.is_uppercase() {
                true => !cased(before),
                false => !c.is_lowercase() || cased(before),
            };
            this.chars().any(cased) && before.zip(this.chars()).all(fits)
        }
        _ => return None,
    }))
}

/// Whether a numeric character is a decimal digit: these stand in blocks of ten.
fn is_decimal(c: char) -> bool {
    c.is_ascii_digit()
        || matches!(c, '٠'..='٩' | '۰'..='۹' | '०'..='९' | '０'..='９' | '০'..='৯' | '๐'..='๙')
}

fn padded(this: &str, name: &str, width: usize, fill: &str) -> Result<String> {
    if fill.chars().count() != 1 {
        return Err(invalid(format!("{name}: found {fill:?}, expected one character")));
    }
    let len = this.chars().count();
    let missing = width.saturating_sub(len);
    let mut out = Text::default();
    match name {
        "zfill" => {
            let signed = this.starts_with(['+', '-']);
            let (sign, digits) = this.split_at(usize::from(signed));
            out.push(sign)?;
            out.repeat("0", missing)?;
            out.push(digits)?;
        }
        _ => {
            let left = match name {
                "ljust" => 0,
                "rjust" => missing,
                // Python puts the odd one on the left if the width is odd.
                _ => missing / 2 + (missing & width & 1),
            };
            out.repeat(fill, left)?;
            out.push(this)?;
            out.repeat(fill, missing - left)?;
        }
    }
    Ok(out.done())
}

fn expanded(this: &str, tab: usize) -> Result<String> {
    let mut out = Text::default();
    let mut column = 0;
    for c in this.chars() {
        match c {
            '\t' => {
                let blanks = if tab == 0 { 0 } else { tab - column % tab };
                out.repeat(" ", blanks)?;
                column += blanks;
            }
            c => {
                out.push(c.encode_utf8(&mut [0; 4]))?;
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
            }
        }
    }
    Ok(out.done())
}

/// `count`, `find` and others of a part in a range of characters.
fn searched(this: &str, name: &str, arguments: &[Value]) -> Result<Value> {
    let [part, start, end] = bind(["", "", ""], arguments)?;
    let part = needed(part, "text")?;
    let len = this.chars().count() as i128;
    let bound = |bound: Option<Value>, absent: i128| -> Result<i128> {
        match bound.filter(|bound| !bound.is_none()) {
            None => Ok(absent),
            Some(bound) => whole(&bound).map(|at| if at < 0 { (at + len).max(0) } else { at }),
        }
    };
    let (start, end) = (bound(start, 0)?, bound(end, len)?.min(len));
    let byte = |at: i128| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        this.char_indices().nth(at).map_or(this.len(), |(at, _)| at)
    };
    let range = (start <= end).then(|| &this[byte(start)..byte(end)]);
    if matches!(name, "startswith" | "endswith") {
        let parts = if part.is_tuple() { items(&part)? } else { vec![part] };
        let mut fits = false;
        for part in &parts {
            let part = string(part)?;
            fits |= range.is_some_and(|range| match name {
                "startswith" => range.starts_with(part),
                _ => range.ends_with(part),
            });
        }
        return Ok(fits.into());
    }
    let part = string(&part)?;
    if name == "count" {
        return Ok(range.map_or(0, |range| range.matches(part).count()).into());
    }
    let found = range.and_then(|range| {
        let at = if name.starts_with('r') { range.rfind(part) } else { range.find(part) };
        at.map(|at| start + range[..at].chars().count() as i128)
    });
    match found {
        Some(at) => Ok(integer(at)),
        None if name.ends_with("find") => Ok((-1).into()),
        None => Err(invalid(format!("{name}: the text does not contain {part:?}"))),
    }
}

fn split<'a>(
    this: &'a str,
    separator: Option<&str>,
    most: usize,
    from_end: bool,
) -> Result<Vec<&'a str>> {
    let pieces = most.saturating_add(1);
    Ok(match separator {
        Some("") => return Err(invalid("split: the separator is empty")),
        Some(separator) if from_end => {
            let mut parts: Vec<&str> = this.rsplitn(pieces, separator).collect();
            parts.reverse();
            parts
        }
        Some(separator) => this.splitn(pieces, separator).collect(),
        None if from_end => {
            let (mut parts, mut rest) = (Vec::new(), this.trim_end_matches(is_blank));
            while !rest.is_empty() {
                let end = rest.char_indices().rfind(|(_, c)| is_blank(*c));
                let cut = end.filter(|_| parts.len() < most);
                let start = cut.map_or(0, |(at, c)| at + c.len_utf8());
                let part = &rest[start..];
                parts.push(part);
                rest = rest[..start].trim_end_matches(is_blank);
            }
            parts.reverse();
            parts
        }
        None => {
            let (mut parts, mut rest) = (Vec::new(), this.trim_start_matches(is_blank));
            while !rest.is_empty() {
                let end = rest.find(is_blank).filter(|_| parts.len() < most);
                let end = end.unwrap_or(rest.len());
                let part = if parts.len() == most { rest } else { &rest[..end] };
                parts.push(part);
                rest = rest[end..].trim_start_matches(is_blank);
            }
            parts
        }
    })
}

/// The lines of a text, with their ends if `keeps`.
pub fn lines(text: &str, keeps: bool) -> Vec<&str> {
    let ends = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let (mut lines, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let at = rest.find(ends).unwrap_or(rest.len());
        let end = rest[at..].chars().next().map_or(0, char::len_utf8);
        let end = at + if rest[at..].starts_with("\r\n") { 2 } else { end };
        lines.push(&rest[..if keeps { end } else { at }]);
        rest = &rest[end..];
    }
    lines
}

/// Replaces up to so many parts of a text.
fn replaced(this: &str, old: &str, new: &str, most: usize) -> Result<String> {
    let mut out = Text::default();
    let mut from = 0;
    for (at, part) in this.match_indices(old).take(most) {
        out.push(&this[from..at])?;
        out.push(new)?;
        from = at + part.len();
    }
    out.push(&this[from..])?;
    Ok(out.done())
}
