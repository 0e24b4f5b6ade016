//! Keywords of JSON Schema that the compiler does not know. Where one asks for nothing, or for what other
//! keywords can say, answers are held to it all the same.

use serde_json::{Map, Value, json};

use crate::schema::is_draft_7;

/// The keywords of this file, besides formats that the compiler does not know.
const BEYOND: [&str; 20] = [
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// Formats that the compiler knows.
pub const FORMATS: [&str; 10] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];

/// The other formats of JSON Schema.
const OTHER_FORMATS: [&str; 9] = [
    "idn-email",
    "idn-hostname",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "uri-reference",
    "uri-template",
];

/// Formats that say nothing: of numbers, and of what is hidden while it is typed.
const LABELS: [&str; 4] = ["decimal", "double", "float", "password"];

/// Formats of integers, in OpenAPI and beyond, with their ranges.
const INTEGERS: [(&str, f64, f64); 11] = [
    ("int", i64::MIN as f64, i64::MAX as f64),
    ("int8", -128.0, 127.0),
    ("int16", -32768.0, 32767.0),
    ("int32", i32::MIN as f64, i32::MAX as f64),
    ("int64", i64::MIN as f64, i64::MAX as f64),
    ("uint", 0.0, u64::MAX as f64),
    ("uint8", 0.0, 255.0),
    ("uint16", 0.0, 65535.0),
    ("uint32", 0.0, u32::MAX as f64),
    ("uint64", 0.0, u64::MAX as f64),
    ("unixtime", i64::MIN as f64, i64::MAX as f64),
];

/// Keywords that say nothing of values.
const ANNOTATIONS: [&str; 9] = [
    "$comment",
    "default",
    "deprecated",
    "description",
    "example",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];

/// Keywords that apply schemas to the same value.
const IN_PLACE: [&str; 11] = [
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "allOf",
    "anyOf",
    "dependencies",
    "dependentSchemas",
    "if",
    "not",
    "oneOf",
    "then",
];

const BASE64: &str = concat!(
    "^(?:[A-Za-z0-9+/]{4})*",
    "(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$",
);

type Keywords = Map<String, Value>;

/// Whether the compiler does not know a keyword.
pub fn is_beyond(keyword: &str, value: &Value) -> bool {
    match keyword {
        "format" => value.as_str().is_some_and(|name| !FORMATS.contains(&name)),
        _ => BEYOND.contains(&keyword),
    }
}

/// Schemas that together say the same as a keyword of a schema: none if it asks for nothing, `None` if
/// answers cannot be held to it. `root` is the whole schema.
pub fn terms(
    keyword: &str,
    value: &Value,
    keywords: &Keywords,
    root: &Value,
) -> Option<Vec<Value>> {
    let of = match keyword {
        "contentEncoding" | "contentMediaType" | "format" => "string",
        "contains" | "maxContains" | "minContains" | "unevaluatedItems" | "uniqueItems" => "array",
        "dependencies"
        | "dependentRequired"
        | "dependentSchemas"
        | "propertyNames"
        | "unevaluatedProperties" => "object",
        _ => "",
    };
    if keyword == "format" {
        return format(value.as_str()?, keywords);
    }
    if !of.is_empty() && !allows(keywords, of) {
        return Some(Vec::new());
    }
    let nothing = Some(Vec::new());
    match keyword {
        // An anchor is for references, which are checked where they are.
        "$dynamicAnchor" | "$recursiveAnchor" => nothing,
        "contains" | "maxContains" | "minContains" => contains(keyword, keywords, root),
        // From 2019-09 on, contents are annotations.
        "contentEncoding" | "contentMediaType" if !is_draft_7(root) => nothing,
        "contentEncoding" if value == "base64" => Some(vec![json!({ "pattern": BASE64 })]),
        "dependencies" | "dependentRequired" | "dependentSchemas" => {
            let idle = |value: &Value| match value {
                Value::Array(names) => names.iter().all(|name| is_required(keywords, name)),
                schema => is_true(schema),
            };
            value.as_object()?.values().all(idle).then(Vec::new)
        }
        "if" => {
            let idle = |keyword| keywords.get(keyword).is_none_or(is_true);
            (idle("then") && idle("else")).then(Vec::new)
        }
        "then" | "else" => (!keywords.contains_key("if") || is_true(value)).then(Vec::new),
        "not" => not(value),
        "propertyNames" => property_names(value),
        "unevaluatedItems" | "unevaluatedProperties" if is_true(value) => nothing,
        "unevaluatedItems" | "unevaluatedProperties"
            if IN_PLACE.iter().any(|keyword| keywords.contains_key(*keyword)) =>
        {
            None
        }
        "unevaluatedItems" => unevaluated_items(value, keywords),
        "unevaluatedProperties" => Some(unevaluated_properties(value, keywords)),
        "uniqueItems" => {
            let few = keywords.get("maxItems").and_then(Value::as_u64).is_some_and(|max| max < 2);
            (*value == json!(false) || few).then(Vec::new)
        }
        _ => None,
    }
}

/// Whether every value meets a schema, because it has nothing but annotations.
fn is_true(schema: &Value) -> bool {
    match schema {
        Value::Object(keywords) => {
            keywords.keys().all(|keyword| ANNOTATIONS.contains(&keyword.as_str()))
        }
        schema => *schema == json!(true),
    }
}

/// Whether a schema allows values of a type.
fn allows(keywords: &Keywords, name: &str) -> bool {
    match keywords.get("type") {
        Some(Value::Array(names)) => names.iter().any(|other| other == name),
        Some(other) => other == name,
        None => true,
    }
}

