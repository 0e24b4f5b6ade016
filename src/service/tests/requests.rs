//! Conversion of chat requests into engine requests.

use crate::sampling::ThinkingBudget;

use super::*;
use crate::engine::Request;
use crate::text::{Dialect, Prompt, Reading};

fn asked(fields: serde_json::Value) -> Result<Request> {
    let prompt = vec![1].into();
    engine_request(&with(fields), prompt, &chat(), 1000, NOW).map(|asked| asked.request)
}

#[test]
fn every_field_reaches_the_engine() {
    let request = asked(serde_json::json!({
        "logit_bias": { "999": 2 }, "allowed_token_ids": [5, 6], "stop_token_ids": [7],
        "min_tokens": 3, "max_tokens": 9, "presence_penalty": 1, "frequency_penalty": 0.5,
        "repetition_penalty": 1.5, "logprobs": true, "top_logprobs": 4, "prompt_logprobs": 2,
        "logprob_token_ids": [8, 999],
    }))
    .unwrap();
    assert_eq!(request.logit_bias, [(999, 2.0)]);
    assert_eq!(request.allowed_tokens, Some(vec![5, 6]));
    assert_eq!((&request.stop_tokens[..], request.min_tokens), (&[7][..], 3));
    assert_eq!((request.max_tokens, request.prompt_logprobs), (Some(9), Some(2)));
    assert_eq!(request.end_tokens, chat().defaults().eos_ids);
    let sampling = request.sampling;
    assert_eq!((sampling.presence_penalty, sampling.frequency_penalty), (1.0, 0.5));
    assert_eq!((sampling.repetition_penalty, sampling.bias), (1.5, true));
    assert_eq!((sampling.logprobs, request.logprob_tokens), (Some(4), vec![8, 999]));
    assert!(request.speculates);

    let fields = serde_json::json!({ "ignore_eos": true, "speculative_decoding": false });
    let request = asked(fields).unwrap();
    assert_eq!(request.end_tokens, [0; 0]);
    assert_eq!((request.allowed_tokens, request.sampling.bias), (None, false));
    assert!(!request.speculates);
}

#[test]
fn a_constrained_answer_of_gpt_oss_is_the_text_of_its_final_channel() {
    let reading = Reading { dialect: Some(Dialect::Harmony), ..Reading::default() };
    let prompt = Prompt { ids: vec![1], reading, form: None };
    let request = with(serde_json::json!({ "response_format": { "type": "json_object" } }));
    let prepared = engine_request(&request, prompt.clone(), &chat(), 1000, NOW).unwrap();
    assert_eq!(prepared.reading, Reading::default());
    let (chat, ids) = (chat(), prepared.request.prompt);
    assert_eq!(
        (ids[0], &*chat.tokenizer().decode(&ids[1..]).unwrap()),
        (1, "<|channel|>final<|message|>")
    );
    let free = with(serde_json::json!({}));
    let prepared = engine_request(&free, prompt, &chat, 1000, NOW).unwrap();
    assert_eq!(prepared.request.prompt, [1]);
}

#[test]
fn reasoning_is_limited_in_models_that_mark_it() {
    let fields = serde_json::json!({ "thinking_token_budget": 9 });
    match asked(fields.clone()) {
        Err(Error::InvalidRequest { param, message }) => {
            assert_eq!(param, "thinking_token_budget");
            assert!(message.contains("<think>"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let file = format!("{}/www/model/tokenizer.json", env!("CARGO_MANIFEST_DIR"));
    let mut tokenizer: serde_json::Value =
        serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    for mark in ["<think>", "</think>"] {
        let mut token = added[0].clone();
        token["content"] = mark.into();
        token["special"] = false.into();
        added.push(token);
    }
    let tokenizer = tokenizer.to_string();
    let chat = Chat::new(&ChatFiles {
        tokenizer: tokenizer.as_bytes(),
        chat_template_jinja: Some(b"{{ messages[0].content }}"),
        ..Default::default()
    });
    let chat = chat.unwrap();
    let id = |token| chat.tokenizer().token_id(token).unwrap();
    let request = engine_request(&with(fields), vec![1].into(), &chat, 5000, NOW).unwrap();
    let (begin, end) = (id("<think>"), id("</think>"));
    assert_eq!(request.request.thinking, Some(ThinkingBudget { begin, end, tokens: 9 }));
}

#[test]
fn bad_words_are_spelled_with_and_without_a_space() {
    let tokenizer = chat().tokenizer().clone();
    let encode = |text: &str| tokenizer.encode_plain(text, false).unwrap();
    let expected = [encode("cat"), encode(" cat"), encode("\n"), encode(" \n")];
    for words in [["cat", "\n"], [" cat", "\n"]] {
        let mut found = asked(serde_json::json!({ "bad_words": words })).unwrap().bad_words;
        found.sort();
        let mut expected = expected.to_vec();
        expected.sort();
        assert_eq!(found, expected);
    }
    let twice = asked(serde_json::json!({ "bad_words": ["cat", " cat", "cat"] })).unwrap();
    assert_eq!(twice.bad_words.len(), 2);
}

#[test]
fn ids_beyond_the_vocabulary_are_refused_by_name() {
    for (fields, param) in [
        (serde_json::json!({ "logit_bias": { "1000": 1 } }), "logit_bias"),
        (serde_json::json!({ "allowed_token_ids": [1, 1000] }), "allowed_token_ids"),
        (serde_json::json!({ "stop_token_ids": [4_294_967_295u32] }), "stop_token_ids"),
        (serde_json::json!({ "logprobs": true, "logprob_token_ids": [1000] }), "logprob_token_ids"),
    ] {
        match asked(fields) {
            Err(Error::InvalidRequest { param: found, message }) => {
                assert_eq!(found, param);
                assert!(message.contains("below 1000"), "{message}");
            }
            other => panic!("{param}: {other:?}"),
        }
    }
}
