//! Keywords of JSON Schema: those that ask for nothing, those that others say, and those that no answer can be held
//! to; what is rewritten stays as narrow as specified.

use serde_json::{Value, json};
use tabloom_grammar::Form;

use super::{DRAFT_7, refused, schema, takes};

#[test]
fn rewritten_schemas_are_as_narrow_as_specified() {
    let schema = |schema: &Value| Form::JsonSchema(schema.clone());
    let inside = |schema: &Value| Form::Grammar(format!("start: %json {schema}"));
    let string = |keyword: &str, value: &str| json!({"type": "string", keyword: value});
    let named = json!({"properties": {"foo": {"type": "integer"}}, "required": ["foo"],
        "patternProperties": {"^b": {"type": "null"}}, "type": "object"});
    for (wanted, right, wrong) in [
        (named, r#"{"foo":1,"fo":2,"b":null}"#, r#"{"foo":1,"f\u006fo":"x"}"#),
        (string("pattern", "^.$"), "\"\u{85}\"", "\"\u{2028}\""),
        (string("pattern", r"^\s$"), "\"\u{FEFF}\"", "\"\u{85}\""),
        (string("pattern", "^[a[b&&c]$"), "\"&\"", "\"d\""),
        (string("format", "date"), "\"2024-02-29\"", "\"1900-02-29\""),
        (string("format", "hostname"), "\"a-b.example\"", "\"xn--X\""),
        (string("format", "email"), "\"a.b@example.com\"", "\"a..b@example.com\""),
        (json!({"type": "number", "multipleOf": 0.5}), "2.5", "20000000000000.5"),
    ] {
        for form in [schema(&wanted), inside(&wanted)] {
            assert!(takes(&form, right), "{form:?}: {right}");
            assert!(!takes(&form, wrong), "{form:?}: {wrong}");
        }
    }
}

#[test]
fn keywords_that_ask_for_nothing_are_accepted() {
    for words in [
        json!({"propertyNames": {"type": "string"}}),
        json!({"propertyNames": {"type": ["string", "null"], "title": "A name."}}),
        json!({"propertyNames": true, "minProperties": 0}),
        json!({"propertyNames": {"pattern": "^a"}, "type": "array"}),
        json!({"uniqueItems": false, "minItems": 0}),
        json!({"uniqueItems": true, "maxItems": 1}),
        json!({"uniqueItems": true, "type": ["object", "null"]}),
        json!({"not": false}),
        json!({"not": {"not": {}}}),
        json!({"if": {"type": "string"}}),
        json!({"if": {"type": "string"}, "then": true, "else": {"title": "x"}}),
        json!({"then": {"type": "string"}, "else": false}),
        json!({"contains": {"type": "string"}, "minContains": 0}),
        json!({"minContains": 5, "maxContains": 1}),
        json!({"dependencies": {"a": [], "b": {}, "c": true}}),
        json!({"dependentRequired": {"a": ["b"]}, "required": ["b"]}),
        json!({"dependentSchemas": {"a": {"description": "x"}}}),
        json!({"unevaluatedProperties": true, "unevaluatedItems": {}}),
        json!({"unevaluatedProperties": {}, "anyOf": [{"type": "array"}]}),
        json!({"$dynamicAnchor": "node", "$anchor": "a"}),
        json!({"$recursiveAnchor": true}),
        json!({"type": "string", "format": "password"}),
        json!({"type": "string", "format": "cuid", "pattern": "^c"}),
        json!({"type": "string", "format": "includes", "allOf": [{"pattern": "a"}]}),
        json!({"type": "number", "format": "double"}),
        json!({"type": "boolean", "format": "uri-reference"}),
        json!({"contentEncoding": "base64url", "contentMediaType": "image/png"}),
        json!({"$schema": DRAFT_7, "type": "integer", "contentEncoding": "base32"}),
        json!({"$comment": "x", "deprecated": true, "examples": [1], "readOnly": true,
            "writeOnly": false, "default": null, "contentSchema": {"not": {}}, "nullable": true,
            "discriminator": {"propertyName": "a"}, "example": 5, "x-order": 1}),
    ] {
        let result = schema(words.clone());
        assert!(result.is_ok(), "{words}: {result:?}");
    }
}

#[test]
fn keywords_that_the_compiler_does_not_know_hold_where_others_say_the_same() {
    for (wanted, right, wrong) in [
        (
            json!({"propertyNames": {"type": "string", "enum": ["a", "b"]}, "required": ["a"],
            "additionalProperties": {"type": "integer"}}),
            r#"{"a":1,"b":2}"#,
            r#"{"a":1,"c":2}"#,
        ),
        (json!({"propertyNames": {"const": "a"}}), r#"{"a":1}"#, r#"{"b":1}"#),
        (
            json!({"propertyNames": {"pattern": "^a"}, "additionalProperties": {"type": "null"}}),
            r#"{"ab":null}"#,
            r#"{"b":null}"#,
        ),
        (json!({"propertyNames": {"pattern": "^a"}}), r#"{"ab":1}"#, r#"{"b":1}"#),
        (json!({"propertyNames": {"minLength": 1, "maxLength": 2}}), r#"{"ab":1}"#, r#"{"abc":1}"#),
        (json!({"propertyNames": {"minLength": 1}}), "{\"\\n\":1}", r#"{"":1}"#),
        (json!({"propertyNames": false}), "{}", r#"{"a":1}"#),
        (json!({"propertyNames": {"type": "integer"}}), "[]", r#"{"a":1}"#),
        (json!({"not": {"type": ["null", "boolean"]}}), "1", "null"),
        (json!({"properties": {"a": {"not": {}}}}), r#"{"b":1}"#, r#"{"a":1}"#),
        (json!({"additionalProperties": {"not": {"not": false}}}), "{}", r#"{"a":1}"#),
        (json!({"contains": {}}), "[1]", "[]"),
        (json!({"contains": true, "minContains": 2, "maxContains": 3}), "[1,2]", "[1]"),
        (json!({"$schema": DRAFT_7, "contains": true, "minContains": 0}), "[1]", "[]"),
        (
            json!({"properties": {"a": {}}, "unevaluatedProperties": false}),
            r#"{"a":1}"#,
            r#"{"b":1}"#,
        ),
        (
            json!({"patternProperties": {"^a": {}}, "unevaluatedProperties": {"type": "null"}}),
            r#"{"ab":1,"b":null}"#,
            r#"{"b":1}"#,
        ),
        (json!({"prefixItems": [{}], "unevaluatedItems": false}), "[1]", "[1,2]"),
        (json!({"items": {"type": "integer"}, "unevaluatedItems": false}), "[1,2]", "[null]"),
        (
            json!({"$schema": DRAFT_7, "type": "string", "contentEncoding": "base64"}),
            "\"QQ==\"",
            "\"QR==\"",
        ),
        (json!({"type": "integer", "format": "uint32"}), "4294967295", "4294967296"),
        (json!({"type": "integer", "format": "int8"}), "-128", "-129"),
        (json!({"type": "integer", "format": "uint64"}), "9007199254740991", "-1"),
        (
            json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX}),
            "-9007199254740991",
            "9223372036854775808",
        ),
        (json!({"type": "number", "exclusiveMaximum": 1e300}), "1.5", "1e301"),
        (json!({"type": "string", "maxLength": u64::MAX}), "\"a\"", "1"),
        (json!({"$ref": "#/$defs/a~1b%25~0", "$defs": {"a/b%~": {"type": "null"}}}), "null", "1"),
        (
            json!({"$ref": "#/definitions/a%20b", "definitions":
            {"a b": {"anyOf": [{"type": "null"}, {"items": {"$ref": "#/definitions/a%20b"},
                "type": "array"}]}}}),
            "[null,[]]",
            "[1]",
        ),
    ] {
        let form = Form::JsonSchema(wanted.clone());
        let inside = Form::Grammar(format!("start: %json {wanted}"));
        for form in [form, inside] {
            assert!(takes(&form, right), "{form:?}: {right}");
            assert!(!takes(&form, wrong), "{form:?}: {wrong}");
        }
    }
}

#[test]
fn keywords_that_answers_cannot_be_held_to_are_refused_by_name() {
    for (keyword, value, beside) in [
        ("uniqueItems", json!(true), json!({"maxItems": 2})),
        ("not", json!({"const": 1}), json!({})),
        ("not", json!({"type": "integer"}), json!({})),
        ("propertyNames", json!({"pattern": "^a", "maxLength": 5}), json!({})),
        ("propertyNames", json!({"pattern": "(?=a)"}), json!({})),
        ("propertyNames", json!({"not": {"const": "a"}}), json!({})),
        ("propertyNames", json!({"$ref": "#"}), json!({})),
        ("propertyNames", json!({"format": "uuid"}), json!({})),
        ("propertyNames", json!(5), json!({})),
        ("if", json!(true), json!({"then": {"type": "null"}})),
        ("else", json!({"type": "null"}), json!({"if": {}})),
        ("contains", json!({"type": "null"}), json!({})),
        ("contains", json!({"type": "null"}), json!({"minContains": 0, "maxContains": 2})),
        ("dependentRequired", json!({"a": ["b"]}), json!({})),
        ("dependencies", json!({"a": {"required": ["b"]}}), json!({})),
        ("dependentSchemas", json!(7), json!({})),
        ("unevaluatedProperties", json!(false), json!({"allOf": [{"properties": {"a": {}}}]})),
        ("unevaluatedItems", json!(false), json!({"anyOf": [{}]})),
        ("$dynamicRef", json!("#node"), json!({})),
        ("$recursiveRef", json!("#"), json!({})),
        ("format", json!("iri"), json!({"pattern": "a"})),
        ("format", json!("jwt"), json!({"type": "string"})),
    ] {
        let mut inner = json!({keyword: value});
        inner.as_object_mut().unwrap().extend(beside.as_object().unwrap().clone());
        let path = format!(".properties.x.{keyword}");
        refused(schema(json!({"properties": {"x": inner}})), &path);
    }
    let draft_7 = json!({"$schema": DRAFT_7, "contains": {"type": "null"}, "minContains": 0});
    refused(schema(draft_7), "contains");
    refused(schema(json!({"not": {}})), "nsatisfiable");
}
