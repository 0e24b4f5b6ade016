//! Forms that try to hang the compiler, exhaust memory or the stack, or cause a panic: each is refused,
//! or runs within the limits.

use std::sync::Arc;

use serde_json::{Value, json};
use tabloom_grammar::{Form, Grammar, Strip, Vocabulary};

use super::{DRAFT_7, allowed, follow, refused, schema, takes};

fn nested(depth: usize, inner: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(inner, |schema, _| wrap(schema))
}

#[test]
fn deep_nesting_is_refused_or_followed() {
    let array = |schema| json!({"type": "array", "items": schema, "minItems": 1});
    let object = |schema| json!({"properties": {"a": schema}, "required": ["a"]});
    let any = |schema| json!({"anyOf": [schema, {"type": "null"}]});
    let all = |schema| json!({"allOf": [schema, {"title": "x"}]});
    for wrap in [&array as &dyn Fn(Value) -> Value, &object, &any, &all] {
        let _ = schema(nested(31, json!({"type": "null"}), wrap));
        refused(schema(nested(200, json!({}), wrap)), "64 levels");
    }
    refused(schema(json!({"const": nested(200, json!(1), |value| json!([value]))})), "64 levels");
    refused(follow(Form::Regex(format!("{}a{}", "(".repeat(500), ")".repeat(500)))), "nest");
    let grammar = format!("start: {}\"a\"{}", "(".repeat(500), ")".repeat(500));
    refused(follow(Form::Grammar(grammar)), "nested");
}

#[test]
fn chains_of_rules_do_not_exhaust_the_stack() {
    for (rule, last) in [("r", "r"), ("T", "T")] {
        let chain = |count: usize| {
            let rules: Vec<String> =
                (0..count).map(|i| format!("{rule}{i}: {rule}{} \"x\"\n", i + 1)).collect();
            format!("start: {rule}0\n{}{last}{count}: \"y\"\n", rules.concat())
        };
        let _ = follow(Form::Grammar(chain(290)));
        refused(follow(Form::Grammar(chain(3000))), "300 rules");
    }
    let count = 400;
    let definitions: serde_json::Map<String, Value> = (0..count)
        .map(|i| (format!("d{i}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", i + 1)}]})))
        .chain([(format!("d{count}"), json!({"type": "null"}))])
        .collect();
    let _ = schema(json!({"$defs": definitions, "$ref": "#/$defs/d0"}));
}

#[test]
fn huge_quantifiers_cost_no_more_than_small_ones() {
    for regex in [
        "a{1000000}",
        "(a{1000}){1000}",
        "(((a{100}){100}){100}){100}",
        "(a|b){0,4294967295}",
        "(.{0,1000}x){0,1000}",
        "(a?){1000}a{1000}",
    ] {
        let _ = follow(Form::Regex(regex.into()));
    }
    let _ = schema(json!({"type": "string", "minLength": 1_000_000}));
    let _ = schema(json!({"type": "array", "items": {"type": "null"}, "minItems": 1_000_000}));
    let _ = schema(json!({"additionalProperties": {"type": "null"}, "minProperties": 1_000_000}));
    refused(schema(json!({"type": "string", "minLength": 1_u64 << 40})), "minLength");
    assert!(schema(json!({"type": "string", "maxLength": 1_u64 << 40})).is_ok());
    let grammar = "start: (\"a\" | \"b\" \"c\"){0,100000000}";
    let _ = follow(Form::Grammar(grammar.into()));
}

#[test]
fn exponential_expressions_stay_within_the_limits() {
    for regex in [
        "(a|b)*a(a|b){30}",
        "(a*)*b",
        "(a|aa|aaa|aaaa)*(b|bb|bbb)*(a|b)*a(a|b){20}c",
        r"(\w+\s+)*\w{200}(\d|\pL)+",
        &"(a|b|c)?".repeat(2000),
    ] {
        let _ = follow(Form::Regex(regex.into()));
    }
    let options: Vec<Value> =
        (0..3).map(|i| json!({"properties": {format!("p{i}"): {}}})).collect();
    let _ = schema(json!({"allOf": vec![json!({"anyOf": options}); 30]}));
    let properties: serde_json::Map<String, Value> =
        (0..500).map(|i| (format!("p{i}"), json!({"enum": ["a", "b", 1]}))).collect();
    let _ = schema(json!({"properties": properties, "additionalProperties": false}));
    let patterns: serde_json::Map<String, Value> =
        (0..60).map(|i| (format!("^(a|b)*{i}(c|d)*$"), json!({}))).collect();
    let _ = schema(json!({"patternProperties": patterns}));
    let _ = schema(json!({"type": "string", "pattern": "(a|b)*a(a|b){30}", "maxLength": 500}));
}

