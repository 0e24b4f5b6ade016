//! Filters of lists and dictionaries.

use std::collections::HashSet;

use minijinja::Value;
use minijinja::value::ValueKind;

use super::operators::{operate, order, sorted};
use super::python::{
    Result, Text, bind, integer, invalid, is_list, is_true, items, needed, only, size, string,
    text, tuple, whole,
};

pub fn length(arguments: &[Value]) -> Result<Value> {
    let value = only(arguments)?;
    match value.kind() {
        ValueKind::Undefined => Ok(0.into()),
        _ => match value.len() {
            Some(len) => Ok(len.into()),
            None if is_list(&value) => Ok(items(&value)?.len().into()),
            None => Err(invalid(format!("found {}, which has no length", value.kind()))),
        },
    }
}

/// An item's attribute, `a.0.b`; the item itself without a path.
fn attribute(item: &Value, path: &Option<Value>) -> Result<Value> {
    let Some(path) = path.as_ref().filter(|path| !path.is_none()) else { return Ok(item.clone()) };
    if let Ok(index) = whole(path) {
        return item.get_item(&integer(index));
    }
    string(path)?.split('.').try_fold(item.clone(), |value, part| match part.parse::<i64>() {
        Ok(index) => value.get_item(&index.into()),
        Err(_) => value.get_attr(part),
    })
}

/// The key by which filters compare an item: texts without their case unless it counts.
fn key(item: &Value, path: &Option<Value>, cased: &Option<Value>) -> Result<Value> {
    let value = attribute(item, path)?;
    Ok(match value.as_str() {
        Some(text) if !is_true(cased) => text.to_lowercase().into(),
        _ => value,
    })
}

pub fn sort(arguments: &[Value]) -> Result<Value> {
    let [value, reverse, cased, path] =
        bind(["", "reverse", "case_sensitive", "attribute"], arguments)?;
    let paths: Vec<Option<Value>> = match path.as_ref().and_then(|path| path.as_str()) {
        Some(paths) => paths.split(',').map(|path| Some(path.into())).collect(),
        None => vec![path],
    };
    let by = |item: &Value| {
        let keys = paths.iter().map(|path| key(item, path, &cased));
        keys.collect::<Result<Vec<_>>>().map(Value::from)
    };
    Ok(sorted(items(&needed(value, "value")?)?, by, is_true(&reverse))?.into())
}

pub fn dict_sort(arguments: &[Value]) -> Result<Value> {
    let [map, cased, by, reverse] = bind(["", "case_sensitive", "by", "reverse"], arguments)?;
    let at = match by.as_ref().and_then(|by| by.as_str()) {
        None | Some("key") => Some(0.into()),
        Some("value") => Some(1.into()),
        Some(other) => {
            return Err(invalid(format!("dictsort: found {other:?}, expected key or value")));
        }
    };
    let pairs = pairs(&[needed(map, "value")?])?;
    Ok(sorted(items(&pairs)?, |pair| key(pair, &at, &cased), is_true(&reverse))?.into())
}

pub fn pairs(arguments: &[Value]) -> Result<Value> {
    let map = only(arguments)?;
    match map.kind() {
        ValueKind::Undefined => Ok(Vec::<Value>::new().into()),
        ValueKind::Map => {
            let pairs = items(&map)?.into_iter();
            let pair = |key: Value| Ok(tuple(vec![key.clone(), map.get_item(&key)?]));
            Ok(pairs.map(pair).collect::<Result<Vec<_>>>()?.into())
        }
        kind => Err(invalid(format!("found {kind}, expected a dictionary"))),
    }
}

pub fn unique(arguments: &[Value]) -> Result<Value> {
    let [value, cased, path] = bind(["", "case_sensitive", "attribute"], arguments)?;
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for item in items(&needed(value, "value")?)? {
        if seen.insert(key(&item, &path, &cased)?) {
            found.push(item);
        }
    }
    Ok(found.into())
}

pub fn most(arguments: &[Value], least: bool) -> Result<Value> {
    let [value, cased, path] = bind(["", "case_sensitive", "attribute"], arguments)?;
    let mut best: Option<(Value, Value)> = None;
    for item in items(&needed(value, "value")?)? {
        let by = key(&item, &path, &cased)?;
        let better = match &best {
            None => true,
            Some((best, _)) if least => order(&by, best)?.is_lt(),
            Some((best, _)) => order(&by, best)?.is_gt(),
        };
        if better {
            best = Some((by, item));
        }
    }
    Ok(best.map(|(_, item)| item).unwrap_or_default())
}

pub fn sum(arguments: &[Value]) -> Result<Value> {
    let [value, path, start] = bind(["", "attribute", "start"], arguments)?;
    let start = start.unwrap_or_else(|| 0.into());
    let mut total = start;
    for item in items(&needed(value, "value")?)? {
        total = operate(&[total, "+".into(), attribute(&item, &path)?])?;
    }
    Ok(total)
}

pub fn join(arguments: &[Value]) -> Result<Value> {
    let [value, separator, path] = bind(["", "d", "attribute"], arguments)?;
    let separator = separator.as_ref().map(text).transpose()?.unwrap_or_default();
    let mut joined = Text::default();
    for (i, item) in items(&needed(value, "value")?)?.iter().enumerate() {
        joined.push(if i > 0 { &separator } else { "" })?;
        joined.push(&text(&attribute(item, &path)?)?)?;
    }
    Ok(joined.done().into())
}

/// Most items that a filter adds to fill lists up.
const MAX_FILL: usize = 10_000;

fn small(count: &Value) -> Result<usize> {
    match size(count)? {
        0 => Err(invalid("found 0, expected at least 1")),
        count @ 1..=MAX_FILL => Ok(count),
        count => Err(invalid(format!("found {count}, expected at most {MAX_FILL}"))),
    }
}

pub fn batch(arguments: &[Value]) -> Result<Value> {
    let [value, count, fill] = bind(["", "linecount", "fill_with"], arguments)?;
    let count = small(&needed(count, "linecount")?)?;
    let items = items(&needed(value, "value")?)?;
    let rows = items.chunks(count).map(|row| {
        let mut row = row.to_vec();
        if let Some(fill) = fill.as_ref().filter(|fill| !fill.is_none()) {
            row.resize(count, fill.clone());
        }
        Value::from(row)
    });
    Ok(rows.collect::<Vec<_>>().into())
}

pub fn slices(arguments: &[Value]) -> Result<Value> {
    let [value, count, fill] = bind(["", "slices", "fill_with"], arguments)?;
    let count = small(&needed(count, "slices")?)?;
    let items = items(&needed(value, "value")?)?;
    let (each, longer) = (items.len() / count, items.len() % count);
    let mut rest = items.into_iter();
    let columns = (0..count).map(|i| {
        let mut column: Vec<Value> = rest.by_ref().take(each + usize::from(i < longer)).collect();
        column.extend(fill.clone().filter(|fill| !fill.is_none() && i >= longer));
        Value::from(column)
    });
    Ok(columns.collect::<Vec<_>>().into())
}

pub fn reverse(arguments: &[Value]) -> Result<Value> {
    let value = only(arguments)?;
    if let Some(text) = value.as_str() {
        return Ok(text.chars().rev().collect::<String>().into());
    }
    let mut items = items(&value)?;
    items.reverse();
    Ok(items.into())
}
