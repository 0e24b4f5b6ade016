//! Text completions by the built-in model, its tokenizer and its chat template, on the CPU executor.

use serde_json::{Value, json, to_value};
use tabloom::{
    api::{
        Completion, CompletionRequest, DetokenizeRequest, FinishReason, TokenizeRequest,
        TokenizeResponse,
    },
    engine::{RequestId, TabId},
    error::Error,
    executor::AnyExecutor,
    service::{Moment, Reply, Resumed, Service},
};

use crate::built_in::service;

const MOMENT: Moment = Moment { now: 1_800_000_000, entropy: 7, tab: TabId(0), salt: 0 };

fn submit(
    service: &mut Service<AnyExecutor>,
    fields: &Value,
    resume: &[Resumed],
) -> Result<RequestId, Error> {
    service.complete(CompletionRequest::read(fields)?.validate()?, MOMENT, resume)
}

/// Steps until nothing is left to do.
fn run(service: &mut Service<AnyExecutor>) -> Vec<Reply> {
    let mut replies = Vec::new();
    for _ in 0..2000 {
        if service.is_idle() {
            return replies;
        }
        let told = pollster::block_on(service.step()).expect("the engine runs");
        replies.extend(told.into_iter().map(|(_, reply)| reply));
    }
    panic!("the service does not become idle");
}

/// The answers to a request without a stream.
fn whole(service: &mut Service<AnyExecutor>, fields: &Value) -> Completion {
    submit(service, fields, &[]).expect("it is accepted");
    match run(service).pop() {
        Some(Reply::TextCompletion(completion)) => completion,
        other => panic!("{other:?}"),
    }
}

/// The same from a stream, joined; and its chunks.
fn streamed(service: &mut Service<AnyExecutor>, fields: &Value) -> (Completion, Vec<Reply>) {
    let mut fields = fields.clone();
    fields["stream"] = true.into();
    fields["stream_options"] = json!({ "include_usage": true });
    submit(service, &fields, &[]).expect("it is accepted");
    let mut replies = run(service);
    assert_eq!(replies.pop(), Some(Reply::End));
    (joined(&replies), replies)
}

fn joined(chunks: &[Reply]) -> Completion {
    let mut all = Completion::default();
    for chunk in chunks {
        let Reply::TextChunk { value, .. } = chunk else { panic!("{chunk:?}") };
        let mut choices = std::mem::take(&mut all.choices);
        for piece in &value.choices {
            match choices.iter_mut().find(|choice| choice.index == piece.index) {
                Some(choice) => choice.extend(piece.clone()),
                None => choices.push(piece.clone()),
            }
        }
        choices.sort_by_key(|choice| choice.index);
        all = Completion { choices, ..value.clone() };
    }
    all
}

/// A conversation rendered by the built-in model's template.
fn rendered(service: &Service<AnyExecutor>, text: &str) -> String {
    let messages = json!({ "messages": [{ "role": "user", "content": text }] });
    let request = TokenizeRequest::read(&messages).unwrap().validate().unwrap();
    service.apply_chat_template(&request, MOMENT.now).expect("it renders")
}

fn tokenize(service: &Service<AnyExecutor>, fields: Value) -> TokenizeResponse {
    let request = TokenizeRequest::read(&fields).unwrap().validate().unwrap();
    service.tokenize(&request, MOMENT.now).expect("a valid text")
}

#[test]
fn a_conversation_rendered_by_hand_gets_the_same_answer_as_a_chat() {
    let mut service = service();
    let prompt = rendered(&service, "Tell me a story about a fox.");
    let chat = json!({
        "messages": [{ "role": "user", "content": "Tell me a story about a fox." }],
        "temperature": 0, "max_tokens": 24,
    });
    let chat = tabloom::api::ChatCompletionRequest::read(chat).unwrap();
    service.submit(chat.validate().unwrap(), MOMENT, &[]).unwrap();
    let Some(Reply::Completion(chat)) = run(&mut service).pop() else { panic!("no answer") };
    let fields = json!({ "prompt": prompt, "temperature": 0, "max_tokens": 24 });
    let text = whole(&mut service, &fields);
    assert_eq!(
        text.choices[0].text,
        chat.choices[0].message.content.as_deref().unwrap_or_default()
    );
    assert_eq!(text.choices[0].finish_reason, Some(chat.choices[0].finish_reason));
    let usage = text.usage.flatten().expect("always reported");
    assert_eq!(usage.prompt_tokens, chat.usage.prompt_tokens);
    assert_eq!(usage.completion_tokens, chat.usage.completion_tokens);
    assert_eq!((text.object, &*text.model), ("text_completion", "built-in"));
    assert_eq!(text.id, "cmpl-0000000000000007");

    let tokens = tokenize(&service, json!({ "prompt": prompt })).tokens;
    let by_tokens = whole(
        &mut service,
        &json!({ "prompt": tokens, "temperature": 0, "max_tokens": 24, "model": "m" }),
    );
    assert_eq!(by_tokens.choices, text.choices);
    assert_eq!(by_tokens.model, "m");
    let default = whole(&mut service, &json!({ "prompt": prompt, "ignore_eos": true }));
    assert_eq!(default.usage.flatten().expect("reported").completion_tokens, 16);
}

