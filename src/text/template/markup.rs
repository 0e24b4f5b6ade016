//! Filters for HTML and addresses.

use minijinja::Value;
use minijinja::value::ValueKind;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::html::{ENTITIES, escaped};
use super::lists::pairs;
use super::python::{
    Result, Text, bind, invalid, is_blank, is_true, items, needed, one, only, text,
};

/// What Python's `quote` encodes.
const PATH: AsciiSet =
    NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b'~').remove(b'/');
/// In names and values of a query; blanks become `+` afterwards.
const QUERY: AsciiSet = PATH.add(b'/').remove(b' ');

pub fn escape(arguments: &[Value], forces: bool) -> Result<Value> {
    let value = only(arguments)?;
    match value.is_safe() && !forces {
        true => Ok(value),
        false => Ok(Value::from_safe_string(escaped(&text(&value)?)?)),
    }
}

pub fn strip_tags(arguments: &[Value]) -> Result<Value> {
    let text = one(arguments)?;
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find('<') {
        let end = if rest[at..].starts_with("<!--") { "-->" } else { ">" };
        let Some(len) = rest[at..].find(end) else { break };
        plain.push_str(&rest[..at]);
        rest = &rest[at + len + end.len()..];
    }
    plain.push_str(rest);
    let named = [("&quot;", "\""), ("&apos;", "'")];
    let entities = ENTITIES.iter().rev().map(|(plain, entity)| (*entity, plain.to_string()));
    for (entity, plain_text) in named.map(|(a, b)| (a, b.to_owned())).into_iter().chain(entities) {
        plain = plain.replace(entity, &plain_text);
    }
    Ok(plain.split(is_blank).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").into())
}

pub fn url_encode(arguments: &[Value]) -> Result<Value> {
    let value = only(arguments)?;
    let pair_list = match value.kind() {
        ValueKind::Map => pairs(std::slice::from_ref(&value))?,
        ValueKind::Seq | ValueKind::Iterable => value.clone(),
        _ => return Ok(percent_encoded(&text(&value)?, &PATH)?.into()),
    };
    let mut out = Text::default();
    for (i, pair) in items(&pair_list)?.iter().enumerate() {
        let [name, value] = &items(pair)?[..] else { return Err(invalid("urlencode: no pairs")) };
        out.push(if i > 0 { "&" } else { "" })?;
        out.push(&percent_encoded(&text(name)?, &QUERY)?.replace(' ', "+"))?;
        out.push("=")?;
        out.push(&percent_encoded(&text(value)?, &QUERY)?.replace(' ', "+"))?;
    }
    Ok(out.done().into())
}

fn percent_encoded(text: &str, set: &'static AsciiSet) -> Result<String> {
    let mut out = Text::default();
    utf8_percent_encode(text, set).try_for_each(|part| out.push(part))?;
    Ok(out.done())
}

pub fn xml_attributes(arguments: &[Value]) -> Result<Value> {
    let [map, spaces] = bind(["", "autospace"], arguments)?;
    let mut out = Text::default();
    for pair in items(&pairs(&[needed(map, "value")?])?)? {
        let (name, value) = (pair.get_item(&0.into())?, pair.get_item(&1.into())?);
        if value.is_none() || value.is_undefined() {
            continue;
        }
        let name = text(&name)?;
        if name.contains(|c: char| is_blank(c) || matches!(c, '/' | '>' | '=')) {
            return Err(invalid(format!("xmlattr: {name:?} is no name")));
        }
        out.push(&format!(" {}=\"{}\"", escaped(&name)?, escaped(&text(&value)?)?))?;
    }
    let out = out.done();
    let spaced = spaces.is_none() || is_true(&spaces);
    Ok(Value::from_safe_string(if spaced { out } else { out.trim_start().into() }))
}
