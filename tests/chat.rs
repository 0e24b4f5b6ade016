//! Conversations with the built-in model, from messages to streamed text, on the CPU executor.

mod support;

use std::ops::ControlFlow;

use serde::Deserialize;
use tabloom::{
    api::ChatCompletionRequest,
    engine::{Options, RequestId, steady_clock},
    error::Error,
    executor::AnyExecutor,
    load::{self, Device, LoadOptions},
    sampling::LocalCompiler,
    service::{Moment, Reply, Service},
    weights::FolderSource,
};

/// What transformers answers with the same weights.
#[derive(Deserialize)]
struct Golden {
    messages: serde_json::Value,
    answer: String,
    answer_ids: Vec<u32>,
}

fn goldens() -> Vec<Golden> {
    let file = support::goldens::folder("embedded.json");
    let json = std::fs::read(file).expect("the goldens are there");
    serde_json::from_slice(&json).expect("the goldens are valid")
}

fn service() -> Service<AnyExecutor> {
    let source = FolderSource::new(format!("{}/www/model", env!("CARGO_MANIFEST_DIR")));
    let options = LoadOptions { device: Device::Cpu, ..Default::default() };
    let load = load::model(&source, &options, |_| ControlFlow::Continue(()));
    let model = pollster::block_on(load).expect("the built-in model loads");
    Service::new(
        model.loaded.executor,
        model.chat,
        "built-in".into(),
        Options::default(),
        steady_clock(),
    )
    .with_compiler(Box::new(LocalCompiler::default()))
}

fn submit(service: &mut Service<AnyExecutor>, request: serde_json::Value) -> RequestId {
    let request: ChatCompletionRequest = serde_json::from_value(request).expect("a request");
    let request = request.validate().expect("a valid request");
    service.submit(request, Moment { now: 1_800_000_000, entropy: 7 }).expect("it is accepted")
}

/// Steps until nothing is left to do.
fn run(service: &mut Service<AnyExecutor>) -> Vec<(RequestId, Reply)> {
    let mut replies = Vec::new();
    for _ in 0..2000 {
        if service.is_idle() {
            return replies;
        }
        replies.extend(pollster::block_on(service.step()).expect("the engine runs"));
    }
    panic!("the service does not come to rest");
}

/// The text that a request streamed.
fn streamed(replies: &[(RequestId, Reply)], id: RequestId) -> String {
    let chunks = replies.iter().filter(|(of, _)| *of == id).filter_map(|(_, reply)| match reply {
        Reply::Chunk(chunk) => chunk.choices.first()?.delta.content.clone(),
        _ => None,
    });
    chunks.collect()
}

#[test]
fn answers_are_those_of_transformers_alone_and_in_a_batch() {
    let mut service = service();
    let goldens = goldens();
    let request = |golden: &Golden| {
        let messages = &golden.messages;
        serde_json::json!({ "messages": messages, "stream": true, "temperature": 0 })
    };
    for golden in &goldens {
        let id = submit(&mut service, request(golden));
        assert_eq!(streamed(&run(&mut service), id), golden.answer);
    }
    let ids: Vec<_> = goldens.iter().map(|g| submit(&mut service, request(g))).collect();
    let replies = run(&mut service);
    for (golden, id) in goldens.iter().zip(ids) {
        assert_eq!(streamed(&replies, id), golden.answer);
    }
}

#[test]
fn a_whole_completion_counts_its_tokens() {
    let mut service = service();
    let golden = &goldens()[0];
    let id =
        submit(&mut service, serde_json::json!({ "messages": golden.messages, "temperature": 0 }));
    let replies = run(&mut service);
    let [(of, Reply::Completion(completion))] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(*of, id);
    assert_eq!(completion.choices[0].message.content, golden.answer);
    assert_eq!(completion.usage.completion_tokens as usize, golden.answer_ids.len());
}

