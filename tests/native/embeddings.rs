//! Embeddings by the built-in model, from texts to vectors, on the CPU executor.

use crate::built_in::{run, service, service_with};
use crate::support::nmse;
use serde::Deserialize;
use serde_json::{Value, json};
use tabloom::{
    Result,
    api::{ChatCompletionRequest, EmbeddingRequest, EmbeddingResponse, Vector},
    engine::{Options, RequestId, TabId},
    error::Error,
    executor::AnyExecutor,
    load::LoadOptions,
    service::{Moment, Reply, Service},
};

/// The embeddings of transformers with the same weights.
#[derive(Deserialize)]
struct Goldens {
    texts: Vec<Golden>,
}

#[derive(Deserialize)]
struct Golden {
    text: String,
    tokens: u32,
    mean: Vec<f32>,
    last: Vec<f32>,
}

fn goldens() -> Vec<Golden> {
    let json =
        std::fs::read(crate::support::goldens::folder("embeddings.json")).expect("they are there");
    serde_json::from_slice::<Goldens>(&json).expect("they are valid").texts
}

fn embed(service: &mut Service<AnyExecutor>, request: Value) -> Result<RequestId> {
    service.embed(EmbeddingRequest::read(&request)?.validate()?, TabId(0), 0)
}

/// The only reply to a request.
fn answer(service: &mut Service<AnyExecutor>, request: Value) -> EmbeddingResponse {
    let id = embed(service, request).expect("it is accepted");
    match &run(service)[..] {
        [(of, Reply::Embeddings(response))] if *of == id => response.clone(),
        other => panic!("{other:?}"),
    }
}

fn floats(response: &EmbeddingResponse) -> Vec<Vec<f32>> {
    let float = |vector: &Vector| match vector {
        Vector::Float(vector) => vector.clone(),
        Vector::Base64(text) => panic!("{text}"),
    };
    response.data.iter().map(|embedding| float(&embedding.embedding)).collect()
}

#[test]
fn embeddings_are_those_of_transformers() {
    let (mut service, goldens) = (service(), goldens());
    let texts: Vec<_> = goldens.iter().map(|golden| &golden.text).collect();
    let total: u32 = goldens.iter().map(|golden| golden.tokens).sum();
    for (pooling, mean) in [(json!("mean"), true), (json!("last"), false), (Value::Null, false)] {
        let response = answer(&mut service, json!({ "input": texts, "pooling": pooling }));
        assert_eq!((&response.model[..], response.usage.prompt_tokens), ("built-in", total));
        assert_eq!(response.data.len(), goldens.len());
        for (golden, found) in goldens.iter().zip(floats(&response)) {
            let expected = if mean { &golden.mean } else { &golden.last };
            let error = nmse(expected, &found);
            assert!(error <= 1e-5, "{pooling} of {:?}: NMSE {error:.2e}", golden.text);
        }
    }
}

#[test]
fn many_inputs_come_back_in_order_beside_a_chat() {
    let mut service = service();
    let input: Vec<_> = (0..150).map(|i| vec![3 + i; 1 + i % 40]).collect();
    let messages = json!([{ "role": "user", "content": "Hello!" }]);
    let chat = ChatCompletionRequest::read(json!({ "messages": messages, "max_tokens": 5 }));
    let chat = chat.and_then(ChatCompletionRequest::validate).expect("a valid request");
    let chat = service
        .submit(chat, Moment { now: 0, entropy: 1, tab: TabId(0), salt: 0 }, &[])
        .expect("it is accepted");
    let request = json!({ "input": input, "model": "mine" });
    let many = embed(&mut service, request).expect("it is accepted");
    let (mut response, mut chats) = (None, 0);
    for (id, reply) in run(&mut service) {
        match reply {
            Reply::Embeddings(found) if id == many => response = Some(found),
            Reply::Completion(_) if id == chat => chats += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(chats, 1);
    let response = response.expect("it is answered");
    assert_eq!(response.model, "mine");
    let tokens: u32 = input.iter().map(|tokens| tokens.len() as u32).sum();
    assert_eq!(response.usage.prompt_tokens, tokens);
    assert!(response.data.iter().enumerate().all(|(i, data)| data.index == i));
    let found = floats(&response);
    for i in [0, 16, 149] {
        let alone = answer(&mut service, json!({ "input": input[i] }));
        assert_eq!(floats(&alone), [found[i].clone()], "input {i}");
    }
}

#[test]
fn cancelled_and_refused_requests_leave_nothing_behind() {
    let mut service = service();
    let id = embed(&mut service, json!({ "input": vec!["Once upon a time."; 40] }));
    pollster::block_on(service.step()).expect("the engine runs");
    service.cancel(id.expect("it is accepted"));
    assert_eq!(run(&mut service), []);

    let long = vec![5; 1024];
    for (input, param, found) in [
        (json!([[5], long]), "input[1]", "1024 tokens"),
        (json!([[5], [5], [2048]]), "input[2]", "2048"),
    ] {
        match embed(&mut service, json!({ "input": input })) {
            Err(Error::InvalidRequest { param: at, message }) => {
                assert_eq!(at, param, "{message}");
                assert!(message.contains(found), "{message}");
            }
            other => panic!("{param}: {other:?}"),
        }
        assert_eq!(run(&mut service), []);
    }
    // Behind those that the engine takes at first.
    let mut input = vec![vec![5]; 40];
    input[30] = long;
    let id = embed(&mut service, json!({ "input": input })).expect("it is accepted");
    let [(of, Reply::Error(Error::InvalidRequest { param, .. }))] = &run(&mut service)[..] else {
        panic!("not refused");
    };
    assert_eq!((*of, &param[..]), (id, "input[30]"));
}

/// What the queue has no room for waits for what is in it, its own or not.
#[test]
fn inputs_that_find_the_queue_full_wait() {
    for limit in [1, 3] {
        let scheduling = Options { max_queue: limit, ..Options::default() };
        let mut service = service_with(LoadOptions::default(), scheduling);
        let input: Vec<_> = (0..20).map(|i| vec![3 + i; 30]).collect();
        let ids = [(); 2].map(|()| embed(&mut service, json!({ "input": input })));
        let [Ok(first), second] = ids else { panic!("{ids:?}") };
        assert!(matches!(second, Err(Error::QueueFull { .. })), "there is none to wait for");
        let chat =
            json!({ "messages": [{ "role": "user", "content": "Hello!" }], "max_tokens": 9 });
        let chat = ChatCompletionRequest::read(chat).and_then(ChatCompletionRequest::validate);
        let chat = chat.expect("a valid request");
        let moment = Moment { now: 0, entropy: 1, tab: TabId(1), salt: 0 };
        let mut replies = Vec::new();
        while replies.is_empty() {
            // Others take each place that there is.
            while service.submit(chat.clone(), moment, &[]).is_ok() {}
            let step = pollster::block_on(service.step()).expect("the engine runs");
            replies.extend(step.into_iter().filter(|(id, _)| *id == first));
            assert!(service.metrics().request_success.length < 500, "it waits for ever");
        }
        let [(_, Reply::Embeddings(response))] = &replies[..] else { panic!("{replies:?}") };
        assert_eq!(response.data.len(), 20);
    }
}