#[test]
fn recursion_is_followed_or_refused() {
    let node = json!({"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
        "$ref": "#/$defs/n"});
    assert!(schema(node).is_ok());
    for schema_ in [
        json!({"$ref": "#"}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            "$ref": "#/$defs/a"}),
        json!({"allOf": [{"$ref": "#"}, {"type": "object"}]}),
        json!({"anyOf": [{"$ref": "#"}]}),
        json!({"anyOf": [{"$ref": "#"}], "type": "integer"}),
        json!({"type": "array", "items": {"$ref": "#"}, "minItems": 1}),
        json!({"type": "array", "prefixItems": [{"type": "null"}, {"$ref": "#"}], "minItems": 2}),
        json!({"$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}},
            "required": ["next"]}}, "properties": {"a": {"$ref": "#/$defs/n"}}}),
    ] {
        refused(schema(schema_), "$ref without end");
    }
    for ending in [
        json!({"type": "object", "properties": {"next": {"$ref": "#"}}}),
        json!({"type": "array", "items": {"$ref": "#"}}),
        json!({"anyOf": [{"type": "array", "items": {"$ref": "#"}, "minItems": 1}, {"const": 1}]}),
        json!({"type": ["array", "null"], "items": {"$ref": "#"}, "minItems": 1}),
    ] {
        assert!(schema(ending).is_ok());
    }
    for grammar in ["start: start", "start: start \"a\"", "start: a\na: b\nb: a", "start: A\nA: A"]
    {
        assert!(follow(Form::Grammar(grammar.into())).is_err(), "{grammar}");
    }
}

#[test]
fn forms_without_any_value_are_refused() {
    refused(schema(json!(false)), "false");
    refused(schema(json!({"enum": []})), "");
    refused(schema(json!({"type": "integer", "minimum": 5, "maximum": 4})), "minimum");
    refused(schema(json!({"type": "string", "minLength": 5, "maxLength": 4})), "minLength");
    refused(schema(json!({"allOf": [{"type": "string"}, {"type": "null"}]})), "");
    refused(
        schema(json!({"type": "object", "required": ["a"], "properties": {"a": false}})),
        "'a'",
    );
    refused(follow(Form::Regex("[a&&b]".into())), "");
    refused(follow(Form::Choice(vec![])), "0 texts");
    refused(follow(Form::Grammar(String::new())), "");
    // No token of the vocabulary spells the answer.
    let words = Arc::new(Vocabulary::new(vec![b"a".to_vec(), vec![]], &[1], None).unwrap());
    let refusal = Grammar::compile(&words, &Form::Regex("b".into())).unwrap_err();
    assert!(refusal.message.contains("cannot go on"), "{refusal}");
}

