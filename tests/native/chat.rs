//! Conversations with the built-in model on the CPU executor, from messages to streamed text.

mod tools;

use crate::built_in::{run, service, service_with};
use serde::Deserialize;
use tabloom::{
    api::{
        ChatCompletion, ChatCompletionRequest, ChatRequest, Choice, Delta, EmbeddingRequest,
        FinishReason,
    },
    engine::{Options, RequestId, TabId},
    error::Error,
    executor::{AnyExecutor, KvKind},
    load::LoadOptions,
    service::{Moment, Reply, Resumed, Service},
    step::BLOCK_SIZE,
};

const MOMENT: Moment = Moment { now: 1_800_000_000, entropy: 7, tab: TabId(0), salt: 0 };

/// The answers of transformers with the same weights.
#[derive(Deserialize)]
struct Golden {
    messages: serde_json::Value,
    answer: String,
    prompt_ids: Vec<u32>,
    answer_ids: Vec<u32>,
}

fn goldens() -> Vec<Golden> {
    let file = crate::support::goldens::folder("embedded.json");
    let json = std::fs::read(file).expect("the goldens are there");
    serde_json::from_slice(&json).expect("the goldens are valid")
}

/// The request of these fields.
fn request(fields: serde_json::Value) -> ChatRequest {
    let request = ChatCompletionRequest::read(fields).expect("a request");
    request.validate().expect("a valid request")
}

fn submit(service: &mut Service<AnyExecutor>, fields: serde_json::Value) -> RequestId {
    service.submit(request(fields), MOMENT, &[]).expect("it is accepted")
}

/// The text that a request streamed.
fn streamed(replies: &[(RequestId, Reply)], id: RequestId) -> String {
    let chunks = replies.iter().filter(|(of, _)| *of == id).filter_map(|(_, reply)| match reply {
        Reply::Chunk { value, .. } => value.choices.first()?.delta.content.clone(),
        _ => None,
    });
    chunks.collect()
}

fn content(choice: &Choice) -> &str {
    choice.message.content.as_deref().expect("it says something")
}

#[test]
fn keys_and_values_in_int8_hardly_change_an_answer() {
    let options = LoadOptions { kv: KvKind::Int8, ..Default::default() };
    let mut service = service_with(options, Options::default());
    let goldens = goldens();
    let mut same = 0;
    for golden in &goldens {
        let messages = &golden.messages;
        let request = serde_json::json!({ "messages": messages, "stream": true, "temperature": 0 });
        let id = submit(&mut service, request);
        let answer = streamed(&run(&mut service), id);
        same += usize::from(answer == golden.answer);
    }
    assert!(same + 1 >= goldens.len(), "{same} of {} answers", goldens.len());
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
    assert_eq!(content(&completion.choices[0]), golden.answer);
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
            Reply::Chunk { value, .. } => value.choices.first()?.finish_reason,
            _ => None,
        })
        .collect();
    assert_eq!(reasons, [FinishReason::Length]);
    assert!(matches!(replies.last(), Some((_, Reply::End))));
}

#[test]
fn log_probabilities_are_the_same_in_a_response_and_in_a_stream() {
    let mut service = service();
    let golden = &goldens()[0];
    let mut request = serde_json::json!({
        "messages": golden.messages, "temperature": 0, "logprobs": true, "top_logprobs": 3,
    });
    submit(&mut service, request.clone());
    let replies = run(&mut service);
    let [(_, Reply::Completion(completion))] = &replies[..] else { panic!("{replies:?}") };
    let whole = completion.choices[0].logprobs.as_ref().expect("asked for").content.clone();
    // Greedy: each token is the most likely. The end token is not part of the answer.
    assert_eq!(whole.len(), golden.answer_ids.len() - 1);
    for entry in &whole {
        assert_eq!(entry.top_logprobs.len(), 3);
        assert_eq!(entry.top_logprobs[0], entry.chosen);
        assert!(entry.chosen.logprob <= 0.0);
        let mass: f32 = entry.top_logprobs.iter().map(|top| top.logprob.exp()).sum();
        assert!((0.1..1.0001).contains(&mass), "{entry:?}");
    }
    let text: Vec<u8> = whole.iter().flat_map(|entry| entry.chosen.bytes.clone()).collect();
    assert_eq!(String::from_utf8(text).expect("whole characters"), golden.answer);

    // Named tokens come after the most likely ones, each once.
    request["logprob_token_ids"] = serde_json::json!([70, 71, 70]);
    let id = submit(&mut service, request.clone());
    let Some((of, Reply::Completion(named))) = run(&mut service).pop() else { panic!("no answer") };
    assert_eq!(of, id);
    let named = &named.choices[0].logprobs.as_ref().expect("asked for").content;
    let spelled = [b"d", b"e"]; // the tokens 70 and 71
    for (entry, before) in named.iter().zip(&whole) {
        assert_eq!(
            (&entry.chosen, &entry.top_logprobs[..3]),
            (&before.chosen, &before.top_logprobs[..])
        );
        for bytes in &spelled {
            let told = entry.top_logprobs.iter().filter(|told| told.bytes == bytes[..]);
            let told: Vec<f32> = told.map(|told| told.logprob).collect();
            assert!(matches!(told[..], [logprob] if logprob <= entry.chosen.logprob), "{entry:?}");
        }
    }
    request.as_object_mut().expect("an object").remove("logprob_token_ids");

    request["stream"] = true.into();
    submit(&mut service, request);
    let choices = run(&mut service).into_iter().filter_map(|(_, reply)| match reply {
        Reply::Chunk { value, .. } => value.choices.into_iter().next()?.logprobs,
        _ => None,
    });
    let streamed: Vec<_> = choices.flat_map(|told| told.content).collect();
    assert_eq!(streamed, whole);
}

