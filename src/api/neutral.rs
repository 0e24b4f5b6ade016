//! Fields that are not supported, and the values at which they ask for nothing.
//!
//! Clients send parameters at their defaults, labels, and messages as a server or a library returned
//! them. All other values of these fields, and all other fields, are refused by name.

use serde_json::Value;

/// The values of an unsupported field that change nothing. Null is always one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neutral {
    Any,
    Text,
    Object,
    /// The items of this JSON array.
    OneOf(&'static str),
}

use Neutral::{Any, Object, OneOf, Text};

/// Fields and their neutral values.
pub(crate) type Table = [(&'static str, Neutral)];

/// Parameters of all requests.
pub(crate) const REQUEST: &Table = &[
    // OpenAI's: labels, wishes about caches, and defaults.
    ("function_call", OneOf(r#"["none", "auto"]"#)),
    ("functions", OneOf("[[]]")),
    ("metadata", Object),
    ("modalities", OneOf(r#"[["text"]]"#)),
    ("prompt_cache_key", Text),
    ("prompt_cache_options", Object),
    ("prompt_cache_retention", Text),
    ("safety_identifier", Text),
    ("service_tier", OneOf(r#"["auto", "default"]"#)),
    ("store", OneOf("[false]")),
    ("suffix", OneOf(r#"[""]"#)),
    ("user", Text),
    ("verbosity", OneOf(r#"["medium"]"#)),
    // vLLM's, at their defaults.
    ("add_generation_prompt", OneOf("[true]")),
    ("add_special_tokens", OneOf("[false]")),
    ("best_of", OneOf("[1]")),
    ("documents", OneOf("[[]]")),
    ("echo", OneOf("[false]")),
    ("include_reasoning", OneOf("[true]")),
    ("length_penalty", OneOf("[1, 1.0]")),
    ("priority", OneOf("[0]")),
    ("request_id", Text),
    ("return_token_ids", OneOf("[false]")),
    ("return_tokens_as_token_ids", OneOf("[false]")),
    ("spaces_between_special_tokens", OneOf("[true]")),
    ("use_beam_search", OneOf("[false]")),
];

/// Fields of messages: what answers have beside their text, reasoning and calls.
pub(crate) const MESSAGE: &Table = &[
    ("annotations", Any),
    ("cache_control", Object),
    ("extra_content", Any),
    ("id", Text),
    ("images", OneOf("[[]]")),
    ("parsed", Any),
    ("provider_specific_fields", Any),
    ("reasoning_opaque", Text),
    ("reasoning_signature", Text),
    // The same text as in `reasoning_content`, with signatures.
    ("thinking_blocks", Any),
];

/// Fields of tool calls in messages, and of their functions.
pub(crate) const CALL: &Table = &[
    ("cache_control", Object),
    ("extra_content", Any),
    ("parsed_arguments", Any),
    ("provider_specific_fields", Any),
    ("thought_signature", Text),
];

impl Neutral {
    /// Whether this value of the field changes nothing.
    pub(super) fn covers(self, value: &Value) -> bool {
        match self {
            _ if value.is_null() => true,
            Any => true,
            Text => value.is_string(),
            Object => value.is_object(),
            OneOf(values) => {
                serde_json::from_str::<Vec<Value>>(values).is_ok_and(|all| all.contains(value))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{ChatCompletionRequest, CompletionRequest, EmbeddingRequest, TokenizeRequest};
    use crate::error::{Error, Result};

    /// The kinds of requests that take a field.
    const CHAT: &str = "chat";
    const TEXT: &str = "completions";
    const VECTOR: &str = "embeddings";
    const ALL: &[&str] = &[CHAT, TEXT, VECTOR];

    fn check(kind: &str, field: &str, value: &Value) -> Result<()> {
        let mut request = match kind {
            TEXT => json!({ "prompt": "a" }),
            VECTOR => json!({ "input": "a" }),
            _ => json!({ "messages": [{ "role": "user", "content": "a" }] }),
        };
        request[field] = value.clone();
        match kind {
            TEXT => CompletionRequest::read(&request)?.validate().map(drop),
            VECTOR => EmbeddingRequest::read(&request)?.validate().map(drop),
            _ => {
                TokenizeRequest::read(&request)?.validate()?;
                ChatCompletionRequest::read(&request)?.validate().map(drop)
            }
        }
    }

    #[test]
    fn each_field_of_openai_s_is_supported_or_asks_for_nothing_or_is_refused() {
        let tool = json!([{ "type": "function", "function": { "name": "f" } }]);
        let function = json!([{ "name": "f" }]);
        let prediction = json!({ "type": "content", "content": "a" });
        let audio = json!({ "voice": "alloy", "format": "wav" });
        // Field, requests that have it, accepted values, refused values.
        let table: &[(&str, &[&str], Value, Value)] = &[
            ("audio", &[CHAT], json!([]), json!([audio])),
            ("best_of", &[CHAT, TEXT], json!([1]), json!([2])),
            ("dimensions", &[VECTOR], json!([]), json!([256])),
            ("echo", &[CHAT, TEXT], json!([false]), json!([1])),
            ("encoding_format", &[VECTOR], json!(["float", "base64"]), json!(["int8"])),
            ("frequency_penalty", &[CHAT, TEXT], json!([0, 1.5]), json!([3])),
            ("function_call", &[CHAT], json!(["none", "auto"]), json!([{ "name": "f" }, "f"])),
            ("functions", &[CHAT], json!([[]]), json!([function])),
            ("input", &[VECTOR], json!(["a", [1]]), json!([1])),
            ("logit_bias", &[CHAT, TEXT], json!([{}, { "1": 5 }]), json!([{ "x": 1 }])),
            ("logprobs", &[CHAT], json!([false, true]), json!([1])),
            ("logprobs", &[TEXT], json!([0, 5]), json!([true])),
            ("max_completion_tokens", &[CHAT], json!([5]), json!([0])),
            ("max_tokens", &[CHAT, TEXT], json!([5]), json!([0])),
            ("messages", &[CHAT], json!([[{ "role": "user", "content": "b" }]]), json!([[], "a"])),
            ("metadata", ALL, json!([{}, { "a": "b" }]), json!(["a"])),
            ("modalities", &[CHAT], json!([["text"]]), json!([["text", "audio"], ["audio"]])),
            ("model", ALL, json!(["m"]), json!([1])),
            ("moderation", &[CHAT], json!([]), json!([{ "model": "m" }])),
            ("n", &[CHAT, TEXT], json!([1, 2]), json!([0])),
            ("parallel_tool_calls", &[CHAT], json!([true, false]), json!([1])),
            ("prediction", &[CHAT], json!([]), json!([prediction])),
            ("presence_penalty", &[CHAT, TEXT], json!([0]), json!([3])),
            ("prompt", &[TEXT], json!(["a", [1], ["a"], [[1]]]), json!([5])),
            ("prompt_cache_key", &[CHAT], json!(["a", ""]), json!([1])),
            ("prompt_cache_options", &[CHAT], json!([{ "ttl": "30m" }]), json!([true])),
            ("prompt_cache_retention", &[CHAT], json!(["in_memory", "24h"]), json!([1])),
            ("reasoning_effort", &[CHAT], json!(["none", "minimal", "max"]), json!(["most"])),
            (
                "response_format",
                &[CHAT, TEXT],
                json!([{ "type": "text" }, { "type": "json_object" }]),
                json!([{ "type": "yaml" }]),
            ),
            ("safety_identifier", &[CHAT], json!(["me"]), json!([1])),
            ("seed", &[CHAT, TEXT], json!([5]), json!(["a"])),
            ("service_tier", &[CHAT], json!(["auto", "default"]), json!(["flex", "priority"])),
            ("stop", &[CHAT, TEXT], json!(["a", [], ["a"]]), json!([5])),
            ("store", &[CHAT], json!([false]), json!([true])),
            ("stream", &[CHAT, TEXT], json!([true, false]), json!(["yes"])),
            (
                "stream_options",
                &[CHAT, TEXT],
                json!([{}, { "include_usage": false }, { "include_obfuscation": false }]),
                json!([{ "include_usage": true }, { "include_obfuscation": true }, { "a": 1 }]),
            ),
            ("suffix", &[TEXT], json!([""]), json!(["end"])),
            ("temperature", &[CHAT, TEXT], json!([0, 1]), json!([3])),
            ("tool_choice", &[CHAT], json!(["none", "auto"]), json!(["required", "any"])),
            ("tools", &[CHAT], json!([[], tool]), json!([[{ "type": "web_search" }]])),
            ("top_logprobs", &[CHAT], json!([0]), json!([1])),
            ("top_p", &[CHAT, TEXT], json!([1]), json!([2])),
            ("user", ALL, json!(["me"]), json!([1])),
            ("verbosity", &[CHAT], json!(["medium"]), json!(["low", "high"])),
            ("web_search_options", &[CHAT], json!([]), json!([{}])),
        ];
        for (field, kinds, accepted, refused) in table {
            let required = ["messages", "prompt", "input"].contains(field);
            let null = (!required).then_some(&Value::Null);
            for kind in *kinds {
                for value in accepted.as_array().unwrap().iter().chain(null) {
                    assert_eq!(check(kind, field, value), Ok(()), "{kind} {field}: {value}");
                }
                for value in refused.as_array().unwrap() {
                    match check(kind, field, value) {
                        Err(Error::InvalidRequest { param, .. }) => {
                            assert!(param.starts_with(field), "{kind} {field} {value}: {param}");
                        }
                        other => panic!("{kind} {field} {value}: {other:?}"),
                    }
                }
            }
        }
        let recorded = include_str!("../../tests/goldens/real/client_requests.json");
        let recorded: Value = serde_json::from_str(recorded).unwrap();
        for kind in ALL {
            for field in recorded["fields"][kind].as_array().unwrap() {
                let decided = |(name, kinds, ..): &(&str, &[&str], Value, Value)| {
                    *name == field.as_str().unwrap() && kinds.contains(kind)
                };
                assert!(table.iter().any(decided), "{kind}: {field} is not in the table");
            }
        }
    }

    #[test]
    fn the_values_of_the_tables_are_json() {
        for (field, neutral) in [REQUEST, MESSAGE, CALL].concat() {
            assert!(neutral.covers(&Value::Null), "{field}");
            if let OneOf(values) = neutral {
                let values: Vec<Value> = serde_json::from_str(values).expect(field);
                assert!(values.iter().all(|value| neutral.covers(value)), "{field}");
                assert!(!neutral.covers(&json!("another value")), "{field}");
            }
        }
    }
}