#[test]
fn several_prompts_get_several_answers_each_in_order() {
    let mut service = service();
    let prompts = ["Once upon a time", "The fox"];
    let fields = |prompt: Value, n: u32| json!({ "prompt": prompt, "n": n, "seed": 5, "max_tokens": 8, "ignore_eos": true });
    let all = whole(&mut service, &fields(json!(prompts), 2));
    assert_eq!(all.choices.iter().map(|choice| choice.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let mut prompt_tokens = 0;
    for (prompt, choices) in prompts.iter().zip(all.choices.chunks(2)) {
        let alone = whole(&mut service, &fields(json!(prompt), 2));
        let texts = |choices: &[tabloom::api::CompletionChoice]| -> Vec<String> {
            choices.iter().map(|choice| choice.text.clone()).collect()
        };
        assert_eq!(texts(choices), texts(&alone.choices));
        assert_ne!(choices[0].text, choices[1].text, "they differ in their seeds");
        prompt_tokens += alone.usage.flatten().unwrap().prompt_tokens;
    }
    let usage = all.usage.flatten().unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (prompt_tokens, 32));
    let (joined, _) = streamed(&mut service, &fields(json!(prompts), 2));
    let texts = |all: &Completion| -> Vec<String> {
        all.choices.iter().map(|choice| choice.text.clone()).collect()
    };
    assert_eq!(texts(&joined), texts(&all));
}

#[test]
fn an_echo_returns_the_prompt_and_its_log_probabilities() {
    let mut service = service();
    let prompt = "Once upon a time, there was a café.";
    let fields = json!({
        "prompt": prompt, "echo": true, "logprobs": 2, "temperature": 0, "max_tokens": 6, "n": 2,
        "ignore_eos": true,
    });
    let all = whole(&mut service, &fields);
    let tokens = tokenize(&service, json!({ "prompt": prompt, "return_token_strs": true }));
    for choice in &all.choices {
        assert!(choice.text.starts_with(prompt) && choice.text.len() > prompt.len());
        let logprobs = choice.logprobs.as_ref().expect("asked for");
        let chars: Vec<char> = choice.text.chars().collect();
        let ends = logprobs.text_offset.iter().skip(1).copied().chain([chars.len()]);
        for ((token, from), to) in logprobs.tokens.iter().zip(&logprobs.text_offset).zip(ends) {
            let special = tokens.token_strs.as_ref().unwrap().contains(token) && *from == to;
            let shown: String = chars[*from..to].iter().collect();
            assert!(
                special || token.starts_with("bytes:") || *token == shown,
                "{token:?} {shown:?}"
            );
        }
        assert_eq!(logprobs.tokens.len(), tokens.count + 6);
        assert_eq!(logprobs.token_logprobs[0], None, "nothing comes before it");
        assert_eq!(logprobs.top_logprobs[0], None);
        for (known, top) in logprobs.token_logprobs.iter().zip(&logprobs.top_logprobs).skip(1) {
            let top = top.as_ref().unwrap();
            assert!((2..=3).contains(&top.len()) && known.unwrap() <= 0.0);
            assert!(top.values().any(|value| Some(*value) == *known));
        }
    }
    let (joined, chunks) = streamed(&mut service, &fields);
    let same = |all: &Completion| -> Vec<Value> {
        let told = |choice| {
            let mut told = to_value(choice).unwrap();
            told.as_object_mut().unwrap().remove("drafted");
            told
        };
        all.choices.iter().map(told).collect()
    };
    assert_eq!(same(&joined), same(&all));
    assert!(chunks.len() > 4, "it comes in pieces");

    // The prompt alone.
    let mut fields = fields;
    fields["max_tokens"] = 0.into();
    fields["n"] = 1.into();
    let scored = whole(&mut service, &fields);
    assert_eq!(scored.choices[0].text, prompt);
    assert_eq!(scored.choices[0].finish_reason, Some(FinishReason::Length));
    let (found, expected) = (&scored.choices[0].logprobs, &all.choices[0].logprobs);
    let (found, expected) = (found.as_ref().unwrap(), expected.as_ref().unwrap());
    assert_eq!(found.token_logprobs, expected.token_logprobs[..tokens.count]);
    assert_eq!(scored.usage.flatten().unwrap().completion_tokens, 0);
    assert_eq!(same(&streamed(&mut service, &fields).0), same(&scored));

    // Of one token, before which nothing comes.
    let first = tokens.tokens[1];
    fields["prompt"] = json!([first]);
    fields["max_tokens"] = 1.into();
    let one = whole(&mut service, &fields);
    let alone = one.choices[0].logprobs.as_ref().expect("asked for");
    let text = tokens.token_strs.as_ref().map(|strs| &strs[1]);
    assert_eq!((alone.token_logprobs.len(), alone.token_logprobs[0]), (2, None));
    assert_eq!((alone.tokens.first(), &alone.top_logprobs[0]), (text, &None));
    assert_eq!(alone.text_offset, [0, text.unwrap().chars().count()]);
    assert!(one.choices[0].text.starts_with(text.unwrap()));
    assert_eq!(same(&streamed(&mut service, &fields).0), same(&one));
    let listed = json!({ "prompt": [first], "prompt_logprobs": 1, "max_tokens": 1 });
    let listed = whole(&mut service, &listed);
    let listed = listed.choices[0].prompt_logprobs.as_ref().expect("asked for");
    assert!(matches!(&listed[..], [None]));

    // Without log-probabilities; and they, in the other shape, without an echo.
    let plain = json!({ "prompt": prompt, "echo": true, "temperature": 0, "max_tokens": 6, "ignore_eos": true });
    assert_eq!(whole(&mut service, &plain).choices[0].text, all.choices[0].text);
    assert_eq!(streamed(&mut service, &plain).0.choices[0].text, all.choices[0].text);
    let listed = json!({ "prompt": ["The", prompt], "prompt_logprobs": 1, "max_tokens": 1 });
    let listed = whole(&mut service, &listed);
    let listed = listed.choices[1].prompt_logprobs.as_ref().expect("asked for");
    let chosen = listed.iter().map(|known| known.as_ref().map(|known| known.chosen.logprob));
    assert_eq!(chosen.collect::<Vec<_>>(), found.token_logprobs);
}

#[test]
fn a_stream_continues_after_every_interruption() {
    let mut service = service();
    for logprobs in [json!(null), json!(1)] {
        let fields = json!({
            "prompt": ["The fox", "A cat and a dog"], "echo": true, "logprobs": logprobs, "n": 2,
            "temperature": 0, "max_tokens": 4, "ignore_eos": true, "stream": true,
            "stream_options": { "include_usage": true },
        });
        let (whole, chunks) = streamed(&mut service, &fields);
        for cut in 0..chunks.len() {
            let mut resume = vec![Resumed::default(); 4];
            for chunk in &chunks[..cut] {
                let Reply::TextChunk { value, tokens, ended } = chunk else { panic!() };
                for choice in &value.choices {
                    let resumed = &mut resume[choice.index as usize];
                    resumed.started = true;
                    resumed.tokens.extend(tokens);
                    resumed.ended = *ended;
                }
            }
            submit(&mut service, &fields, &resume).expect("it is accepted");
            let mut rest = run(&mut service);
            assert_eq!(rest.pop(), Some(Reply::End));
            let all = joined(&[&chunks[..cut], &rest].concat());
            for (found, expected) in all.choices.iter().zip(&whole.choices) {
                assert_eq!(found.text, expected.text, "after {cut} chunks");
                let [found, expected] = [found, expected].map(|choice| choice.logprobs.as_ref());
                let offsets = |told: Option<&tabloom::api::CompletionLogprobs>| {
                    told.map(|told| told.text_offset.clone())
                };
                assert_eq!(offsets(found), offsets(expected), "after {cut} chunks");
            }
            let count = |all: &Completion| {
                all.usage.flatten().map(|usage| (usage.prompt_tokens, usage.completion_tokens))
            };
            assert_eq!(count(&all), count(&whole), "after {cut} chunks");
        }
    }
}

#[test]
fn answers_follow_a_form_and_end_at_stop_strings() {
    let mut service = service();
    let fields = json!({
        "prompt": "The answer is", "structured_outputs": { "choice": ["yes", "no"] }, "seed": 1,
    });
    let text = whole(&mut service, &fields).choices.remove(0).text;
    assert!(["yes", "no"].contains(&&*text), "{text:?}");
    let fields = json!({ "prompt": "Once upon", "temperature": 0, "max_tokens": 20 });
    let text = whole(&mut service, &fields).choices.remove(0).text;
    let stop: String = text.chars().skip(3).take(4).collect();
    let mut fields = fields;
    fields["stop"] = json!([stop]);
    let cut = whole(&mut service, &fields).choices.remove(0);
    assert_eq!(cut.text, text.split(&stop).next().unwrap());
    assert_eq!(cut.finish_reason, Some(FinishReason::Stop));
}

#[test]
fn errors_name_what_cannot_be_completed() {
    let mut service = service();
    let long = "word ".repeat(5000);
    match submit(&mut service, &json!({ "prompt": long }), &[]) {
        Err(Error::ContextLengthExceeded { param, .. }) => assert_eq!(param, "prompt"),
        other => panic!("{other:?}"),
    }
    for (fields, at) in [
        (json!({ "prompt": [[1], [1, 999_999]] }), "prompt[1]"),
        (json!({ "prompt": [999_999] }), "prompt"),
        (json!({ "prompt": "a", "stop_token_ids": [999_999] }), "stop_token_ids"),
    ] {
        match submit(&mut service, &fields, &[]) {
            Err(Error::InvalidRequest { param, .. }) => assert_eq!(param, at),
            other => panic!("{other:?}"),
        }
    }
    let resumed = [Resumed::default()];
    let refused = submit(&mut service, &json!({ "prompt": "a" }), &resumed);
    assert!(matches!(refused, Err(Error::InvalidRequest { param, .. }) if param == "resume"));
    // If the second of two prompts is refused, the first is not answered either.
    let fields = json!({ "prompt": ["a", long], "n": 2 });
    match submit(&mut service, &fields, &[]) {
        Err(Error::ContextLengthExceeded { param, .. }) => assert_eq!(param, "prompt[1]"),
        other => panic!("{other:?}"),
    }
    assert_eq!(run(&mut service), []);
}

#[test]
fn texts_are_tokenised_and_detokenised() {
    let service = service();
    let told =
        tokenize(&service, json!({ "prompt": "The café is open 🙂", "return_token_strs": true }));
    assert_eq!(
        (told.count, told.token_strs.as_ref().unwrap().len()),
        (told.tokens.len(), told.count)
    );
    assert!(told.max_model_len > 100);
    let text = |tokens: &[u32]| {
        let request = DetokenizeRequest::read(json!({ "tokens": tokens })).unwrap();
        service.detokenize(&request)
    };
    assert_eq!(text(&told.tokens).unwrap().prompt, "The café is open 🙂");
    match text(&[1, 999_999]) {
        Err(Error::InvalidRequest { param, .. }) => assert_eq!(param, "tokens[1]"),
        other => panic!("{other:?}"),
    }

    // A conversation has the same tokens as the text rendered by the template.
    let messages = json!([{ "role": "user", "content": "Hi!" }]);
    let of_chat = tokenize(&service, json!({ "messages": messages }));
    let written = rendered(&service, "Hi!");
    assert_eq!(of_chat.tokens, tokenize(&service, json!({ "prompt": written })).tokens);
    assert_eq!(text(&of_chat.tokens).unwrap().prompt, written);
    let open = tokenize(&service, json!({ "messages": messages, "add_generation_prompt": false }));
    assert!(open.count < of_chat.count && of_chat.tokens.starts_with(&open.tokens));
    // In a text prompt, text that looks like a control token is one.
    let control = &written[..written.find("Hi!").unwrap()];
    let fake = tokenize(&service, json!({ "messages": [{ "role": "user", "content": control }] }));
    let meant = tokenize(&service, json!({ "prompt": rendered(&service, control) }));
    assert!(fake.count > meant.count);
}

#[test]
fn errors_name_what_cannot_be_tokenised() {
    let check = |fields: Value| TokenizeRequest::read(&fields).and_then(TokenizeRequest::validate);
    for (fields, at) in [
        (json!({}), "messages"),
        (json!({ "prompt": 5 }), "prompt"),
        (json!({ "prompt": "a", "messages": [] }), "messages"),
        (json!({ "prompt": "a", "add_generation_prompt": true }), "add_generation_prompt"),
        (json!({ "messages": [{ "role": "robot", "content": "" }] }), "messages[0].role"),
    ] {
        match check(fields) {
            Err(Error::InvalidRequest { param, .. }) => assert_eq!(param, at),
            other => panic!("{other:?}"),
        }
    }
    let read = DetokenizeRequest::read(json!({ "tokens": [1, -1] }));
    assert!(matches!(read, Err(Error::InvalidRequest { param, .. }) if param == "tokens[1]"));
}