#[test]
fn the_text_ends_before_a_stop_string_and_the_length_limit_holds() {
    let mut service = service();
    let golden = &goldens()[0];
    let stop: String = golden.answer.chars().skip(4).take(6).collect();
    let before = golden.answer.split(&stop).next().expect("split gives a first part");
    let mut request = serde_json::json!({
        "messages": golden.messages, "stream": true, "temperature": 0, "stop": stop,
        "stream_options": { "include_usage": true },
    });
    let id = submit(&mut service, request.clone());
    assert_eq!(streamed(&run(&mut service), id), before);

    request["stop"] = serde_json::Value::Null;
    request["max_tokens"] = 3.into();
    let id = submit(&mut service, request);
    let replies = run(&mut service);
    assert!(golden.answer.starts_with(&streamed(&replies, id)));
    let reasons: Vec<_> = replies
        .iter()
        .filter_map(|(_, reply)| match reply {
            Reply::Chunk(chunk) => chunk.choices.first()?.finish_reason,
            _ => None,
        })
        .collect();
    assert_eq!(reasons, [tabloom::api::FinishReason::Length]);
    assert!(matches!(replies.last(), Some((_, Reply::End))));
}

#[test]
fn a_cancelled_request_falls_silent_and_a_long_prompt_is_refused() {
    let mut service = service();
    let golden = &goldens()[0];
    let id =
        submit(&mut service, serde_json::json!({ "messages": golden.messages, "stream": true }));
    pollster::block_on(service.step()).expect("the engine runs");
    service.cancel(id);
    assert!(run(&mut service).iter().all(|(of, _)| *of != id));

    let long = "Tell me a story. ".repeat(600);
    let request = serde_json::json!({ "messages": [{ "role": "user", "content": long }] });
    let request: ChatCompletionRequest = serde_json::from_value(request).expect("a request");
    let request = request.validate().expect("a valid request");
    let refused = service.submit(request, Moment { now: 0, entropy: 0 });
    assert!(matches!(refused, Err(Error::ContextLengthExceeded { .. })), "{refused:?}");
    let id = submit(
        &mut service,
        serde_json::json!({ "messages": golden.messages, "stream": true, "temperature": 0 }),
    );
    assert_eq!(streamed(&run(&mut service), id), golden.answer, "the engine stays usable");
}

#[test]
fn constrained_answers_keep_to_their_form_beside_one_that_is_free() {
    let mut service = service();
    let golden = &goldens()[0];
    let asked = |field: &str, value: serde_json::Value| {
        let mut request = serde_json::json!({ "messages": golden.messages, "temperature": 0 });
        request[field] = value;
        request
    };
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "animal": { "enum": ["cat", "dog"] },
            "legs": { "type": "integer", "minimum": 0, "maximum": 8 },
        },
        "required": ["animal", "legs"],
        "additionalProperties": false,
    });
    let format = serde_json::json!({ "type": "json_schema", "json_schema": { "schema": schema } });
    let json = submit(&mut service, asked("response_format", format));
    let choices = ["neither", "of these"];
    let choice = serde_json::json!({ "choice": choices });
    let choice = submit(&mut service, asked("structured_outputs", choice));
    let free = submit(&mut service, asked("stream", false.into()));
    // What only compiling tells.
    let regex = serde_json::json!({ "regex": r"a\bb" });
    let refused = submit(&mut service, asked("structured_outputs", regex));

    let replies = run(&mut service);
    let text = |id: RequestId| match replies.iter().find(|(of, _)| *of == id) {
        Some((_, Reply::Completion(completion))) => completion.choices[0].message.content.clone(),
        other => panic!("{other:?}"),
    };
    let answer: serde_json::Value = serde_json::from_str(&text(json)).expect("JSON");
    jsonschema::validate(&schema, &answer).expect("it is valid");
    assert!(choices.contains(&text(choice).as_str()));
    assert_eq!(text(free), golden.answer);
    let error = replies.iter().find(|(of, _)| *of == refused).map(|(_, reply)| reply);
    match error {
        Some(Reply::Error(Error::InvalidRequest { param, .. })) => {
            assert_eq!(param, "structured_outputs.regex");
        }
        other => panic!("{other:?}"),
    }
}
