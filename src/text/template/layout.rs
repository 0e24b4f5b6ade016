//! Filters that lay out text.

use std::collections::VecDeque;
use std::mem;

use minijinja::Value;

use super::methods::{lines, text_method};
use super::python::{Result, Text, bind, float, float_text, invalid, is_true, needed, size, text};

pub fn center(arguments: &[Value]) -> Result<Value> {
    let [value, width] = bind(["", "width"], arguments)?;
    let width = width.unwrap_or_else(|| 80.into());
    text_method(&text(&needed(value, "value")?)?, "center", &[width])
}

pub fn trim(arguments: &[Value]) -> Result<Value> {
    let [value, chars] = bind(["", "chars"], arguments)?;
    let chars = chars.unwrap_or_else(|| Value::from(()));
    text_method(&text(&needed(value, "value")?)?, "strip", &[chars])
}

pub fn replace(arguments: &[Value]) -> Result<Value> {
    let [value, old, new, most] = bind(["", "old", "new", "count"], arguments)?;
    let (old, new) = (text(&needed(old, "old")?)?, text(&needed(new, "new")?)?);
    let most = most.filter(|most| !most.is_none()).unwrap_or_else(|| (-1).into());
    text_method(&text(&needed(value, "value")?)?, "replace", &[old.into(), new.into(), most])
}

pub fn indent(arguments: &[Value]) -> Result<Value> {
    let [value, width, first, blank] = bind(["", "width", "first", "blank"], arguments)?;
    let mut indent = Text::default();
    match &width {
        None => indent.push("    ")?,
        Some(width) => match width.as_str() {
            Some(text) => indent.push(text)?,
            None => indent.repeat(" ", size(width)?)?,
        },
    }
    let indent = indent.done();
    let text = text(&needed(value, "value")?)? + "\n";
    let mut out = Text::default();
    for (i, line) in lines(&text, false).into_iter().enumerate() {
        let indents = if i == 0 { is_true(&first) } else { is_true(&blank) || !line.is_empty() };
        out.push(if i > 0 { "\n" } else { "" })?;
        out.push(if indents { &indent } else { "" })?;
        out.push(line)?;
    }
    Ok(out.done().into())
}

pub fn truncate(arguments: &[Value]) -> Result<Value> {
    let [value, length, kills, end, leeway] =
        bind(["", "length", "killwords", "end", "leeway"], arguments)?;
    let text_of = text(&needed(value, "value")?)?;
    let length = length.as_ref().map_or(Ok(255), size)?;
    let end = end.as_ref().map_or(Ok("...".into()), text)?;
    let leeway = leeway.filter(|leeway| !leeway.is_none()).as_ref().map_or(Ok(5), size)?;
    let room = length.checked_sub(end.chars().count());
    let room = room.ok_or_else(|| invalid(format!("truncate: {length} is less than {end:?}")))?;
    if text_of.chars().count() <= length.saturating_add(leeway) {
        return Ok(text_of.into());
    }
    let cut: String = text_of.chars().take(room).collect();
    let kept =
        if is_true(&kills) { &cut } else { cut.rsplit_once(' ').map_or(&*cut, |(kept, _)| kept) };
    Ok(format!("{kept}{end}").into())
}

pub fn word_wrap(arguments: &[Value]) -> Result<Value> {
    let names = ["", "width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let [value, width, breaks, end, hyphens] = bind(names, arguments)?;
    let width = width.as_ref().map_or(Ok(79), size)?.max(1);
    let breaks = breaks.is_none() || is_true(&breaks);
    let hyphens = hyphens.is_none() || is_true(&hyphens);
    let end = end.filter(|end| !end.is_none()).as_ref().map_or(Ok("\n".into()), text)?;
    let text = text(&needed(value, "value")?)?;
    let mut out = Text::default();
    for (i, line) in lines(&text, false).into_iter().enumerate() {
        out.push(if i > 0 { &end } else { "" })?;
        for (i, row) in wrapped(line, width, breaks, hyphens).iter().enumerate() {
            out.push(if i > 0 { &end } else { "" })?;
            out.push(row)?;
        }
    }
    Ok(out.done().into())
}

/// The rows of a line, as Python's `textwrap` breaks it.
fn wrapped(line: &str, width: usize, breaks: bool, hyphens: bool) -> Vec<String> {
    let mut chunks: Vec<String> = Vec::new();
    let mut before = None;
    for c in line.chars() {
        let joins = match before {
            None => false,
            Some(' ') => c == ' ',
            Some('-') if hyphens && c.is_alphabetic() => false,
            Some(_) => c != ' ',
        };
        match chunks.last_mut().filter(|_| joins) {
            Some(chunk) => chunk.push(c),
            None => chunks.push(c.into()),
        }
        before = Some(c);
    }
    let mut rows = vec![];
    let mut row = String::new();
    let mut chunks = VecDeque::from(chunks);
    while let Some(mut chunk) = chunks.pop_front() {
        let (len, free) = (chunk.chars().count(), width - row.chars().count().min(width));
        if row.is_empty() && !rows.is_empty() && chunk.trim().is_empty() {
            continue;
        }
        if len <= free {
            row.push_str(&chunk);
            continue;
        }
        if len > width && breaks && free > 0 {
            let at = chunk.char_indices().nth(free).map_or(chunk.len(), |(at, _)| at);
            let rest = chunk.split_off(at);
            row.push_str(&chunk);
            chunks.push_front(rest);
        } else if row.is_empty() {
            row.push_str(&chunk);
        } else {
            chunks.push_front(chunk);
        }
        rows.push(mem::take(&mut row).trim_end().to_owned());
    }
    if !row.trim_end().is_empty() {
        rows.push(row.trim_end().to_owned());
    }
    rows
}

pub fn file_size(arguments: &[Value]) -> Result<Value> {
    let [value, binary] = bind(["", "binary"], arguments)?;
    let value = needed(value, "value")?;
    let bytes = match value.as_str() {
        Some(text) => text.trim().parse().map_err(invalid)?,
        None => float(&value)?,
    };
    let binary = is_true(&binary);
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return Ok("1 Byte".into());
    } else if bytes < base {
        return Ok(format!("{} Bytes", bytes as i64).into());
    }
    let mut unit = base;
    for prefix in "kMGTPEZY".chars() {
        unit *= base;
        if bytes < unit || prefix == 'Y' {
            let prefix =
                if binary { format!("{}i", prefix.to_ascii_uppercase()) } else { prefix.into() };
            return Ok(format!("{:.1} {prefix}B", base * bytes / unit).into());
        }
    }
    Ok(float_text(bytes).into())
}
