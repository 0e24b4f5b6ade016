//! Python's operators: arithmetic, comparisons, format strings and slices.

use std::cmp::Ordering;

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::html::added;
use super::python::{
    MAX_ITEMS, MAX_TEXT, Result, Text, float, integer, invalid, is_list, items, size, string, text,
    tuple, whole,
};

/// The order of two values that Python can order.
pub fn order(a: &Value, b: &Value) -> Result<Ordering> {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return Ok(a.cmp(b));
    }
    if let (Ok(a), Ok(b)) = (whole(a), whole(b)) {
        return Ok(a.cmp(&b));
    }
    if let (Ok(a), Ok(b)) = (float(a), float(b)) {
        return Ok(a.partial_cmp(&b).unwrap_or(Ordering::Equal));
    }
    if is_list(a) && is_list(b) && a.is_tuple() == b.is_tuple() {
        let (a, b) = (items(a)?, items(b)?);
        for (a, b) in a.iter().zip(&b) {
            if a != b {
                return order(a, b);
            }
        }
        return Ok(a.len().cmp(&b.len()));
    }
    Err(invalid(format!("found {} and {}, which have no order", a.kind(), b.kind())))
}

/// Sorts by a key of each item.
pub fn sorted(
    items: Vec<Value>,
    key: impl Fn(&Value) -> Result<Value>,
    reverse: bool,
) -> Result<Vec<Value>> {
    let mut keyed: Vec<(Value, Value)> =
        items.into_iter().map(|item| Ok((key(&item)?, item))).collect::<Result<_>>()?;
    let mut failed = None;
    keyed.sort_by(|(a, _), (b, _)| {
        let (a, b) = if reverse { (b, a) } else { (a, b) };
        order(a, b).unwrap_or_else(|error| {
            failed.get_or_insert(error);
            Ordering::Equal
        })
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
    }
}

/// An operand, and then an operator and an operand each.
pub fn operate(operands: &[Value]) -> Result<Value> {
    let Some((first, rest)) = operands.split_first() else { return Ok(Value::UNDEFINED) };
    let sign = |pair: &[Value]| pair[0].as_str().unwrap_or_default().to_owned();
    if let Some(pair) = rest.chunks_exact(2).next()
        && matches!(sign(pair).as_str(), "in" | "not in" | "==" | "!=" | "<" | "<=" | ">" | ">=")
    {
        let mut left = first;
        for pair in rest.chunks_exact(2) {
            if !compare(left, &sign(pair), &pair[1])? {
                return Ok(false.into());
            }
            left = &pair[1];
        }
        return Ok(true.into());
    }
    if rest.first().is_some_and(|sign| sign.as_str() == Some("~")) {
        let mut joined = Text::default();
        for part in operands.iter().step_by(2) {
            joined.push(&text(part)?)?;
        }
        return Ok(joined.done().into());
    }
    let pairs = rest.chunks_exact(2);
    pairs.into_iter().try_fold(first.clone(), |left, pair| compute(&left, &sign(pair), &pair[1]))
}

fn compare(a: &Value, sign: &str, b: &Value) -> Result<bool> {
    Ok(match sign {
        "==" => a == b,
        "!=" => a != b,
        "in" => contains(b, a)?,
        "not in" => !contains(b, a)?,
        "<" => order(a, b)?.is_lt(),
        "<=" => order(a, b)?.is_le(),
        ">" => order(a, b)?.is_gt(),
        _ => order(a, b)?.is_ge(),
    })
}

pub fn contains(whole: &Value, part: &Value) -> Result<bool> {
    match whole.kind() {
        ValueKind::String => Ok(string(whole)?.contains(string(part)?)),
        ValueKind::Map => Ok(whole.as_object().and_then(|map| map.get_value(part)).is_some()),
        _ => Ok(items(whole)?.contains(part)),
    }
}

fn compute(a: &Value, sign: &str, b: &Value) -> Result<Value> {
    let impossible =
        || invalid(format!("found {} {sign} {}, which is not possible", a.kind(), b.kind()));
    match (a.as_str(), b.as_str(), sign) {
        (Some(format), _, "%") => return percent(format, b),
        (Some(_), Some(_), "+") => return added(a, b),
        (Some(text), None, "*") => return repeated(text, b),
        (None, Some(text), "*") => return repeated(text, a),
        (Some(_), ..) | (_, Some(_), _) => return Err(impossible()),
        _ => {}
    }
    if is_list(a) || is_list(b) {
        let like =
            |of: &Value, items| if of.is_tuple() { tuple(items) } else { Value::from(items) };
        return match sign {
            "+" if is_list(a) && is_list(b) && a.is_tuple() == b.is_tuple() => {
                let (mut items, more) = (items(a)?, items(b)?);
                fits(items.len() + more.len())?;
                items.extend(more);
                Ok(like(a, items))
            }
            "*" => {
                let (list, times) = if is_list(a) { (a, size(b)?) } else { (b, size(a)?) };
                let items = items(list)?;
                fits(items.len().saturating_mul(times))?;
                // Nothing is nothing however often, and counting that far would take forever.
                let times = if items.is_empty() { 0 } else { times };
                Ok(like(list, std::iter::repeat_n(items, times).flatten().collect()))
            }
            _ => Err(impossible()),
        };
    }
    if let (Ok(a), Ok(b), false) = (whole(a), whole(b), sign == "/") {
        let large = || invalid(format!("{a} {sign} {b} is too large"));
        return match sign {
            "+" => a.checked_add(b).map(integer).ok_or_else(large),
            "-" => a.checked_sub(b).map(integer).ok_or_else(large),
            "*" => a.checked_mul(b).map(integer).ok_or_else(large),
            "**" if b >= 0 => {
                let power = u32::try_from(b).ok().and_then(|b| a.checked_pow(b));
                power.map(integer).ok_or_else(large)
            }
            "**" if a != 0 => Ok((a as f64).powf(b as f64).into()),
            "//" | "%" if b != 0 => {
                let quotient = a.checked_div_euclid(b).ok_or_else(large)?;
                let rest = a.checked_rem_euclid(b).ok_or_else(large)?;
                // Python rounds down, so that the rest has the divisor's sign.
                let (quotient, rest) = match b < 0 && rest != 0 {
                    true => (quotient - 1, rest + b),
                    false => (quotient, rest),
                };
                Ok(integer(if sign == "%" { rest } else { quotient }))
            }
            _ => Err(invalid("division by zero")),
        };
    }
    let (Ok(a), Ok(b)) = (float(a), float(b)) else { return Err(impossible()) };
    if b == 0.0 && matches!(sign, "/" | "//" | "%") {
        return Err(invalid("division by zero"));
    }
    Ok(Value::from(match sign {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => (a / b).floor(),
        "%" => a - b * (a / b).floor(),
        _ => match a.powf(b) {
            power if power.is_infinite() && a.is_finite() => {
                return Err(invalid(format!("{a} ** {b} is too large")));
            }
            power => power,
        },
    }))
}

/// Refuses a list that is too long.
fn fits(items: usize) -> Result<()> {
    match items > MAX_ITEMS {
        true => Err(invalid(format!("it makes a list of more than {MAX_ITEMS} items"))),
        false => Ok(()),
    }
}

/// `format % values`
fn percent(format: &str, values: &Value) -> Result<Value> {
    let takes_none = values.is_tuple() && values.len() == Some(0);
    if !format.contains('%')
        && !takes_none
        && !matches!(values.kind(), ValueKind::Map | ValueKind::Seq)
    {
        return Err(invalid(format!("{format:?} has no place for a value")));
    }
    match values.is_tuple() {
        true => formatted(FormatStyle::Printf, format, &items(values)?),
        false => formatted(FormatStyle::Printf, format, std::slice::from_ref(values)),
    }
}

/// Fills a format string whose fields are at most 9999 characters wide.
pub fn formatted(style: FormatStyle, template: &str, values: &[Value]) -> Result<Value> {
    let is_wide = |field: &str| {
        field
            .split(|c: char| !c.is_ascii_digit())
            .any(|number| number.trim_start_matches('0').len() > 4)
    };
    if template.split(['%', '{']).skip(1).any(is_wide) {
        return Err(invalid("a format holds a number of more than four digits"));
    }
    let written: usize = values.iter().filter_map(|value| value.as_str()).map(str::len).sum();
    let fields = template.matches(['%', '{']).count();
    if written.saturating_mul(fields).saturating_add(template.len()) > MAX_TEXT {
        return Err(invalid(format!("it makes a text longer than {MAX_TEXT} bytes")));
    }
    Ok(format(style, template, values)?.into())
}

fn repeated(text: &str, times: &Value) -> Result<Value> {
    let mut repeated = Text::default();
    repeated.repeat(text, size(times)?)?;
    Ok(repeated.done().into())
}

/// `value[start:stop:step]`
pub fn slice(value: &Value, [start, stop, step]: [&Value; 3]) -> Result<Value> {
    let is_text = value.as_str().is_some();
    if !is_text && !is_list(value) {
        return match value.kind() {
            ValueKind::Undefined | ValueKind::Map => {
                Err(Error::new(ErrorKind::UndefinedError, "the value has no slices"))
            }
            _ => Ok(Value::UNDEFINED),
        };
    }
    let number = |bound: &Value| (!bound.is_none()).then(|| whole(bound)).transpose();
    let step = number(step)?.unwrap_or(1);
    if step == 0 {
        return Err(invalid("a slice's step is 0"));
    }
    let chars: Vec<char> = value.as_str().unwrap_or_default().chars().collect();
    let items = if is_text { Vec::new() } else { items(value)? };
    let len = if is_text { chars.len() } else { items.len() } as i128;
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |bound: Option<i128>, absent: i128| match bound {
        None => absent,
        Some(bound) if bound < 0 => (bound + len).clamp(low, high),
        Some(bound) => bound.clamp(low, high),
    };
    let start = bound(number(start)?, if step > 0 { low } else { high });
    let stop = bound(number(stop)?, if step > 0 { high } else { low });
    let mut chosen = Vec::new();
    let mut at = start;
    while if step > 0 { at < stop } else { at > stop } {
        chosen.push(at as usize);
        at = at.saturating_add(step);
    }
    if is_text {
        return Ok(chosen.into_iter().map(|at| chars[at]).collect::<String>().into());
    }
    let chosen: Vec<Value> = chosen.into_iter().map(|at| items[at].clone()).collect();
    Ok(if value.is_tuple() { tuple(chosen) } else { chosen.into() })
}