#[test]
fn malformed_forms_are_refused_by_their_path() {
    let long = "é".repeat(90);
    for (keyword, value) in [
        ("minimum", json!(long)),
        ("exclusiveMaximum", json!([long])),
        ("multipleOf", json!(long)),
        ("multipleOf", json!(0)),
        ("multipleOf", json!(-3)),
        ("multipleOf", json!(1e-300)),
        ("multipleOf", json!(4_000_000_000_u32)),
        ("maximum", json!(-1e300)),
        ("minimum", json!(i64::MAX)),
        ("minItems", json!(1 << 21)),
        ("minLength", json!(-1)),
        ("maxItems", json!(1.5)),
        ("pattern", json!(7)),
        ("pattern", json!("(")),
        ("format", json!({"é": long})),
        ("properties", json!([])),
        ("patternProperties", json!({"(": {}})),
        ("prefixItems", json!({"é": long})),
        ("required", json!([long, 5])),
        ("type", json!([long, {}])),
        ("type", json!("text")),
        ("type", json!(["string", "text"])),
        ("enum", json!(long)),
        ("const", json!([1e300])),
        ("items", json!(long)),
        ("anyOf", json!({})),
        ("$ref", json!(7)),
    ] {
        let mut inner = json!({"type": ["integer", "number", "string", "array", "object"]});
        inner[keyword] = value;
        let path = format!(".properties.x.{keyword}");
        refused(schema(json!({"properties": {"x": inner}})), &path);
    }
    for reference in ["#/$defs/none", "http://example.com/", "#/enum/0", "#/properties/9"] {
        refused(schema(json!({"$ref": reference, "enum": [{"minimum": long}]})), "$ref");
    }
    refused(schema(json!(7)), "7");
    for (keyword, value, beside) in [
        ("uniqueItems", json!(true), json!({})),
        ("additionalItems", json!(false), json!({"prefixItems": [{}]})),
        ("minProperties", json!(2), json!({})),
        (
            "minProperties",
            json!(2),
            json!({"patternProperties": {}, "additionalProperties": false}),
        ),
        ("$schema", json!("http://json-schema.org/draft-07/schema#"), json!({})),
        ("$ref", json!("#/$defs/a"), json!({"$id": "http://example.com/"})),
        ("const", json!("\u{1}"), json!({})),
        ("pattern", json!("a|\\x7F"), json!({})),
    ] {
        let mut inner = beside;
        inner[keyword] = value;
        let path = format!(".properties.x.{keyword}");
        refused(schema(json!({"$defs": {"a": {}}, "properties": {"x": inner}})), &path);
    }
    for (keyword, value) in [("contentEncoding", "base32"), ("contentMediaType", "text/html")] {
        refused(schema(json!({"$schema": DRAFT_7, keyword: value})), keyword);
    }
    refused(schema(json!({"oneOf": [{"type": "integer"}, {"type": "number"}]})), "oneOf");
    for reference in ["#/", "#/$defs/a~1b", "#/$defs/a%20b"] {
        refused(schema(json!({"$ref": reference, "$defs": {"a~1b": {}, "a%20b": {}}})), "$ref");
    }
    refused(schema(json!({"type": "text"})), "text");
    refused(schema(json!({"type": "string", "format": "color"})), "color");
    refused(schema(json!({"title": "x".repeat(70_000)})), "65536");
    refused(follow(Form::Regex("a(".into())), "unclosed");
    refused(follow(Form::Regex("a\\".into())), "escape");
    refused(follow(Form::Regex("a(?=b)".into())), "look");
    refused(follow(Form::Regex("a\\bb".into())), "look");
    refused(follow(Form::Regex("x".repeat(70_000))), "65536");
    refused(follow(Form::Choice(vec!["x".into(); 2001])), "2001 texts");
    for grammar in [
        "start: missing",
        "start: \"a",
        "start",
        "start: /(/",
        "start: <|special|>",
        "start: @other",
        "start: %json {\"type\": 7}",
        "start: %json",
        "start: %regex {\"substring_words\": 5}",
    ] {
        assert!(follow(Form::Grammar(grammar.into())).is_err(), "{grammar}");
    }
    let inside = format!("start: %json {{\"type\": \"number\", \"minimum\": \"{long}\"}}");
    refused(follow(Form::Grammar(inside)), ".minimum");
}

#[test]
fn multiples_do_not_overflow_together() {
    let of = |step: f64| json!({"type": "number", "multipleOf": step});
    assert!(schema(of(0.25)).is_ok());
    refused(schema(json!({"allOf": [of(0.007), of(0.011), of(0.013), of(0.017)]})), "multipleOf");
}

#[test]
fn an_answer_is_taken_without_masks() {
    // An address as zod writes it: each token costs the compiler much.
    let pattern = concat!(
        r"^(?:[A-Za-z0-9_'+\-]+\.)*[A-Za-z0-9_'+\-]*[A-Za-z0-9_+-]",
        r"@(?:[A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$",
    );
    let form = Form::JsonSchema(json!({"type": "string", "format": "email", "pattern": pattern}));
    let address = "\"the.longest-name_that.somebody_may_have.in-the-world1@example.com\"";
    assert!(takes(&form, address));
    assert!(!takes(&form, &address.replace('@', "@.")));
}

