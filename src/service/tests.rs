use std::fs;

use super::*;
use crate::{
    api::ChatCompletionRequest,
    engine::Request,
    step::{Capacity, Sample, StepPlan, StepResult},
    text::ChatFiles,
};

const NOW: Moment = Moment { now: 1_800_000_000, entropy: 7, tab: TabId(0), salt: 0 };

/// The built-in model's tokenizer and template.
fn chat() -> Chat {
    let folder = format!("{}/www/model", env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read(format!("{folder}/{name}")).ok();
    let tokenizer = read("tokenizer.json").expect("a tokenizer");
    Chat::new(&ChatFiles {
        tokenizer: &tokenizer,
        tokenizer_config: read("tokenizer_config.json").as_deref(),
        generation_config: read("generation_config.json").as_deref(),
        config: read("config.json").as_deref(),
        chat_template_json: read("chat_template.json").as_deref(),
        chat_template_jinja: read("chat_template.jinja").as_deref(),
    })
    .expect("a valid model")
}

/// A valid request with more fields.
fn with(fields: serde_json::Value) -> ChatRequest {
    let mut request = serde_json::json!({ "messages": [{ "role": "user", "content": "Hi!" }] });
    let fields = fields.as_object().expect("an object").clone();
    request.as_object_mut().expect("an object").extend(fields);
    let request: ChatCompletionRequest = serde_json::from_value(request).expect("a request");
    request.validate().expect("a valid request")
}

fn asked(fields: serde_json::Value) -> Result<Request> {
    engine_request(&with(fields), &chat(), 1000, NOW)
}

#[test]
fn every_field_reaches_the_engine() {
    let request = asked(serde_json::json!({
        "logit_bias": { "999": 2 }, "allowed_token_ids": [5, 6], "stop_token_ids": [7],
        "min_tokens": 3, "max_tokens": 9, "presence_penalty": 1, "frequency_penalty": 0.5,
        "repetition_penalty": 1.5, "logprobs": true, "top_logprobs": 4, "prompt_logprobs": 2,
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
    assert_eq!(sampling.logprobs, Some(4));

    let request = asked(serde_json::json!({ "ignore_eos": true })).unwrap();
    assert_eq!(request.end_tokens, [0; 0]);
    assert_eq!((request.allowed_tokens, request.sampling.bias), (None, false));
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

/// An executor that writes a text, whatever it is asked.
struct Script {
    text: Vec<u32>,
    plans: Vec<StepPlan>,
}

impl Executor for Script {
    const DEPTH: usize = 1;

    fn capacity(&self) -> Capacity {
        Capacity {
            rows: 512,
            seqs: 1,
            logit_rows: 1,
            blocks: 64,
            context: 1024,
            vocab: 100_000,
            window: None,
        }
    }

    fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        self.plans.push(plan.clone());
        Ok(())
    }

    async fn result(&mut self) -> Result<StepResult> {
        let Some(sampling) = self.plans.remove(0).seqs[0].sample else {
            return Ok(StepResult::default());
        };
        let token = self.text.remove(0);
        let logprobs = sampling.logprobs.map(|top| Logprobs {
            chosen: -(token as f32) / 8.0,
            top: (0..top).map(|likeliest| (likeliest, -1.0)).collect(),
        });
        let samples = vec![Sample { slot: 0, token, not_finite: 0, logprobs }];
        Ok(StepResult { samples, ..Default::default() })
    }
}

/// Each chunk's text and the log-probabilities that came with it, until the finish.
fn pieces(text: Vec<u32>, fields: serde_json::Value) -> Vec<(String, Option<Vec<f32>>)> {
    let script = Script { text, plans: Vec::new() };
    let clock = crate::engine::steady_clock();
    let mut service = Service::new(script, chat(), "m".into(), Options::default(), clock);
    service.submit(with(fields), NOW, &[]).expect("it is accepted");
    let mut pieces = Vec::new();
    while !service.is_idle() {
        for (_, reply) in pollster::block_on(service.step()).expect("it runs") {
            let Reply::Chunk { value: chunk, .. } = reply else { continue };
            let choice = chunk.choices.into_iter().next().expect("a choice");
            let told = choice
                .logprobs
                .map(|told| told.content.into_iter().map(|entry| entry.chosen.logprob).collect());
            pieces.extend(choice.delta.content.map(|text| (text, told)));
        }
    }
    pieces
}

#[test]
fn log_probabilities_come_with_the_text_of_their_tokens() {
    let chat = chat();
    let tokenizer = chat.tokenizer();
    let eos = chat.defaults().eos_ids[0];
    let told =
        |tokens: &[u32]| Some(tokens.iter().map(|id| -(*id as f32) / 8.0).collect::<Vec<_>>());
    let ids = tokenizer.encode_plain("say 🙂 now", false).unwrap();
    let ends = [&ids[..], &[eos]].concat();
    let whole = told(&ids).unwrap();
    let all = |found: &[(String, Option<Vec<f32>>)]| -> (String, Vec<f32>) {
        let told = found.iter().filter_map(|(_, told)| told.clone()).flatten().collect();
        (found.iter().map(|(text, _)| text.as_str()).collect(), told)
    };

    // A token is told if some of its text comes before a stop string; " now" is one token.
    for (stop, text, count) in [("now", "say 🙂 ", ids.len()), (" now", "say 🙂", ids.len() - 1)]
    {
        let fields = serde_json::json!({ "stream": true, "logprobs": true, "stop": stop });
        let found = pieces(ends.clone(), fields);
        assert_eq!(all(&found), (text.to_owned(), whole[..count].to_vec()));
        assert!(found[1..].iter().all(|(text, _)| !text.is_empty()), "{found:?}");
        // A character of several tokens comes with all of them.
        let emoji = found.iter().find(|(text, _)| text.contains('🙂')).expect("it came");
        assert!(emoji.1.as_ref().is_some_and(|told| told.len() >= 2), "{found:?}");
    }

    // Without stop strings, every token is told.
    let plain = serde_json::json!({ "stream": true, "logprobs": true });
    assert_eq!(all(&pieces(ends.clone(), plain)), ("say 🙂 now".to_owned(), whole));
    // A character that is cut off is told at the end.
    let cut = tokenizer.encode_plain("🙂", false).unwrap();
    let cut = &cut[..cut.len() - 1];
    assert!(!cut.is_empty());
    let found =
        pieces([cut, &[eos]].concat(), serde_json::json!({ "stream": true, "logprobs": true }));
    assert_eq!(found.last(), Some(&("\u{FFFD}".to_owned(), told(cut))));
    // Nobody asked.
    let found = pieces(ends, serde_json::json!({ "stream": true }));
    assert!(found.iter().all(|(_, told)| told.is_none()));
}
