//! Published chat templates: the text of requests beside what transformers renders.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tabloom::Result;
use tabloom::api::ChatCompletionRequest;
use tabloom::text::{Chat, ChatFiles, ChatTemplate, TemplateOptions};

use crate::files::real;

/// 5 October 2026, 14:07:09.
const NOW: i64 = 1_791_209_229;

/// Templates that transformers refuses where a request has tools, or has none, and why it renders here.
const LENIENT: [(&str, bool, &str); 4] = [
    ("CohereForAI-c4ai-command-r-plus-tool_use.jinja", false, NONE),
    ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja", false, NONE),
    ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja", false, NONE),
    ("llama-cpp-deepseek-r1.jinja", true, "tojson writes an iterator as a list"),
];
const NONE: &str = "a loop over tools that are none is an empty one";
const WORDED: &str = "tools in our words: the template shows no form of calls that is known";

#[derive(Deserialize)]
struct Golden {
    requests: Map<String, Value>,
    /// A digest for each request, none where transformers refuses it.
    templates: BTreeMap<String, Vec<Option<String>>>,
}

#[test]
fn published_templates_render_as_in_transformers() {
    let goldens = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens");
    let read = |name: &str| fs::read(format!("{goldens}/{name}")).expect("golden file");
    let golden: Golden = serde_json::from_slice(&read("real/templates.json")).expect("golden JSON");
    let tokenizer = read("tokenizer_bytes/tokenizer.json");
    let tokens = json!({ "bos_token": "<s>", "eos_token": "</s>" }).to_string();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (file, digests) in &golden.templates {
        let source = fs::read(real(&format!("llama.cpp/templates/{file}"))).expect("a template");
        let chat = Chat::new(&ChatFiles {
            tokenizer: &tokenizer,
            tokenizer_config: Some(tokens.as_bytes()),
            chat_template_jinja: Some(&source),
            ..ChatFiles::default()
        })
        .expect("chat files");
        assert_eq!(digests.len(), golden.requests.len());
        for ((name, request), expected) in golden.requests.iter().zip(digests) {
            let read = ChatCompletionRequest::read(request).expect("a request");
            let conversation = read.validate().expect("a valid request").conversation;
            let text = digest(chat.text(&conversation, Some(NOW), true));
            let has_tools =
                ["tools", "tool_calls"].iter().any(|of| request.to_string().contains(of));
            let tools = request.get("tools").is_some();
            let lenient = LENIENT.iter().find(|(of, with, _)| of == file && *with == tools);
            let kind = if text == *expected {
                if text.is_some() { "same" } else { "refused by both" }
            } else if has_tools && digest(rendered(&source, request)) == *expected {
                WORDED
            } else if let Some((.., reason)) = lenient.filter(|_| expected.is_none()) {
                reason
            } else {
                wrong.push(format!("{file}: {name}"));
                "wrong"
            };
            *counts.entry(kind).or_default() += 1;
        }
    }
    for (kind, count) in counts {
        println!("{count:5} {kind}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn digest(text: Result<String>) -> Option<String> {
    let digest = Sha256::digest(text.ok()?.as_bytes());
    Some(digest[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What the template alone gives of a request's messages and tools.
fn rendered(source: &[u8], request: &Value) -> Result<String> {
    let mut messages = request["messages"].as_array().expect("messages").clone();
    let mut names = BTreeMap::new();
    for message in &mut messages {
        let reasoning = message.get("reasoning_content").cloned();
        for name in ["reasoning", "thinking"] {
            reasoning.iter().for_each(|reasoning| message[name] = reasoning.clone());
        }
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            let function = &mut call["function"];
            let text = function["arguments"].as_str().expect("arguments");
            let arguments: Value = serde_json::from_str(text).expect("JSON");
            function["arguments"] = arguments;
            names.insert(call["id"].to_string(), call["function"]["name"].clone());
        }
        if message["role"] == "tool" {
            message["name"] = names[&message["tool_call_id"].to_string()].clone();
        }
    }
    let mut options = TemplateOptions { now: Some(NOW), ..TemplateOptions::default() };
    options.variables.extend(request.get("tools").map(|tools| ("tools".into(), tools.clone())));
    let source = String::from_utf8(source.to_vec()).expect("UTF-8");
    ChatTemplate::new(source, "<s>", "</s>")?.render(&messages, &options)
}
