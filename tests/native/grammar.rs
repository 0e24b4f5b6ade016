//! Constrained answers against independent validators: random walks over the allowed tokens end in
//! texts that a JSON schema validator, or a regular expression, accepts.

use std::{fs, path::Path};

use regex::Regex;
use serde_json::{Value, json};
use tabloom::{
    api::{ChatCompletionRequest, Form, TextRules},
    text::{Chat, ChatFiles, Pieces},
};

use crate::walks::{Model, random, tokens};

fn schemas() -> Vec<Value> {
    vec![
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 12},
                "age": {"type": "integer", "minimum": 0, "maximum": 150},
                "home": {"type": "string", "format": "ipv4"},
                "nick": {"type": ["string", "null"]},
            },
            "required": ["name", "age"],
            "additionalProperties": false,
        }),
        json!({"enum": ["red", "grün", 3, -2.5, null, true, {"a": [1]}, "\u{1F600} \"\\ \n"]}),
        json!({
            "type": "array",
            "items": {"enum": ["a", "b"]},
            "minItems": 2,
            "maxItems": 5,
        }),
        json!({"type": "array", "items": {"type": "boolean"}, "minItems": 30, "maxItems": 40}),
        json!({
            "type": "array",
            "prefixItems": [{"type": "string", "maxLength": 3}, {"type": "integer"}],
            "items": {"const": null},
            "maxItems": 4,
        }),
        json!({"type": "number", "minimum": -1.5, "exclusiveMaximum": 99.25}),
        json!({"type": "integer", "exclusiveMinimum": -1000, "maximum": 12345}),
        json!({"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 500}),
        json!({
            "type": "object",
            "properties": {
                "user": {
                    "type": "object",
                    "properties": {
                        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                        "place": {
                            "type": "object",
                            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                            "required": ["x", "y"],
                            "additionalProperties": false,
                        },
                    },
                    "required": ["place"],
                    "additionalProperties": false,
                },
            },
            "required": ["user"],
            "additionalProperties": false,
        }),
        json!({
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "dog"}, "barks": {"type": "boolean"}},
                    "required": ["kind", "barks"],
                    "additionalProperties": false,
                },
                {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}$"},
                {"type": "null"},
            ],
        }),
        json!({
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}},
                    "required": ["kind", "x"],
                },
                {
                    "type": "object",
                    "properties": {"kind": {"const": "b"}, "y": {"type": "string"}},
                    "required": ["kind", "y"],
                },
            ],
        }),
        json!({"type": "string", "pattern": "^[αβγ]+ (straße|été|日本)$"}),
        json!({"type": "string", "minLength": 3, "maxLength": 5}),
        json!({"type": "string", "format": "ipv4"}),
        json!({"type": "string", "format": "uuid"}),
        json!({
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "integer"},
                        "children": {
                            "type": "array",
                            "items": {"$ref": "#/$defs/tree"},
                            "maxItems": 2,
                        },
                    },
                    "required": ["value"],
                    "additionalProperties": false,
                },
            },
            "$ref": "#/$defs/tree",
        }),
        json!({
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"type": "object", "properties": {"a": {"minimum": 10, "maximum": 20}}},
            ],
        }),
        json!({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3}),
        json!({"type": "object", "patternProperties": {"^k_[a-z]{1,3}$": {"type": "boolean"}},
            "additionalProperties": false, "minProperties": 1, "maxProperties": 3}),
        json!({}),
        json!(true),
    ]
}

#[test]
fn answers_are_valid_under_their_schema() {
    let mut random = random();
    for model in Model::all() {
        for schema in schemas() {
            let options = jsonschema::options().should_validate_formats(true);
            let validator = options.build(&schema).expect("the schema is valid");
            for _ in 0..8 {
                let (text, value) = model.json(&Form::JsonSchema(schema.clone()), &mut random);
                if let Err(error) = validator.validate(&value) {
                    panic!("{}: {schema}: {text:?}: {error}", model.name);
                }
            }
        }
    }
}

#[test]
fn a_json_object_is_an_object() {
    let mut random = random();
    for model in Model::all() {
        for _ in 0..20 {
            let (text, value) = model.json(&Form::JsonObject, &mut random);
            assert!(value.is_object(), "{}: {text:?}", model.name);
        }
    }
}