/// The whole answer to a golden's messages with more fields, greedy.
fn whole(service: &mut Service<AnyExecutor>, fields: serde_json::Value) -> ChatCompletion {
    let mut request = serde_json::json!({
        "messages": goldens()[0].messages, "temperature": 0, "logprobs": true,
    });
    request.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
    let id = submit(service, request);
    match run(service).pop() {
        Some((of, Reply::Completion(completion))) if of == id => completion,
        other => panic!("{other:?}"),
    }
}

/// The text of each token of an answer.
fn tokens(completion: &ChatCompletion) -> Vec<&str> {
    let logprobs = completion.choices[0].logprobs.as_ref().expect("they were asked for");
    logprobs.content.iter().map(|entry| entry.chosen.token.as_str()).collect()
}

#[test]
fn forbidden_tokens_are_not_sampled() {
    let (mut service, golden) = (service(), &goldens()[0]);
    let plain = whole(&mut service, serde_json::json!({}));
    let said = tokens(&plain);

    let first = said[0].trim_start();
    let without =
        whole(&mut service, serde_json::json!({ "bad_words": [first], "max_tokens": 30 }));
    assert!(tokens(&without).iter().all(|token| token.trim_start() != first), "{without:?}");
    // A bad word of several tokens: its first tokens are allowed.
    let phrase = said[..3].concat();
    let without = whole(&mut service, serde_json::json!({ "bad_words": [phrase] }));
    assert!(content(&without.choices[0]).starts_with(&said[..2].concat()));
    assert_ne!(tokens(&without)[2], said[2]);

    let ids = &golden.answer_ids;
    let mut distinct: Vec<u32> = ids[..ids.len() - 1].to_vec();
    distinct.sort();
    distinct.dedup();
    distinct.truncate(3);
    let fields = serde_json::json!({ "allowed_token_ids": distinct, "max_tokens": 40 });
    let only = whole(&mut service, fields.clone());
    let mut texts = tokens(&only);
    assert_eq!(texts.len(), 40);
    texts.sort();
    texts.dedup();
    assert!(texts.len() <= 3, "{texts:?}");
    // Penalties suppress tokens that occurred before.
    let mut worn = fields;
    worn["frequency_penalty"] = 2.into();
    let worn = whole(&mut service, worn);
    let mut texts = tokens(&worn);
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 3, "{worn:?}");

    let bias = serde_json::json!({ "logit_bias": { ids[1].to_string(): 100 }, "max_tokens": 6 });
    assert_eq!(tokens(&whole(&mut service, bias)), [said[1]; 6]);
}

#[test]
fn an_answer_ends_at_the_requests_limits() {
    let (mut service, golden) = (service(), &goldens()[0]);
    let ids = &golden.answer_ids;
    let at = (1..ids.len()).find(|at| !ids[..*at].contains(&ids[*at])).expect("a new token");
    let stopped = whole(&mut service, serde_json::json!({ "stop_token_ids": [ids[at]] }));
    let choice = &stopped.choices[0];
    assert_eq!((choice.finish_reason, choice.stop_reason), (FinishReason::Stop, Some(ids[at])));
    assert_eq!(stopped.usage.completion_tokens as usize, at + 1);
    assert!(golden.answer.starts_with(content(choice)));

    let most = ids.len() + 5;
    for (field, value) in [("ignore_eos", serde_json::json!(true)), ("min_tokens", most.into())] {
        let longer = whole(&mut service, serde_json::json!({ field: value, "max_tokens": most }));
        let choice = &longer.choices[0];
        assert_eq!((choice.finish_reason, choice.stop_reason), (FinishReason::Length, None));
        assert_eq!(longer.usage.completion_tokens as usize, most);
        assert!(content(choice).starts_with(&golden.answer));
    }
    let in_time = whole(&mut service, serde_json::json!({ "min_tokens": 2, "max_tokens": most }));
    assert_eq!(content(&in_time.choices[0]), golden.answer);
}