/// Every mutated schema gives an answer or is refused.
#[test]
fn mutated_schemas_do_not_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let keywords = [
        "type",
        "enum",
        "const",
        "anyOf",
        "allOf",
        "oneOf",
        "$ref",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "x-guidance",
        "$schema",
        "additionalItems",
        "not",
        "title",
        "propertyNames",
        "unevaluatedProperties",
        "unevaluatedItems",
        "uniqueItems",
        "contains",
        "if",
        "then",
        "dependencies",
    ];
    for _ in 0..200 {
        let made = object(&mut random, &keywords, 3);
        let result = schema(made.clone());
        if let Err(error) = result {
            assert!(!error.message.is_empty(), "{made}");
        }
    }
}

fn object(random: &mut fastrand::Rng, keywords: &[&str], depth: usize) -> Value {
    let count = random.usize(0..4);
    let fields = (0..count).map(|_| {
        let keyword = random.choice(keywords).unwrap().to_string();
        let value = value(random, &keyword, keywords, depth);
        (keyword, value)
    });
    fields.collect::<serde_json::Map<_, _>>().into()
}

fn value(random: &mut fastrand::Rng, keyword: &str, keywords: &[&str], depth: usize) -> Value {
    let sub = |random: &mut fastrand::Rng| match depth {
        0 => json!(random.bool()),
        _ => object(random, keywords, depth - 1),
    };
    if random.u8(..) < 20 {
        let odd = [json!(null), json!(-1), json!("é".repeat(80)), json!([]), json!(1e18)];
        return random.choice(odd).unwrap();
    }
    match keyword {
        "type" => {
            let types = ["null", "boolean", "number", "integer", "string", "array", "object"];
            json!(random.choice(types))
        }
        "enum" => json!(["a", 1, null, {"k": [true]}, "\u{7}\"", -0.5]),
        "anyOf" | "allOf" | "oneOf" | "prefixItems" => json!([sub(random), sub(random)]),
        "properties" => json!({"a": sub(random), "b": sub(random), "": sub(random)}),
        "patternProperties" => json!({"^x": sub(random), "^y+$": sub(random)}),
        "required" => json!(["a", "c"]),
        "$ref" => json!("#"),
        "pattern" => json!(random.choice(["^a", "b$", "[^c]{2,}", r"\d\p{L}", "", "(x|y)*z"])),
        "format" => json!(random.choice(["date", "uuid", "ipv6", "uri", "email"])),
        "multipleOf" => json!(random.choice([1.0, 0.5, 0.01, 3.0])),
        "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minLength" | "maxLength" => {
            json!(random.u32(0..12))
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
            json!(f64::from(random.i32(-2000..2000)) / 8.0)
        }
        "x-guidance" => json!({"json_allowed_escapes": "é", "lenient": true}),
        "const" => json!(random.choice(["é", "", "\n"])),
        _ => sub(random),
    }
}

#[test]
fn vocabularies_beyond_the_limits_are_refused() {
    assert!(Vocabulary::new(vec![], &[], None).is_err());
    assert!(Vocabulary::new(vec![vec![b'x'; 1000]; 5000], &[], None).is_err());
    // Unusual ones are accepted: no end, ends out of range, tokens too long or spelled like markers.
    let tokens = vec![b"a".to_vec(), vec![b'b'; 5000], b"\xFF[1]".to_vec(), b"a".to_vec(), vec![]];
    let odd = Arc::new(Vocabulary::new(tokens, &[9, 4], None).unwrap());
    let mut grammar = Grammar::compile(&odd, &Form::Regex("a+".into())).unwrap();
    let first = allowed(&mut grammar).unwrap();
    assert!(!first.is_empty() && first.iter().all(|token| [0, 3].contains(token)), "{first:?}");
    grammar.accept(first[0]).unwrap();
    assert!(allowed(&mut grammar).unwrap().contains(&4));
}

#[test]
fn a_character_stripped_at_the_start_is_not_part_of_the_answer() {
    let tokens = [" ", " a", "a", " b", "b"].map(|token| token.as_bytes().to_vec()).to_vec();
    let strip = Some(Strip { content: ' ', count: 1 });
    let vocabulary = Arc::new(Vocabulary::new(tokens, &[], strip).unwrap());
    let mut grammar = Grammar::compile(&vocabulary, &Form::Regex(" a|b".into())).unwrap();
    assert_eq!(allowed(&mut grammar).unwrap(), [0, 4]);
    grammar.accept(0).unwrap();
    assert_eq!(allowed(&mut grammar).unwrap(), [0, 1, 4]);
    grammar.accept(1).unwrap();
    assert!(grammar.is_complete());
}
