//! Rewrites JSON schemas for the compiler.
//!
//! The compiler reads patterns as Rust's `regex`, but JSON Schema uses ECMAScript's; and it allows too
//! much for some formats and multiples. Such parts of a schema are rewritten as equivalent ones.

use serde_json::{Map, Value, json};

use crate::schema::{Held, held, rust_pattern};

const DAY: &str = concat!(
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])",
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))",
    // 29 February in leap years.
    r"|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)",
);

/// Without leap seconds: which ones exist depends on the time zone.
const TIME: &str = concat!(
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?",
    r"(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])",
);

/// Without Punycode names and others with two hyphens in a row.
const HOST: &str = r"[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*(?:\.[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*)*";

/// Labels of a host name have at most 63 characters.
const SHORT_LABELS: &str = r"^(?:[^@]*@)?[^.@]{1,63}(?:\.[^.@]{1,63})*$";

/// Largest multiple, in steps: above it, JSON parsers round to other values.
const MAX_STEPS: f64 = 1e12;

/// Rewrites a schema that has passed the check.
pub fn adapt(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    for (keyword, value) in keywords.iter_mut() {
        match held(keyword, value) {
            Held::Schema => adapt(value),
            Held::Schemas => value.as_array_mut().into_iter().flatten().for_each(adapt),
            Held::NamedSchemas => {
                value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(adapt);
            }
            Held::Data => {}
        }
    }
    if let Some(Value::String(pattern)) = keywords.get_mut("pattern") {
        *pattern = rust_pattern(pattern);
    }
    if let Some(Value::Object(patterns)) = keywords.get_mut("patternProperties") {
        let named = std::mem::take(patterns).into_iter();
        *patterns = named.map(|(pattern, schema)| (rust_pattern(&pattern), schema)).collect();
    }
    let mut besides = Vec::new();
    if let Some(terms) = keywords.get("format").and_then(Value::as_str).and_then(format) {
        keywords.shift_remove("format");
        besides.extend(terms);
    }
    if let Some(step) = keywords.get("multipleOf").and_then(Value::as_f64) {
        let most = step * MAX_STEPS;
        besides.push(json!({ "minimum": -most, "maximum": most }));
    }
    if !besides.is_empty() {
        let all = keywords.entry("allOf").or_insert_with(|| json!([]));
        all.as_array_mut().into_iter().for_each(|all| all.append(&mut besides));
    }
}

/// The replacement of a format for which the compiler allows too much.
fn format(name: &str) -> Option<Vec<Value>> {
    let whole = |pattern: &str| json!({ "pattern": format!("^(?:{pattern})$") });
    Some(match name {
        "date" => vec![whole(DAY)],
        "time" => vec![whole(TIME)],
        "date-time" => vec![whole(&format!("{DAY}[tT]{TIME}"))],
        "hostname" => vec![whole(HOST), json!({ "pattern": SHORT_LABELS, "maxLength": 253 })],
        "email" => {
            let atom = r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+";
            let local = json!({ "pattern": "^.{1,64}@", "maxLength": 254 });
            let labels = json!({ "pattern": SHORT_LABELS });
            vec![whole(&format!(r"{atom}(?:\.{atom})*@{HOST}")), local, labels]
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_schemas_come_after_the_existing_ones() {
        let mut schema = json!({
            "allOf": [{"properties": {"a": {"format": "date"}}}],
            "format": "uuid",
            "multipleOf": 0.5,
            "enum": [{"format": "date"}],
        });
        adapt(&mut schema);
        let all = schema["allOf"].as_array().unwrap();
        assert!(all[0]["properties"]["a"]["allOf"][0]["pattern"].is_string());
        assert_eq!(all[1], json!({"minimum": -5e11, "maximum": 5e11}));
        assert_eq!(schema["format"], "uuid");
        assert_eq!(schema["enum"], json!([{"format": "date"}]));
    }
}
