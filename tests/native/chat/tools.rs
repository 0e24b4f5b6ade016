//! Calls of tools by the built-in model, which was not trained on any.

use super::*;

/// Two tools, of which the second is strict if `strict`.
fn tools(strict: bool) -> serde_json::Value {
    let pick = serde_json::json!({
        "type": "object",
        "properties": {
            "colour": { "enum": ["red", "green"] },
            "count": { "type": "integer", "minimum": 1, "maximum": 9 },
        },
        "required": ["colour", "count"],
        "additionalProperties": false,
    });
    serde_json::json!([
        { "type": "function", "function": { "name": "rest", "description": "Does nothing." } },
        { "type": "function", "function": { "name": "pick", "parameters": pick, "strict": strict } },
    ])
}

/// Checks the calls of an answer, whole or joined: known tools, valid arguments.
fn check_calls(calls: &[(String, String)]) {
    assert!(!calls.is_empty());
    let schema = tools(false)[1]["function"]["parameters"].clone();
    let picks = jsonschema::validator_for(&schema).expect("a valid schema");
    for (name, arguments) in calls {
        let arguments: serde_json::Value = serde_json::from_str(arguments).expect("valid JSON");
        match name.as_str() {
            "rest" => assert_eq!(arguments, serde_json::json!({})),
            "pick" => assert!(picks.is_valid(&arguments), "{arguments}"),
            other => panic!("{other} is no tool"),
        }
    }
}

#[test]
fn a_model_not_trained_on_tools_calls_one_if_required() {
    let mut service = service();
    let named = serde_json::json!({ "type": "function", "function": { "name": "pick" } });
    for (choice, seed) in [("required".into(), 1), ("required".into(), 2), (named.clone(), 3)] {
        let fields = serde_json::json!({
            "tools": tools(false), "tool_choice": choice, "parallel_tool_calls": false, "seed": seed,
        });
        let answer = whole(&mut service, fields);
        let choice = &answer.choices[0];
        assert_eq!(choice.finish_reason, FinishReason::ToolCalls);
        assert_eq!(choice.message.content, None);
        let calls = choice.message.tool_calls.iter().map(|call| &call.function);
        let calls: Vec<_> = calls.map(|call| (call.name.clone(), call.arguments.clone())).collect();
        check_calls(&calls);
        assert!(calls.len() == 1 && (seed < 3 || calls[0].0 == "pick"), "{calls:?}");
    }
}

#[test]
fn a_required_call_of_a_tool_that_is_not_strict_keeps_to_its_form_where_it_cannot_keep_to_its_schema()
 {
    let mut service = service();
    let integer = serde_json::json!({ "type": "integer" });
    let either = serde_json::json!({ "oneOf": [integer, { "type": "integer", "minimum": 5 }] });
    let neither = serde_json::json!({ "allOf": [integer, { "type": "string" }] });
    let one = |property: serde_json::Value, strict: bool| {
        let schema = serde_json::json!({
            "type": "object", "properties": { "a": property }, "required": ["a"],
        });
        let function = serde_json::json!({ "name": "f", "parameters": schema, "strict": strict });
        serde_json::json!([{ "type": "function", "function": function }])
    };
    let named = serde_json::json!({ "type": "function", "function": { "name": "f" } });
    for (tools, choice) in [
        (one(serde_json::json!({ "$ref": "#/nowhere" }), false), "required".into()),
        (one(either.clone(), false), "required".into()),
        (one(neither, false), named),
    ] {
        let fields = serde_json::json!({
            "tools": tools, "tool_choice": choice, "parallel_tool_calls": false, "max_tokens": 40,
        });
        let answer = whole(&mut service, fields);
        let message = &answer.choices[0].message;
        assert_eq!(message.tool_calls.len(), 1, "{tools}");
        assert_eq!(message.content, None, "{tools}");
    }
    let fields = serde_json::json!({
        "tools": one(either, true), "messages": goldens()[0].messages, "tool_choice": "required",
    });
    submit(&mut service, fields);
    match run(&mut service).pop() {
        Some((_, Reply::Error(Error::InvalidRequest { message, .. }))) => {
            assert!(message.contains("oneOf"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stream_of_tool_calls_continues_in_another_engine() {
    let fields = serde_json::json!({
        "messages": goldens()[0].messages, "stream": true, "temperature": 1, "max_tokens": 200,
        "tools": tools(true), "tool_choice": "required", "parallel_tool_calls": false,
    });
    let mut all = service();
    submit(&mut all, fields.clone());
    let whole: Vec<Reply> = run(&mut all).into_iter().map(|(_, reply)| reply).collect();
    let mut said = Delta::default();
    for reply in &whole {
        if let Reply::Chunk { value, .. } = reply {
            said.extend(value.choices[0].delta.clone());
        }
    }
    let calls = said.tool_calls.iter().map(|call| &call.function);
    let calls: Vec<_> =
        calls.map(|call| (call.name.clone().expect("a name"), call.arguments.clone())).collect();
    check_calls(&calls);
    assert_eq!(said.content.as_deref(), Some(""), "the first chunk's");
    for cut in [1, 2, whole.len() / 2, whole.len() - 2] {
        let mut resumed = Resumed::default();
        for chunk in &whole[..cut] {
            let Reply::Chunk { tokens, ended, .. } = chunk else { panic!("{chunk:?}") };
            resumed.started = true;
            resumed.tokens.extend(tokens);
            resumed.ended = *ended;
        }
        let mut other = service();
        other.submit(request(fields.clone()), MOMENT, &[resumed]).expect("it is accepted");
        let rest: Vec<Reply> = run(&mut other).into_iter().map(|(_, reply)| reply).collect();
        assert_eq!(rest, whole[cut..], "after {cut} chunks");
    }
}
