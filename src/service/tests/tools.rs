//! Reasoning and tool calls, from tokens to chunks.

use serde_json::{Value, json};

use super::*;
use crate::api::Delta;

/// A model with special tokens for Mistral's tool calls and plain text markers around reasoning.
fn mistral() -> Chat {
    let file = format!("{}/www/model/tokenizer.json", env!("CARGO_MANIFEST_DIR"));
    let mut tokenizer: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let vocab = tokenizer["model"]["vocab"].as_object().unwrap().len();
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    let marks = ["[TOOL_CALLS]", "[ARGS]"];
    for (i, mark) in marks.into_iter().enumerate() {
        let mut token = added[0].clone();
        token["content"] = mark.into();
        token["id"] = (vocab + i).into();
        added.push(token);
    }
    let template = "{{ tools }}{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}\
                    {# [TOOL_CALLS] [ARGS] <think></think> #}";
    Chat::new(&ChatFiles {
        tokenizer: tokenizer.to_string().as_bytes(),
        tokenizer_config: Some(br#"{"eos_token":"<|im_end|>"}"#),
        chat_template_jinja: Some(template.as_bytes()),
        ..Default::default()
    })
    .expect("a valid model")
}

/// A request with two tools.
fn asked(stream: bool, fields: Value) -> ChatRequest {
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name } });
    let mut all = json!({ "tools": [tool("add"), tool("now")], "stream": stream });
    if stream {
        all["stream_options"] = json!({ "include_usage": true });
    }
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    with(all)
}

const CALLS: &str = "[TOOL_CALLS]add[ARGS]{\"a\": [1, 20]}[TOOL_CALLS]now[ARGS]{}";

/// The tokens of an answer, markers included.
fn tokens(chat: &Chat, text: &str) -> Vec<u32> {
    chat.tokenizer().encode_prompt(text).expect("a valid text")
}

fn answers(request: &ChatRequest, texts: &[&str]) -> (Service<Script>, Rc<RefCell<Shared>>) {
    let chat = mistral();
    let answers: Vec<Vec<u32>> = texts.iter().map(|text| tokens(&chat, text)).collect();
    service_of(chat, &request.conversation, &answers)
}

#[test]
fn a_whole_answer_has_reasoning_and_calls() {
    let request = asked(false, json!({ "logprobs": true, "n": 3 }));
    let thought = format!("<think>\nHm.\n</think>\n\nNow: {CALLS}");
    let (mut service, _) = answers(&request, &[&thought, CALLS, "[TOOL_CALLS] none"]);
    let replies = replies(&mut service, &request, &[]);
    let [Reply::Completion(whole)] = &replies[..] else { panic!("{replies:?}") };
    let call = |answer: usize, place: usize, name: &str, arguments: &str| {
        let id = format!("call_{:016x}{answer:02x}{place:04x}", NOW.entropy);
        json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
    };
    let calls =
        |answer| json!([call(answer, 0, "add", "{\"a\": [1, 20]}"), call(answer, 1, "now", "{}")]);
    let messages = [
        json!({
            "role": "assistant", "content": "Now: ", "reasoning_content": "Hm.",
            "tool_calls": calls(0), "refusal": null,
        }),
        json!({ "role": "assistant", "content": null, "tool_calls": calls(1), "refusal": null }),
        json!({ "role": "assistant", "content": " none", "refusal": null }),
    ];
    let reasons =
        [api::FinishReason::ToolCalls, api::FinishReason::ToolCalls, api::FinishReason::Stop];
    for ((choice, message), reason) in whole.choices.iter().zip(messages).zip(reasons) {
        assert_eq!(serde_json::to_value(&choice.message).unwrap(), message);
        assert_eq!(choice.finish_reason, reason);
    }
    let chat = mistral();
    let count = tokens(&chat, "<think>\nHm.\n</think>").len();
    let details = whole.usage.completion_tokens_details;
    assert_eq!(details.reasoning_tokens as usize, count);
    let logprobs = whole.choices[0].logprobs.as_ref().expect("they were asked for");
    assert!(logprobs.content.len() >= tokens(&chat, &thought).len());
}