fn is_required(keywords: &Keywords, name: &Value) -> bool {
    let required = keywords.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.contains(name))
}

/// Formats are of strings; those of integers are ranges.
fn format(name: &str, keywords: &Keywords) -> Option<Vec<Value>> {
    if let Some((_, least, most)) = INTEGERS.iter().find(|(integer, ..)| *integer == name) {
        return Some(vec![json!({ "minimum": least, "maximum": most })]);
    }
    // A library's own name, beside what it means.
    let is_said = keywords.contains_key("pattern") || keywords.contains_key("allOf");
    let is_label = LABELS.contains(&name) || is_said && !OTHER_FORMATS.contains(&name);
    (is_label || !allows(keywords, "string")).then(Vec::new)
}

fn contains(keyword: &str, keywords: &Keywords, root: &Value) -> Option<Vec<Value>> {
    let Some(schema) = keywords.get("contains") else { return Some(Vec::new()) };
    let count = |keyword| match is_draft_7(root) {
        true => None,
        false => keywords.get(keyword),
    };
    let (least, most) = (count("minContains"), count("maxContains"));
    if least == Some(&json!(0)) && most.is_none() {
        return Some(Vec::new());
    }
    if !is_true(schema) {
        return None;
    }
    // All items count.
    let mut term = json!({ "minItems": least.unwrap_or(&json!(1)) });
    if let Some(most) = most {
        term["maxItems"] = most.clone();
    }
    Some(if keyword == "contains" { vec![term] } else { Vec::new() })
}

fn not(schema: &Value) -> Option<Vec<Value>> {
    if *schema == json!(false) {
        return Some(Vec::new());
    }
    if is_true(schema) {
        return Some(vec![json!(false)]);
    }
    let keywords = schema.as_object()?;
    let only = |keyword| {
        keywords.keys().all(|other| other == keyword || ANNOTATIONS.contains(&other.as_str()))
    };
    if let Some(inner) = keywords.get("not").filter(|_| only("not")) {
        // What is not false, and what is not true.
        return match (is_true(inner), inner == &json!(false)) {
            (true, _) => Some(Vec::new()),
            (_, true) => Some(vec![json!(false)]),
            _ => None,
        };
    }
    let names = keywords.get("type").filter(|_| only("type"))?;
    let names = names.as_array().cloned().unwrap_or_else(|| vec![names.clone()]);
    // Numbers that are no integers have no type of their own.
    if names.contains(&json!("integer")) && !names.contains(&json!("number")) {
        return None;
    }
    let all = ["null", "boolean", "number", "string", "array", "object"];
    let left: Vec<&str> = all.into_iter().filter(|name| !names.contains(&json!(name))).collect();
    Some(vec![if left.is_empty() { json!(false) } else { json!({ "type": left }) }])
}

fn property_names(names: &Value) -> Option<Vec<Value>> {
    let none = || json!({ "maxProperties": 0 });
    let only = |names: Keywords| json!({ "properties": names, "additionalProperties": false });
    let like = |pattern: &str| json!({ "patternProperties": { pattern: true }, "additionalProperties": false });
    if names.is_boolean() {
        return Some(if is_true(names) { Vec::new() } else { vec![none()] });
    }
    let keywords = names.as_object()?;
    if !allows(keywords, "string") {
        return Some(vec![none()]);
    }
    let mut terms = Vec::new();
    let mut measured = false;
    let named = |name: &Value| Some((name.as_str()?.to_owned(), json!(true)));
    for (keyword, value) in keywords {
        match keyword.as_str() {
            "type" => {}
            "const" => terms.push(only(named(value).into_iter().collect())),
            "enum" => terms.push(only(value.as_array()?.iter().filter_map(named).collect())),
            "pattern" => terms.push(like(value.as_str()?)),
            "minLength" | "maxLength" => {
                value.as_u64()?;
                measured = true;
            }
            word if ANNOTATIONS.contains(&word) => {}
            _ => return None,
        }
    }
    if measured {
        let bound = |keyword| keywords.get(keyword).and_then(Value::as_u64);
        let most = bound("maxLength").map_or_else(String::new, |most| most.to_string());
        let least = bound("minLength").unwrap_or(0);
        terms.push(like(&format!(r"^[\s\S]{{{least},{most}}}$")));
    }
    // The compiler does not know whether two patterns exclude each other.
    (terms.len() < 2).then_some(terms)
}

fn unevaluated_properties(schema: &Value, keywords: &Keywords) -> Vec<Value> {
    if keywords.contains_key("additionalProperties") {
        return Vec::new();
    }
    let mut term = json!({ "additionalProperties": schema });
    for keyword in ["properties", "patternProperties"] {
        if let Some(Value::Object(known)) = keywords.get(keyword) {
            let names = known.keys().map(|name| (name.clone(), json!(true)));
            term[keyword] = names.collect::<Keywords>().into();
        }
    }
    vec![term]
}

fn unevaluated_items(schema: &Value, keywords: &Keywords) -> Option<Vec<Value>> {
    match keywords.get("items") {
        // Old drafts' prefix items.
        Some(Value::Array(_)) => None,
        Some(_) => Some(Vec::new()),
        None if keywords.contains_key("contains") => None,
        None => {
            let first = keywords.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
            Some(vec![json!({ "prefixItems": vec![true; first], "items": schema })])
        }
    }
}