#[test]
fn prompt_logprobs_cover_every_token_but_the_first() {
    let mut service = service();
    let golden = &goldens()[0];
    let answer = whole(&mut service, serde_json::json!({ "prompt_logprobs": 2 }));
    assert_eq!(content(&answer.choices[0]), golden.answer);
    let told = answer.prompt_logprobs.expect("it was asked for");
    assert_eq!((told.len(), &told[0]), (answer.usage.prompt_tokens as usize, &None));
    let text: String = told.iter().flatten().map(|entry| entry.chosen.token.as_str()).collect();
    let asked = golden.messages.as_array().expect("messages").last().expect("a message");
    assert!(text.contains(asked["content"].as_str().expect("a text")), "{text}");
    for entry in told.iter().flatten() {
        assert_eq!(entry.top_logprobs.len(), 2);
        let [first, second] = [0, 1].map(|i| entry.top_logprobs[i].logprob);
        assert!(entry.chosen.logprob <= first && second <= first && first <= 0.0, "{entry:?}");
    }
}

#[test]
fn several_answers_equal_those_of_as_many_seeds() {
    let mut service = service();
    let fields = |n: usize, seed: usize| serde_json::json!({ "n": n, "seed": seed, "temperature": 1.5, "max_tokens": 12 });
    let three = whole(&mut service, fields(3, 40));
    let indices: Vec<u32> = three.choices.iter().map(|choice| choice.index).collect();
    assert_eq!(indices, [0, 1, 2]);
    let mut generated = 0;
    for (choice, seed) in three.choices.iter().zip(40..) {
        let alone = whole(&mut service, fields(1, seed));
        assert_eq!(choice.message.content, alone.choices[0].message.content, "seed {seed}");
        assert_eq!(three.usage.prompt_tokens, alone.usage.prompt_tokens, "the prompt counts once");
        generated += alone.usage.completion_tokens;
    }
    assert_eq!(three.usage.completion_tokens, generated);

    let mut request = fields(3, 40);
    request["messages"] = goldens()[0].messages.clone();
    request["stream"] = true.into();
    let id = submit(&mut service, request);
    let mut texts = [const { String::new() }; 3];
    let mut finishes = [0; 3];
    let replies = run(&mut service);
    for (of, reply) in &replies {
        assert_eq!(*of, id);
        let Reply::Chunk { value: chunk, .. } = reply else { continue };
        let choice = &chunk.choices[0];
        let index = choice.index as usize;
        texts[index] += choice.delta.content.as_deref().unwrap_or("");
        finishes[index] += usize::from(choice.finish_reason.is_some());
    }
    assert_eq!(replies.last(), Some(&(id, Reply::End)));
    assert_eq!(finishes, [1; 3]);
    let contents = three.choices.iter().map(content);
    assert!(contents.eq(&texts), "{texts:?}");
}

#[test]
fn a_cancelled_request_sends_nothing_more_and_a_long_prompt_is_refused() {
    let mut service = service();
    let golden = &goldens()[0];
    let id =
        submit(&mut service, serde_json::json!({ "messages": golden.messages, "stream": true }));
    pollster::block_on(service.step()).expect("the engine runs");
    service.cancel(id);
    assert!(run(&mut service).iter().all(|(of, _)| *of != id));

    let long = "Tell me a story. ".repeat(600);
    let long = serde_json::json!({ "messages": [{ "role": "user", "content": long }] });
    let refused = service.submit(request(long), MOMENT, &[]);
    assert!(matches!(refused, Err(Error::ContextLengthExceeded { .. })), "{refused:?}");
    let id = submit(
        &mut service,
        serde_json::json!({ "messages": golden.messages, "stream": true, "temperature": 0 }),
    );
    assert_eq!(streamed(&run(&mut service), id), golden.answer, "the engine stays usable");
}