#[test]
fn answers_match_their_regular_expression() {
    let mut random = random();
    for model in Model::all() {
        for regex in [
            "[a-z]{3,8}",
            r"\d{3}-\d{4}",
            "(yes|no|maybe), (I think|sure)",
            "(?i)tabloom!",
            r" \w+( \w+){0,3}",
            r"[^a-z\n]{2,10}",
            "a?b?c?",
            "\u{e9}+|\u{65e5}\u{672c}|\u{1F600}{2}",
            "/\\*.{0,9}\\*/",
            "(.|\n){0,20}",
        ] {
            let judge = Regex::new(&format!("^(?:{regex})$")).unwrap();
            for _ in 0..10 {
                let text = model.walk(&Form::Regex(regex.into()), &mut random);
                assert!(judge.is_match(&text), "{}: {regex}: {text:?}", model.name);
            }
        }
    }
}

#[test]
fn json_has_at_most_one_blank_between_its_tokens() {
    let mut random = random();
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "integer"}}, "b": {"type": "boolean"}},
        "required": ["a", "b"],
        "additionalProperties": false,
    });
    let object = r#"\{_"a"_:_\[(_-?[0-9]+(_,_-?[0-9]+)*)?_\]_,_"b"_:_(true|false)_\}"#;
    for model in Model::all() {
        for (form, blank) in [
            (Form::JsonSchema(schema.clone()), " ?"),
            (Form::JsonSchema(schema.clone()).without_blanks(), ""),
        ] {
            let judge = Regex::new(&format!("^{}$", object.replace('_', blank))).unwrap();
            for _ in 0..20 {
                let text = model.walk(&form, &mut random);
                assert!(judge.is_match(&text), "{}: {text:?}", model.name);
            }
        }
    }
}

#[test]
fn numbers_in_json_end_after_twenty_digits_in_a_row() {
    let after = |text: &str, form| Form::After(text.into(), Box::new(form));
    for model in Model::all() {
        for (form, most) in [
            (after("1", Form::JsonSchema(json!({"type": "number", "minimum": 0}))), 19),
            (after("[0.", Form::JsonSchema(json!({"items": {"type": "number"}}))), 20),
            (after("\"", Form::JsonSchema(json!({"enum": ["1234567890123456789012345"]}))), 25),
            (Form::Regex("[0-9]{40}".into()), 40),
        ] {
            let mut constraint = model.compile(&form).unwrap();
            let mut digits = 0;
            loop {
                let mask = constraint.mask().unwrap();
                let begins = |id: &&u32| {
                    model.spellings[**id as usize].first().is_some_and(u8::is_ascii_digit)
                };
                let Some(&token) = tokens(&mask).iter().find(begins) else { break };
                constraint.accept(token).unwrap();
                // What is taken back does not count.
                constraint.rollback(1).unwrap();
                constraint.accept(token).unwrap();
                digits += model.spellings[token as usize].len();
            }
            assert!((most..most + 8).contains(&digits), "{}: {form:?}: {digits}", model.name);
            let refused = model.spellings.iter().position(|spelling| spelling == b"1");
            constraint.accept(refused.unwrap() as u32).unwrap_err();
        }
    }
}

