//! Requests that official clients really send, recorded by `record_clients.mjs`: each is accepted and means
//! what the conversation was.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tabloom::api::{
    ChatCompletionRequest, ChatRequest, CompletionRequest, EmbeddingRequest, Form, Message, Role,
};

use crate::walks::Model;

#[derive(Deserialize)]
struct Recorded {
    conversations: Map<String, Value>,
}

#[derive(Deserialize)]
struct Request {
    path: String,
    body: Value,
}

fn conversations() -> Vec<(String, Vec<Request>)> {
    let recorded = include_str!("../goldens/real/client_requests.json");
    let recorded: Recorded = serde_json::from_str(recorded).expect("it is valid");
    let requests = |(name, requests)| (name, serde_json::from_value(requests).expect("requests"));
    recorded.conversations.into_iter().map(requests).collect()
}

fn chat(body: &Value) -> ChatRequest {
    let request = ChatCompletionRequest::read(body).expect("it is read");
    request.validate().unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// The last request of a conversation.
fn last(name: &str) -> ChatRequest {
    let all = conversations();
    let (_, requests) = all.iter().find(|(other, _)| other == name).expect("it is recorded");
    chat(&requests.last().expect("a request").body)
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

/// A message of the assistant that calls one tool.
fn call(id: &str, name: &str, arguments: Value) -> Message {
    let arguments = object(arguments);
    let call = tabloom::api::ToolCall { id: id.into(), name: name.into(), arguments };
    Message { content: None, calls: vec![call], ..Message::assistant("") }
}

/// What a client makes of a stream whose first piece has an empty text.
fn no_text(message: Message) -> Message {
    Message { content: Some(String::new()), ..message }
}

fn thought(message: Message) -> Message {
    Message { reasoning: Some("Let me see.".into()), ..message }
}

fn ask() -> Message {
    Message::user("What is the weather in Paris?")
}

fn weather() -> Message {
    call("call_1", "weather", json!({ "city": "Paris", "country": null }))
}

#[test]
fn every_request_is_accepted() {
    let mut count = 0;
    for (name, requests) in conversations() {
        for Request { path, body } in requests {
            let refused = match path.as_str() {
                "chat/completions" => ChatCompletionRequest::read(&body)
                    .and_then(|request| request.validate())
                    .map(drop),
                "completions" => {
                    CompletionRequest::read(&body).and_then(|request| request.validate()).map(drop)
                }
                _ => EmbeddingRequest::read(&body).and_then(|request| request.validate()).map(drop),
            };
            assert_eq!(refused, Ok(()), "{name}: {body}");
            count += 1;
        }
    }
    assert!(count > 30, "{count} requests");
}

#[test]
fn what_was_said_comes_back() {
    let sunny = || Message::assistant("It is sunny.");
    let paris = r#"{"city":"Paris","country":"France"}"#;
    let clock = || call("call_2", "clock", json!({}));
    let celsius = |id| Message::tool(id, r#"{"celsius":21}"#);
    let kind = || Message::system("Be kind.");
    for (name, messages) in [
        ("openai: parse, and its message sent back", vec![ask(), Message::assistant(paris), ask()]),
        (
            "openai: parse with strict tools, and its calls sent back",
            vec![ask(), weather(), celsius("call_1")],
        ),
        (
            "openai: runTools",
            vec![
                ask(),
                weather(),
                Message::tool("call_1", "21"),
                clock(),
                Message::tool("call_2", "21"),
            ],
        ),
        (
            "openai: runTools in a stream",
            vec![ask(), no_text(weather()), Message::tool("call_1", "21")],
        ),
        (
            "openai: a stream put together, and sent back",
            vec![
                kind(),
                ask(),
                thought(sunny()),
                ask(),
                no_text(weather()),
                celsius("call_1"),
                no_text(clock()),
                celsius("call_2"),
            ],
        ),
        (
            "openai: answers of vLLM and OpenRouter sent back",
            vec![
                ask(),
                thought(sunny()),
                ask(),
                thought(sunny()),
                ask(),
                thought(Message::assistant("")),
                ask(),
                Message::assistant("No."),
                ask(),
            ],
        ),
        (
            "ai: generateText in steps",
            vec![
                ask(),
                thought(weather()),
                Message::tool("call_1", "21"),
                clock(),
                Message::tool("call_2", "12:00"),
            ],
        ),
        (
            "ai: streamText in steps, a call required first",
            vec![kind(), ask(), thought(weather()), celsius("call_1"), sunny(), ask()],
        ),
    ] {
        let conversation = last(name).conversation;
        assert_eq!(conversation.messages, messages, "{name}");
        assert!(!conversation.continues, "{name}");
        let tools = messages.iter().filter(|message| message.role == Role::Tool);
        assert!(
            tools.count() == 0
                || name.contains("streamText")
                || !conversation.tools.list.is_empty()
        );
    }
}

#[test]
fn tools_are_held_as_they_are_strict() {
    for (name, strict) in [
        ("openai: parse with strict tools, and its calls sent back", vec![("weather", true)]),
        ("openai: runTools", vec![("weather", false), ("clock", false)]),
        ("openai: runTools in a stream", vec![("weather", true)]),
        (
            "openai: a stream put together, and sent back",
            vec![("weather", false), ("clock", false)],
        ),
        (
            "ai: generateText in steps",
            vec![("weather", false), ("clock", false), ("many", false), ("loose", false)],
        ),
    ] {
        let tools = last(name).conversation.tools.list;
        let mut found: Vec<_> =
            tools.iter().map(|tool| (tool.name.as_str(), tool.strict)).collect();
        found.sort();
        let mut strict = strict;
        strict.sort();
        assert_eq!(found, strict, "{name}");
    }
}

#[test]
fn answers_are_held_to_the_schemas_that_the_clients_write() {
    let model = Model::open("www/model", "<|im_end|>");
    let mut random = crate::walks::random();
    let mut count = 0;
    for (name, requests) in conversations() {
        for Request { path, body } in requests {
            if path != "chat/completions" {
                continue;
            }
            let request = chat(&body);
            let spec = request.constraint.map(|spec| spec.form);
            let tools = request.conversation.tools.list.into_iter();
            let tools = tools.filter(|tool| tool.is_held(true)).filter_map(|tool| tool.parameters);
            let schemas = tools.map(|schema| Form::JsonSchema(schema.into())).chain(spec);
            for form in schemas {
                let Form::JsonSchema(schema) = &form else { continue };
                let judge = jsonschema::options().should_validate_formats(true).build(schema);
                let judge = judge.expect("the schema is valid");
                for _ in 0..3 {
                    let (text, value) = model.json(&form, &mut random);
                    assert!(judge.is_valid(&value), "{name}: {schema}: {text}");
                    count += 1;
                }
            }
        }
    }
    assert!(count > 20, "{count} walks");
}