#[test]
fn constrained_answers_follow_their_form_beside_an_unconstrained_one() {
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
    // Errors that only compiling finds.
    let regex = serde_json::json!({ "regex": r"a\bb" });
    let refused = submit(&mut service, asked("structured_outputs", regex));

    let replies = run(&mut service);
    let text = |id: RequestId| match replies.iter().find(|(of, _)| *of == id) {
        Some((_, Reply::Completion(completion))) => content(&completion.choices[0]).to_owned(),
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

/// What a page that received these replies to one request for `n` answers sends to continue.
fn received(replies: &[Reply], n: usize) -> Vec<Resumed> {
    let mut resume = vec![Resumed::default(); n];
    for reply in replies {
        let Reply::Chunk { value, tokens, ended } = reply else { panic!("{reply:?}") };
        for choice in &value.choices {
            let resumed = &mut resume[choice.index as usize];
            resumed.started = true;
            resumed.tokens.extend(tokens);
            resumed.ended = *ended;
        }
    }
    resume
}

/// The chunks of one of the answers, without counts of drafts: these depend on step times.
fn chunks_of(replies: &[Reply], index: usize) -> Vec<Reply> {
    let mut chunks = replies.to_vec();
    chunks.retain_mut(|reply| {
        let Reply::Chunk { value, .. } = reply else { return false };
        value.choices.iter_mut().for_each(|choice| choice.drafted = false);
        value.choices.iter().any(|choice| choice.index as usize == index)
    });
    chunks
}

#[test]
fn interrupted_streams_continue_in_another_engine() {
    let (mut first, mut second) = (service(), service());
    let messages = &goldens()[0].messages;
    let schema = serde_json::json!({
        "type": "object",
        "properties": { "animal": { "enum": ["cat", "dog"] } },
        "required": ["animal"],
        "additionalProperties": false,
    });
    let schema = serde_json::json!({ "type": "json_schema", "json_schema": { "schema": schema } });
    for (fields, n) in [
        (serde_json::json!({ "temperature": 0, "logprobs": true, "top_logprobs": 2 }), 1),
        (serde_json::json!({ "temperature": 1.5, "n": 3, "seed": 40, "max_tokens": 12 }), 3),
        (serde_json::json!({ "temperature": 1.2, "frequency_penalty": 1, "max_tokens": 30 }), 1),
        (serde_json::json!({ "temperature": 1, "response_format": schema }), 1),
    ] {
        let mut asked = serde_json::json!({ "messages": messages, "stream": true });
        asked.as_object_mut().expect("an object").extend(fields.as_object().unwrap().clone());
        submit(&mut first, asked.clone());
        let whole: Vec<_> = run(&mut first).into_iter().map(|(_, reply)| reply).collect();
        let chunks = whole.len() - 1;
        for cut in (0..chunks).step_by(1 + chunks / 8).chain([chunks]) {
            let resume = received(&whole[..cut], n);
            let id = second.submit(request(asked.clone()), MOMENT, &resume);
            let id = id.expect("it is accepted");
            let rest: Vec<_> = run(&mut second)
                .into_iter()
                .map(|(of, reply)| {
                    assert_eq!(of, id);
                    reply
                })
                .collect();
            for index in 0..n {
                let found = [&whole[..cut], &rest].map(|part| chunks_of(part, index)).concat();
                assert_eq!(found, chunks_of(&whole, index), "{fields}, cut after {cut} chunks");
            }
            assert_eq!(rest.last(), Some(&Reply::End));
        }
    }
}

#[test]
fn cached_tokens_are_reported_and_shared_by_salt_alone() {
    let mut service = service();
    let golden = &goldens()[0];
    let ask = |service: &mut Service<AnyExecutor>, salt: u64, n: usize| {
        let messages = &golden.messages;
        let request = request(serde_json::json!({ "messages": messages, "max_tokens": 2, "n": n }));
        service.submit(request, Moment { salt, ..MOMENT }, &[]).expect("it is accepted");
        match run(service).pop() {
            Some((_, Reply::Completion(completion))) => {
                completion.usage.prompt_tokens_details.cached_tokens as usize
            }
            other => panic!("{other:?}"),
        }
    };
    // All whole blocks; the last token is computed for its logits.
    let shared = (golden.prompt_ids.len() - 1) / BLOCK_SIZE * BLOCK_SIZE;
    assert!(shared > 0, "{shared}");
    // Answers that share a prompt do not count as cached for each other.
    assert_eq!(ask(&mut service, 1, 3), 0);
    assert_eq!(ask(&mut service, 1, 3), shared);
    assert_eq!(ask(&mut service, 2, 1), 0);
    assert_eq!(ask(&mut service, 1, 1), shared);

    let embedded = serde_json::json!({ "input": golden.prompt_ids });
    let embedded = EmbeddingRequest::read(&embedded).and_then(EmbeddingRequest::validate);
    service.embed(embedded.expect("a valid request"), TabId(0), 3).expect("it is accepted");
    run(&mut service);
    assert_eq!(ask(&mut service, 4, 1), 0);
    assert_eq!(ask(&mut service, 3, 1), shared);
}

#[test]
fn an_answer_continues_the_last_message() {
    let mut service = service();
    let golden = &goldens()[0];
    let at = golden.answer.find(' ').expect("several words");
    let (begun, rest) = golden.answer.split_at(at);
    let mut messages = golden.messages.as_array().expect("messages").clone();
    messages.push(serde_json::json!({ "role": "assistant", "content": begun, "prefix": true }));
    let answer = whole(&mut service, serde_json::json!({ "messages": messages }));
    assert_eq!(content(&answer.choices[0]), rest);
}
