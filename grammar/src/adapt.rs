//! Rewrites JSON schemas for the compiler.
//!
//! The compiler reads patterns as Rust's `regex`, but JSON Schema uses ECMAScript's; it allows too much
//! for some formats and multiples; and it does not know some keywords, and escapes in references. Such parts
//! of a schema are rewritten as equivalent ones.

use serde_json::{Map, Value, json};

use crate::{
    beyond::{is_beyond, terms},
    check::{MAX_COUNT, MAX_NUMBER},
    schema::{Held, held, is_escaped, resolve, rust_pattern},
};

const DAY: &str = concat!(
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])",
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))",
    // 29 February in leap years.
    r"|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)",
);

/// Without leap seconds: which ones exist depends on the time zone. Of few digits, or a weak model writes
/// digits until its answer is cut off.
const TIME: &str = concat!(
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,18})?",
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
    let root = schema.clone();
    let mut adapter = Adapter { root: &root, escaped: Vec::new() };
    adapter.adapt(schema);
    // Targets of references with escapes stand under names without.
    let mut done = 0;
    while let Some(reference) = adapter.escaped.get(done) {
        let mut target = resolve(&root, reference).cloned().unwrap_or_default();
        adapter.adapt(&mut target);
        schema["$defs"][place(done)] = target;
        done += 1;
    }
}

/// The name in `$defs` of the target of a reference with escapes.
fn place(index: usize) -> String {
    format!("x-reference-{index}")
}

struct Adapter<'a> {
    /// The whole schema, not yet rewritten.
    root: &'a Value,
    /// References with escapes.
    escaped: Vec<String>,
}

impl Adapter<'_> {
    fn adapt(&mut self, schema: &mut Value) {
        let Value::Object(keywords) = schema else { return };
        let mut besides = self.beyond(keywords);
        for (keyword, value) in keywords.iter_mut() {
            match held(keyword, value) {
                Held::Schema => self.adapt(value),
                Held::Schemas => {
                    let schemas = value.as_array_mut().into_iter().flatten();
                    schemas.for_each(|schema| self.adapt(schema));
                }
                Held::NamedSchemas => {
                    let schemas = value.as_object_mut().into_iter().flat_map(Map::values_mut);
                    schemas.for_each(|schema| self.adapt(schema));
                }
                Held::Data => clamp(keyword, value),
            }
        }
        if let Some(Value::String(reference)) = keywords.get_mut("$ref")
            && is_escaped(reference)
        {
            let known = self.escaped.iter().position(|other| other == reference);
            let index = known.unwrap_or(self.escaped.len());
            let unescaped = format!("#/$defs/{}", place(index));
            let reference = std::mem::replace(reference, unescaped);
            if known.is_none() {
                self.escaped.push(reference);
            }
        }
        besides.extend(narrowed(keywords));
        if !besides.is_empty() {
            let all = keywords.entry("allOf").or_insert_with(|| json!([]));
            all.as_array_mut().into_iter().for_each(|all| all.append(&mut besides));
        }
    }

    /// Removes the keywords that the compiler does not know, and returns schemas that say the same.
    fn beyond(&mut self, keywords: &mut Map<String, Value>) -> Vec<Value> {
        let said = keywords.iter().filter(|(keyword, value)| is_beyond(keyword, value));
        let said = said.filter_map(|(keyword, value)| terms(keyword, value, keywords, self.root));
        let mut said: Vec<Value> = said.flatten().collect();
        keywords.retain(|keyword, value| !is_beyond(keyword, value));
        said.iter_mut().for_each(|term| self.adapt(term));
        said
    }
}

/// Brings a bound into the range of numbers and lengths that occur.
fn clamp(keyword: &str, value: &mut Value) {
    match (keyword, value.as_f64()) {
        ("minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum", Some(bound))
            if bound.abs() > MAX_NUMBER =>
        {
            *value = MAX_NUMBER.copysign(bound).into();
        }
        ("maxLength" | "maxItems" | "maxProperties", Some(most)) if most > MAX_COUNT as f64 => {
            *value = MAX_COUNT.into();
        }
        _ => {}
    }
}

/// Rewrites patterns, and formats and multiples that the compiler takes too widely: removes them, or
/// returns schemas that hold as well.
fn narrowed(keywords: &mut Map<String, Value>) -> Vec<Value> {
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
    besides
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