/// All chunks joined, and their number of tokens.
fn joined(replies: &[Reply]) -> (Delta, usize) {
    let mut whole = Delta::default();
    let mut tokens = 0;
    for reply in replies {
        let Reply::Chunk { value, tokens: more, .. } = reply else { continue };
        value.choices.iter().for_each(|choice| whole.extend(choice.delta.clone()));
        tokens += more.len();
    }
    (whole, tokens)
}

#[test]
fn a_stream_sends_names_first_and_resumes_after_every_cut() {
    let request = asked(true, json!({ "logprobs": true }));
    let text = format!("<think>\nHm.\n\nSo.</think>\n\nNow: {CALLS}");
    let (mut service, _) = answers(&request, &[&text]);
    let whole = replies(&mut service, &request, &[]);
    let (said, _) = joined(&whole);
    assert_eq!(said.reasoning_content.as_deref(), Some("Hm.\n\nSo."));
    assert_eq!(said.content.as_deref(), Some("Now: "));
    let [add, now] = &said.tool_calls[..] else { panic!("{said:?}") };
    assert_eq!(add.function.arguments, "{\"a\": [1, 20]}");
    assert_eq!((now.index, now.function.name.as_deref()), (1, Some("now")));
    assert_ne!(add.id, now.id);
    let pieces = whole.iter().filter(|reply| match reply {
        Reply::Chunk { value, .. } => value.choices.iter().any(|c| !c.delta.tool_calls.is_empty()),
        _ => false,
    });
    assert!(pieces.count() > 4, "arguments come as they are written");

    let chunks = &whole[..whole.len() - 2];
    for cut in 0..=chunks.len() {
        let mut resumed = Resumed::default();
        for chunk in &chunks[..cut] {
            let Reply::Chunk { tokens, ended, value } = chunk else { panic!("{chunk:?}") };
            resumed.started = true;
            resumed.tokens.extend(tokens);
            resumed.ended = *ended;
            let count = value.choices[0].logprobs.as_ref().map_or(0, |all| all.content.len());
            assert_eq!(count, tokens.len(), "each token has a log-probability");
        }
        let rest = replies(&mut service, &request, &[resumed]);
        let (rest, usage) = rest.split_at(rest.len() - 2);
        assert_eq!(rest, &chunks[cut..], "after {cut} chunks");
        assert_eq!(reasoning_tokens(usage), reasoning_tokens(&whole), "after {cut} chunks");
    }
}

fn reasoning_tokens(replies: &[Reply]) -> u32 {
    let [.., Reply::Chunk { value, .. }, Reply::End] = replies else { panic!("{replies:?}") };
    let usage = value.usage.flatten().expect("it was asked for");
    usage.completion_tokens_details.reasoning_tokens
}

#[test]
fn a_stop_string_ends_the_text_and_special_names_appear_on_request() {
    let request = asked(false, json!({ "stop": "ne", "skip_special_tokens": false }));
    let (mut service, _) = answers(&request, &["[TOOL_CALLS] none"]);
    let replies = replies(&mut service, &request, &[]);
    let [Reply::Completion(whole)] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(whole.choices[0].message.content.as_deref(), Some("[TOOL_CALLS] no"));
}

#[test]
fn required_calls_need_a_compiler() {
    for fields in [json!({ "tool_choice": "required" }), strict()] {
        let request = asked(false, fields);
        let (mut service, _) = answers(&request, &[]);
        match service.submit(request, NOW, &[]) {
            Err(Error::InvalidRequest { param, .. }) => assert_eq!(param, "tools"),
            other => panic!("{other:?}"),
        }
    }
}

fn strict() -> Value {
    json!({ "tools": [{ "type": "function", "function": { "name": "add", "strict": true } }] })
}
