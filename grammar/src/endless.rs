//! Finds schemas whose references recur forever, so that no finite value matches.

use std::{collections::HashSet, ptr};

use serde_json::{Map, Value};

/// Whether each of these targets has a finite value; `resolve` finds the schema of a reference.
pub fn all_end<'a>(targets: Vec<&'a Value>, resolve: impl Fn(&str) -> Option<&'a Value>) -> bool {
    let mut known = HashSet::new();
    let mut waiting = targets;
    waiting.retain(|&target| known.insert(ptr::from_ref(target)));
    let mut ending = HashSet::new();
    loop {
        let before = waiting.len();
        waiting.retain(|&target| {
            let ends = |reference: &str| {
                resolve(reference).is_some_and(|at| ending.contains(&ptr::from_ref(at)))
            };
            let waits = !can_end(target, &ends);
            if !waits {
                ending.insert(ptr::from_ref(target));
            }
            waits
        });
        if waiting.is_empty() || waiting.len() == before {
            return waiting.is_empty();
        }
    }
}

/// Whether a schema has a finite value; `ends` says which references have one.
fn can_end(schema: &Value, ends: &dyn Fn(&str) -> bool) -> bool {
    let Value::Object(keywords) = schema else { return true };
    let list = |keyword: &str| keywords.get(keyword).and_then(Value::as_array);
    keywords.get("$ref").and_then(Value::as_str).is_none_or(ends)
        && list("allOf").is_none_or(|all| all.iter().all(|schema| can_end(schema, ends)))
        && ["anyOf", "oneOf"].iter().all(|keyword| {
            list(keyword).is_none_or(|any| any.iter().any(|schema| can_end(schema, ends)))
        })
        && (keywords.contains_key("const")
            || keywords.contains_key("enum")
            || types(keywords).any(|name| match name {
                "object" => object_can_end(keywords, ends),
                "array" => array_can_end(keywords, ends),
                _ => true,
            }))
}

/// The types that a schema allows; an unknown one stands for all.
fn types(keywords: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let names = match keywords.get("type") {
        Some(Value::Array(names)) => names.as_slice(),
        Some(name) => std::slice::from_ref(name),
        None => &[Value::Null],
    };
    names.iter().map(|name| name.as_str().unwrap_or("null"))
}

fn object_can_end(keywords: &Map<String, Value>, ends: &dyn Fn(&str) -> bool) -> bool {
    let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
    required.filter_map(Value::as_str).all(|name| {
        let property = keywords.get("properties").and_then(|properties| properties.get(name));
        property.is_none_or(|schema| can_end(schema, ends))
    })
}

fn array_can_end(keywords: &Map<String, Value>, ends: &dyn Fn(&str) -> bool) -> bool {
    let least = keywords.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize;
    let items = keywords.get("items");
    let first = keywords.get("prefixItems").or(items).and_then(Value::as_array);
    let first = first.map_or(&[][..], Vec::as_slice);
    let rest =
        if items.is_some_and(Value::is_array) { keywords.get("additionalItems") } else { items };
    first.iter().take(least).all(|schema| can_end(schema, ends))
        && (least <= first.len() || rest.is_none_or(|schema| can_end(schema, ends)))
}