#[test]
fn an_answer_goes_on_behind_its_beginning() {
    let mut random = random();
    let rating = json!({
        "type": "object",
        "properties": {"rating": {"type": "number", "minimum": 0, "maximum": 5}},
        "required": ["rating"],
        "additionalProperties": false,
    });
    let forms = [
        (Form::JsonSchema(rating), r#"^\{ "rating": ?[0-5](\.[0-9]+)?([eE][-+]?[0-9]+)? ?\}$"#),
        (Form::Regex("Greetings( and salutations)+".into()), "^Greetings( and salutations)+$"),
        (Form::Choice(vec!["yes".into(), "yesterday".into()]), "^yes(terday)?$"),
    ];
    let beginnings = [r#"{ "rating": "#, "Greetings", "yes"];
    for model in Model::all() {
        for ((form, whole), beginning) in forms.iter().zip(beginnings) {
            let whole = Regex::new(whole).unwrap();
            let after = |text: &str| Form::After(text.into(), form.clone().into());
            for _ in 0..10 {
                // In the middle of a text, nothing is stripped.
                let ids = model.walk_ids(&after(beginning), &mut random);
                let rest = ids.iter().map(|&id| &model.spellings[id as usize][..]);
                let rest = String::from_utf8(rest.collect::<Vec<_>>().concat()).unwrap();
                let text = format!("{beginning}{rest}");
                assert!(whole.is_match(&text), "{}: {text:?}", model.name);
            }
            let refused = model.compile(&after("no such")).unwrap_err().to_string();
            assert!(refused.contains("\"no such\" before the answer"), "{refused}");
        }
    }
}

#[test]
fn every_choice_is_reached_and_nothing_else() {
    let mut random = random();
    let choices =
        ["a", "ab", "abc", " blank", "\"quoted\" \\ /", "a|b", "(x", "日本", "two\nlines"];
    let choices: Vec<String> = choices.map(String::from).to_vec();
    for model in Model::all() {
        let mut missing = choices.clone();
        for _ in 0..2000 {
            let text = model.walk(&Form::Choice(choices.clone()), &mut random);
            assert!(choices.contains(&text), "{}: {text:?}", model.name);
            missing.retain(|choice| *choice != text);
            if missing.is_empty() {
                break;
            }
        }
        assert!(missing.is_empty(), "{}: never {missing:?}", model.name);
    }
}

#[test]
fn a_grammar_is_followed() {
    let mut random = random();
    let grammar = r#"
        start: sum
        sum: product ("+" product)*
        product: atom ("*" atom)*
        atom: NUMBER | "(" sum ")"
        NUMBER: /[0-9]{1,3}/
    "#;
    let judge = Regex::new(r"^[0-9]{1,3}([+*][0-9]{1,3})*$").unwrap();
    for model in Model::all() {
        for _ in 0..10 {
            let text = model.walk(&Form::Grammar(grammar.into()), &mut random);
            let open = text.matches('(').count();
            assert_eq!(open, text.matches(')').count(), "{}: {text:?}", model.name);
            let flat = text.replace(['(', ')'], "");
            assert!(judge.is_match(&flat), "{}: {text:?}", model.name);
        }
    }
}

/// Templates of each dialect, and how many of their model's marks are special tokens.
const DIALECTS: [(&str, &[&str], usize); 18] = [
    ("<tool_call>", &["<tool_call>", "</tool_call>"], 0),
    ("<tool_call> </think>", &["<tool_call>", "</tool_call>", "<think>", "</think>"], 4),
    ("<tool_call> </think>", &["<tool_call>", "</tool_call>", "<think>", "</think>"], 0),
    ("<|start_header_id|> \"parameters\": ", &["<|python_tag|>"], 1),
    ("[TOOL_CALLS] </think>", &["[TOOL_CALLS]", "<think>", "</think>"], 1),
    ("[TOOL_CALLS] [ARGS]", &["[TOOL_CALLS]", "[ARGS]"], 2),
    ("<|tool_call|>", &["<|tool_call|>", "<|/tool_call|>"], 2),
    ("<TOOLCALL>[", &["<TOOLCALL>", "</TOOLCALL>"], 0),
    ("<function=", &["<function=", "</function>"], 0),
    ("<｜tool▁sep｜>", &DEEPSEEK, 5),
    ("<｜tool▁sep｜> ```json", &DEEPSEEK, 5),
    ("<|tool_call_start|>", &["<|tool_call_start|>", "<|tool_call_end|>"], 2),
    ("<|tool_call> <tool_call|>", &["<|tool_call>", "<tool_call|>"], 2),
    ("<|start|> <|channel|> <|message|>", &HARMONY, 5),
    ("<function= <parameter=", &["<tool_call>", "</tool_call>"], 0),
    ("<function= <parameter=", &["<tool_call>", "</tool_call>"], 2),
    ("<function name=\" <param name=\"", &["<function name=\""], 0),
    ("<arg_key>", &["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "</arg_value>"], 5),
];

const DEEPSEEK: [&str; 5] = [
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
];

const HARMONY: [&str; 5] = ["<|channel|>", "<|start|>", "<|message|>", "<|constrain|>", "<|end|>"];

/// The built-in model with these marks, the first of which are special, and a template that ends with
/// `end`.
fn with_marks(template: &str, marks: &[&str], special: usize, end: &str) -> Chat {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("www/model/tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let vocab = tokenizer["model"]["vocab"].as_object().unwrap().len();
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    for (i, mark) in marks.iter().enumerate() {
        let mut token = added[0].clone();
        (token["content"], token["id"]) = ((*mark).into(), (vocab + i).into());
        token["special"] = (i < special).into();
        added.push(token);
    }
    let template = format!("{{# {template} #}}{{{{ tools }}}}{{{{ messages[0].content }}}}{end}");
    Chat::new(&ChatFiles {
        tokenizer: tokenizer.to_string().as_bytes(),
        chat_template_jinja: Some(template.as_bytes()),
        ..Default::default()
    })
    .expect("a valid model")
}

#[test]
fn calls_of_every_dialect_are_read_as_valid_calls() {
    let mut random = random();
    let mut parameters = json!({
        "type": "object",
        "properties": {
            "text": {"type": "string", "maxLength": 8},
            "mode": {"enum": ["x", "y z"]},
            "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
        },
        "required": ["text"],
        "additionalProperties": false,
    });
    let answer = json!({
        "type": "object",
        "properties": {"sum": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["sum"],
        "additionalProperties": false,
    });
    let answers = jsonschema::validator_for(&answer).expect("a valid schema");
    let (mut called, mut answered) = (0, 0);
    for (template, marks, special) in DIALECTS {
        if ["<parameter=", "<param name", "<arg_key>"].iter().any(|mark| template.contains(mark)) {
            // A string without quotes may be of any length.
            parameters["properties"]["text"] = json!({"type": "string"});
        }
        let validator = jsonschema::validator_for(&parameters).expect("a valid schema");
        let tool = |name: &str, strict: bool| {
            json!({"type": "function", "function":
                {"name": name, "parameters": parameters, "strict": strict}})
        };
        for (choice, end, held) in [
            ("required", "", false),
            ("required", "<think>", false),
            ("auto", "", false),
            ("auto", "", true),
        ] {
            let chat = with_marks(template, marks, special, end);
            let format = json!({"type": "json_schema", "json_schema": {"schema": answer}});
            let request = json!({
                "response_format": if held { format } else { json!({"type": "text"}) },
                "messages": [{"role": "user", "content": "a"}],
                "tools": [tool("one", true), tool("two", true)],
                "tool_choice": choice,
            });
            let request = ChatCompletionRequest::read(&request).unwrap().validate().unwrap();
            let prompt = chat.prompt(&request.conversation, None).unwrap();
            let form = prompt.form.expect("the tools are strict");
            form.check().unwrap();
            let mut model = Model::of(template, chat.tokenizer(), "<|im_end|>");
            model.marks = marks.iter().filter_map(|mark| chat.tokenizer().token_id(mark)).collect();
            for _ in 0..12 {
                let ids = model.walk_ids(&form, &mut random);
                let (tokenizer, rules) = (chat.tokenizer().clone(), TextRules::default());
                let mut pieces = Pieces::new(tokenizer, &rules, &prompt.reading, &[]).unwrap();
                let mut found = Vec::new();
                for id in &ids {
                    found.extend(pieces.push(*id, ()).unwrap());
                }
                found.push(pieces.finish().piece);
                let told =
                    format!("{template} {choice} {end}: {:?}", chat.tokenizer().decode(&ids));
                let mut calls: Vec<(String, String)> = Vec::new();
                for call in found.iter().flat_map(|piece| &piece.calls) {
                    match &call.name {
                        Some(name) => calls.push((name.clone(), call.arguments.clone())),
                        None => calls[call.index].1.push_str(&call.arguments),
                    }
                }
                let content: String = found.iter().map(|piece| piece.text.as_str()).collect();
                if choice == "required" {
                    assert!(!calls.is_empty() && content.trim().is_empty(), "{told} {content:?}");
                }
                assert!(!content.contains(marks[0]), "{told} {content:?}");
                if held && calls.is_empty() {
                    assert!(
                        answers.is_valid(&serde_json::from_str(&content).expect(&told)),
                        "{told}"
                    );
                    answered += 1;
                } else if held {
                    assert!(content.trim().is_empty(), "{told} {content:?}");
                }
                called += calls.len();
                for (name, arguments) in &calls {
                    assert!(matches!(name.as_str(), "one" | "two"), "{told}");
                    let arguments = serde_json::from_str(arguments).expect(&told);
                    assert!(validator.is_valid(&arguments), "{told}");
                }
            }
        }
    }
    assert!(called > 100, "{called} calls");
    assert!(answered > 20, "{answered} answers");
}
