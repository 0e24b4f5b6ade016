//! Reading JSON schemas: subschemas, schemas inside grammars, and patterns.

use std::ops::Range;

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// ECMAScript's white space: with the byte order mark, without NEXT LINE.
const WHITE_SPACE: &str =
    r"\t-\r \u{A0}\u{1680}\u{2000}-\u{200A}\u{2028}\u{2029}\u{202F}\u{205F}\u{3000}\u{FEFF}";

/// The kind of a keyword's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    Schema,
    /// An array of schemas.
    Schemas,
    /// An object of schemas.
    NamedSchemas,
    Data,
}

/// The kind of a keyword's value, as the compiler reads it.
pub fn held(keyword: &str, value: &Value) -> Held {
    match keyword {
        "properties" | "patternProperties" | "$defs" | "definitions" => Held::NamedSchemas,
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => Held::Schemas,
        "items" | "additionalItems" if value.is_array() => Held::Schemas,
        "items"
        | "additionalItems"
        | "additionalProperties"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Held::Schema,
        _ => Held::Data,
    }
}

const DRAFT_7: &str = "http://json-schema.org/draft-07/schema";

/// Whether a whole schema is of draft 7.
pub fn is_draft_7(root: &Value) -> bool {
    let named = root.get("$schema").and_then(Value::as_str);
    named.is_some_and(|name| name.trim_end_matches('#') == DRAFT_7)
}

/// Whether a reference has characters in other spellings, which the compiler does not read.
#[cfg(feature = "compile")]
pub fn is_escaped(reference: &str) -> bool {
    reference.contains(['%', '~'])
}

/// The value that a reference points to.
pub fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    if reference == "#" {
        return Some(root);
    }
    let names = percent_decode_str(reference.strip_prefix("#/")?).decode_utf8().ok()?;
    if names.is_empty() {
        return None;
    }
    names.split('/').try_fold(root, |value, name| match value {
        Value::Array(values) => values.get(name.parse::<usize>().ok()?),
        value => value.get(name.replace("~1", "/").replace("~0", "~")),
    })
}

/// Patterns with look-ahead that zod writes for `duration`, `hostname` and `emoji`, and what stands for them:
/// the same durations, hosts of at most three names, and some of the emojis.
const ZOD: [(&str, &str); 3] = [
    (
        r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$",
        concat!(
            r"^P(?:\d+W|\d+Y(?:\d+M)?(?:\d+D)?|\d+M(?:\d+D)?|\d+D",
            r"|(?:\d+Y)?(?:\d+M)?(?:\d+D)?T(?:\d+H(?:\d+M)?(?:\d+(?:[.,]\d+)?S)?",
            r"|\d+M(?:\d+(?:[.,]\d+)?S)?|\d+(?:[.,]\d+)?S))$",
        ),
    ),
    (
        concat!(
            r"^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?",
            r"(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$",
        ),
        r"^(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.){0,2}[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$",
    ),
    (
        concat!(
            r"^(?=[\s\S]*[\p{Extended_Pictographic}\p{Regional_Indicator}\u20E3])",
            r"[\p{Extended_Pictographic}\p{Emoji_Component}]+$",
        ),
        r"^[\u{1F300}-\u{1F320}\u{1F400}-\u{1F43E}\u{1F600}-\u{1F64F}\u{1F680}-\u{1F6C5}]+$",
    ),
];

/// Translates a pattern from ECMAScript to Rust: the meaning of `\s` and `.` differs, and classes do not
/// nest in ECMAScript. The compiler itself handles `\d` and `\w`.
pub fn rust_pattern(pattern: &str) -> String {
    if let Some((_, stands)) = ZOD.iter().find(|(zod, _)| *zod == pattern) {
        return (*stands).into();
    }
    let mut rust = String::new();
    let mut in_class = false;
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        match (char, in_class) {
            ('\\', _) => match chars.next() {
                Some('s') => rust.extend(["[", WHITE_SPACE, "]"]),
                Some('S') => rust.extend(["[^", WHITE_SPACE, "]"]),
                escaped => rust.extend(['\\'].into_iter().chain(escaped)),
            },
            ('.', false) => rust.push_str(r"[^\n\r\u{2028}\u{2029}]"),
            ('[' | '&' | '~', true) => rust.extend(['\\', char]),
            _ => {
                in_class = if in_class { char != ']' } else { char == '[' };
                rust.push(char);
            }
        }
    }
    rust
}

/// The JSON schemas inside a grammar, with their positions.
pub fn inside(grammar: &str) -> impl Iterator<Item = (Range<usize>, Value)> {
    grammar.match_indices("%json").filter_map(|(at, word)| {
        let start = at + word.len();
        let mut values = serde_json::Deserializer::from_str(&grammar[start..]).into_iter();
        let schema = values.next()?.ok()?;
        Some((start..start + values.byte_offset(), schema))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_the_meaning_of_ecmascript() {
        for (pattern, rust) in [
            (r"^a\.b$", r"^a\.b$"),
            ("a.b", r"a[^\n\r\u{2028}\u{2029}]b"),
            (r"[.\].]\\.", r"[.\].]\\[^\n\r\u{2028}\u{2029}]"),
            ("[a[b&&c~]d]", r"[a\[b\&\&c\~]d]"),
            (r"\", r"\"),
        ] {
            assert_eq!(rust_pattern(pattern), rust, "{pattern}");
        }
        assert!(rust_pattern(r"[\S\n]\s").starts_with(r"[[^\t-\r "));
    }
}
