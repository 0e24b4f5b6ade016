//! Filters of numbers.

use minijinja::Value;

use super::python::{Result, bind, float, integer, invalid, is_blank, needed, only, whole};

pub fn absolute(arguments: &[Value]) -> Result<Value> {
    let value = only(arguments)?;
    match whole(&value) {
        Ok(number) => Ok(integer(number.saturating_abs())),
        Err(_) => Ok(float(&value)?.abs().into()),
    }
}

pub fn round(arguments: &[Value]) -> Result<Value> {
    let [value, precision, method] = bind(["", "precision", "method"], arguments)?;
    let value = needed(value, "value")?;
    let precision = precision.as_ref().map(whole).transpose()?.unwrap_or(0).clamp(-300, 300) as i32;
    let number = float(&value)?;
    let scale = 10_f64.powi(precision);
    let rounded = match method.as_ref().and_then(|method| method.as_str()) {
        None | Some("common") if precision >= 0 => {
            format!("{number:.*}", precision as usize).parse().unwrap_or(number)
        }
        None | Some("common") => (number * scale).round_ties_even() / scale,
        Some("ceil") => (number * scale).ceil() / scale,
        Some("floor") => (number * scale).floor() / scale,
        Some(other) => {
            let message = format!("round: found {other:?}, expected common, ceil or floor");
            return Err(invalid(message));
        }
    };
    let keeps =
        whole(&value).is_ok() && method.as_ref().is_none_or(|m| m.as_str() == Some("common"));
    Ok(if keeps { integer(rounded as i128) } else { rounded.into() })
}

pub fn to_float(arguments: &[Value]) -> Result<Value> {
    let [value, default] = bind(["", "default"], arguments)?;
    let value = needed(value, "value")?;
    let parsed = match value.as_str() {
        Some(text) => text.trim_matches(is_blank).replace('_', "").parse().ok(),
        None => float(&value).ok(),
    };
    Ok(parsed.map_or_else(|| default.unwrap_or_else(|| 0.0.into()), Value::from))
}

pub fn to_int(arguments: &[Value]) -> Result<Value> {
    let [value, default, base] = bind(["", "default", "base"], arguments)?;
    let value = needed(value, "value")?;
    let base = base.as_ref().map(whole).transpose()?.unwrap_or(10);
    let parsed = match value.as_str() {
        Some(text) => {
            let text = text.trim_matches(is_blank).replace('_', "").to_lowercase();
            let prefix = match base {
                16 => "0x",
                8 => "0o",
                2 => "0b",
                _ => "",
            };
            let digits = text.strip_prefix(prefix).unwrap_or(&text);
            let radix = u32::try_from(base).ok().filter(|base| (2..=36).contains(base));
            let whole = radix.and_then(|radix| i128::from_str_radix(digits, radix).ok());
            let cut = || text.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| n as i128);
            whole.or_else(cut)
        }
        None => match whole(&value) {
            Ok(number) => Some(number),
            Err(_) => float(&value).ok().filter(|number| number.is_finite()).map(|n| n as i128),
        },
    };
    Ok(parsed.map_or_else(|| default.unwrap_or_else(|| 0.into()), integer))
}
