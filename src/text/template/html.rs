//! Text that is marked as HTML, which escapes what it is joined with.

use minijinja::Value;

use super::python::{Result, Text, text};

/// Characters and what HTML writes for them.
pub const ENTITIES: [(char, &str); 5] =
    [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('\'', "&#39;"), ('"', "&#34;")];

/// A text as HTML.
pub fn escaped(text: &str) -> Result<String> {
    let mut out = Text::default();
    for c in text.chars() {
        match ENTITIES.iter().find(|(plain, _)| *plain == c) {
            Some((_, entity)) => out.push(entity)?,
            None => out.push(c.encode_utf8(&mut [0; 4]))?,
        }
    }
    Ok(out.done())
}

/// Adds two texts. If one is marked as HTML, the other is escaped, and so is the sum.
pub fn added(a: &Value, b: &Value) -> Result<Value> {
    let marked = a.is_safe() || b.is_safe();
    let mut sum = Text::default();
    for part in [a, b] {
        match marked && !part.is_safe() {
            true => sum.push(&escaped(&text(part)?)?)?,
            false => sum.push(&text(part)?)?,
        }
    }
    let sum = sum.done();
    Ok(if marked { Value::from_safe_string(sum) } else { sum.into() })
}
