//! Turns a request's messages into a conversation and checks that they are consistent.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::message::{Conversation, Message, Role, ToolCall};
use super::neutral;
use super::refusal::{invalid, refuse_unsupported};
use super::request::{Content, ReasoningDetail, RequestCall, RequestCallFunction, RequestMessage};
use super::tools::{Tools, check_name};
use crate::error::Result;

const MAX_CALL_ID: usize = 256;

/// Checks each message and its references to earlier ones.
pub(super) fn conversation(
    messages: Vec<RequestMessage>,
    continues: Option<bool>,
    tools: Tools,
    variables: Map<String, Value>,
) -> Result<Conversation> {
    let last = messages.len().checked_sub(1);
    let last = last.ok_or_else(|| invalid("messages", "none", "at least one message"))?;
    let mut read = Reader::default();
    let mut prefix = None;
    for (i, message) in messages.into_iter().enumerate() {
        let at = format!("messages[{i}].");
        prefix = message.prefix;
        if prefix == Some(true) && (i < last || message.role != "assistant") {
            let param = format!("{at}prefix");
            return Err(invalid(param, "true", "it in a last message of the assistant alone"));
        }
        read.message(&at, message)?;
    }
    let messages = read.messages;
    let ends = &messages[last];
    let can = ends.role == Role::Assistant && ends.calls.is_empty();
    let can = can && ends.content.as_ref().is_some_and(|content| !content.is_empty());
    if continues == Some(true) && !can {
        let expected = "a last message of the assistant that has a text and calls no tools";
        return Err(invalid("continue_final_message", "true", &format!("it only with {expected}")));
    }
    let continues = can && continues.or(prefix).unwrap_or(true);
    Ok(Conversation { messages, tools, variables, continues })
}

/// Reads messages and remembers the tool calls that later messages may answer.
#[derive(Default)]
struct Reader {
    messages: Vec<Message>,
    /// The calls so far by id: the tool's name, or `None` once a message has answered the call.
    calls: BTreeMap<String, Option<String>>,
}

impl Reader {
    fn message(&mut self, at: &str, message: RequestMessage) -> Result<()> {
        let role = match message.role.as_str() {
            // `developer` is OpenAI's newer name of `system`.
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            other => {
                let found = if other.is_empty() { "no role".into() } else { format!("{other:?}") };
                let expected = "system, user, assistant or tool";
                return Err(invalid(format!("{at}role"), found, expected));
            }
        };
        refuse_unsupported(at, &message.other, neutral::MESSAGE)?;
        refuse_foreign(at, role, &message)?;
        let reasoning = reasoning(&message);
        let content = content(at, role, &message, reasoning.is_some())?;
        let RequestMessage { tool_calls, tool_call_id, name, .. } = message;
        let calls = tool_calls.unwrap_or_default().into_iter().enumerate();
        let calls = calls.map(|(c, call)| self.call(&format!("{at}tool_calls[{c}]."), call));
        let calls = calls.collect::<Result<_>>()?;
        let tool_call_id = match role {
            Role::Tool => Some(self.answered(at, tool_call_id, name)?),
            _ => None,
        };
        self.messages.push(Message { role, content, reasoning, calls, tool_call_id });
        Ok(())
    }

    fn call(&mut self, at: &str, call: RequestCall) -> Result<ToolCall> {
        let RequestCall { id, kind, function, index: _, other } = call;
        let RequestCallFunction { name, arguments, other: more } = function;
        refuse_unsupported(at, &other, neutral::CALL)?;
        refuse_unsupported(&format!("{at}function."), &more, neutral::CALL)?;
        if let Some(kind) = kind.filter(|kind| kind != "function") {
            return Err(invalid(format!("{at}type"), format!("{kind:?}"), "\"function\""));
        }
        let param = format!("{at}id");
        if !(1..=MAX_CALL_ID).contains(&id.len()) {
            return Err(invalid(param, format!("{} bytes", id.len()), "1 to 256"));
        }
        if self.calls.contains_key(&id) {
            return Err(invalid(param, format!("{id:?} again"), "an id of its own"));
        }
        check_name(&format!("{at}function.name"), &name)?;
        let param = format!("{at}function.arguments");
        let expected = "a JSON object, as text";
        let arguments = match arguments.unwrap_or_default() {
            Value::String(text) if text.trim().is_empty() => Value::Null,
            Value::String(text) => {
                serde_json::from_str(&text).map_err(|error| invalid(&param, error, expected))?
            }
            other => other,
        };
        let arguments = match arguments {
            Value::Null => Map::new(),
            Value::Object(arguments) => arguments,
            _ => return Err(invalid(param, "no object", expected)),
        };
        self.calls.insert(id.clone(), Some(name.clone()));
        Ok(ToolCall { id, name, arguments })
    }

    /// The id of the call that a tool's message answers.
    fn answered(&mut self, at: &str, id: Option<String>, name: Option<String>) -> Result<String> {
        let param = format!("{at}tool_call_id");
        let expected = "the id of an earlier call that has no answer yet";
        let id = id.ok_or_else(|| invalid(&param, "nothing", expected))?;
        let called = self.calls.get_mut(&id).and_then(Option::take);
        let called = called.ok_or_else(|| invalid(&param, format!("{id:?}"), expected))?;
        match name {
            Some(name) if name != called => {
                Err(invalid(format!("{at}name"), format!("{name:?}"), &format!("{called:?}")))
            }
            _ => Ok(id),
        }
    }
}

/// Refuses fields that belong to messages of another role.
fn refuse_foreign(at: &str, role: Role, message: &RequestMessage) -> Result<()> {
    for (field, given, of) in [
        ("reasoning_content", message.reasoning_content.is_some(), Role::Assistant),
        ("reasoning", message.reasoning.is_some(), Role::Assistant),
        ("thinking", message.thinking.is_some(), Role::Assistant),
        ("reasoning_details", message.reasoning_details.is_some(), Role::Assistant),
        ("refusal", message.refusal.is_some(), Role::Assistant),
        ("tool_calls", calls_tools(message), Role::Assistant),
        ("tool_call_id", message.tool_call_id.is_some(), Role::Tool),
    ] {
        if given && role != of {
            let expected = if of == Role::Tool { "tool" } else { "assistant" };
            let expected = format!("it in messages of role {expected} alone");
            return Err(invalid(format!("{at}{field}"), "it here", &expected));
        }
    }
    Ok(())
}

fn calls_tools(message: &RequestMessage) -> bool {
    message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
}

/// A message's text, or what the assistant said instead of it.
fn content(
    at: &str,
    role: Role,
    message: &RequestMessage,
    reasons: bool,
) -> Result<Option<String>> {
    let content = message.content.as_ref().map(|content| text(at, content, role)).transpose()?;
    let refusal = message.refusal.clone().filter(|text| !text.is_empty());
    let content = match (content, refusal) {
        (Some(text), Some(refusal)) if text.is_empty() => Some(refusal),
        (content, refusal) => content.or(refusal),
    };
    let param = format!("{at}content");
    match content {
        None if calls_tools(message) => Ok(None),
        // An answer that ended while the model was still thinking.
        None if reasons => Ok(Some(String::new())),
        None => Err(invalid(param, "nothing", "a string or a list of text parts")),
        Some(text) if role == Role::User && text.trim().is_empty() => {
            Err(invalid(param, "an empty text", "something to answer"))
        }
        content => Ok(content),
    }
}

/// The assistant's reasoning: the first of its fields that has text. Servers write the same reasoning
/// under several names.
fn reasoning(message: &RequestMessage) -> Option<String> {
    let RequestMessage { reasoning_content, reasoning, thinking, reasoning_details, .. } = message;
    let details = reasoning_details.as_ref().map(|details| {
        let text = |detail: &ReasoningDetail| detail.text.clone().or(detail.summary.clone());
        details.iter().filter_map(text).collect::<String>()
    });
    let fields = [reasoning_content, reasoning, thinking, &details];
    let with_text = fields.iter().find(|field| field.as_ref().is_some_and(|text| !text.is_empty()));
    with_text.map_or(reasoning_content, |field| field).clone()
}

/// A content's text; the texts of several parts are joined.
fn text(at: &str, content: &Content, role: Role) -> Result<String> {
    let parts = match content {
        Content::Text(text) => return Ok(text.clone()),
        Content::Parts(parts) => parts,
    };
    let mut content = String::new();
    for (p, part) in parts.iter().enumerate() {
        let text = match part.kind.as_str() {
            "text" => part.text.as_ref(),
            "refusal" if role == Role::Assistant => part.refusal.as_ref(),
            _ => None,
        };
        let Some(text) = text else {
            let found = format!("a part of type {:?}", part.kind);
            let param = format!("{at}content[{p}]");
            return Err(invalid(param, found, "type \"text\" and a text"));
        };
        content.push_str(text);
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{api::ChatCompletionRequest, error::Error};

    fn read(messages: Value, fields: Value) -> Result<Conversation> {
        let mut request = json!({ "messages": messages });
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        Ok(ChatCompletionRequest::read(&request)?.validate()?.conversation)
    }

    fn call(id: &str, arguments: &str) -> Value {
        json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": arguments } })
    }

    #[test]
    fn calls_and_their_results_are_read() {
        let messages = json!([
            { "role": "user", "content": "go" },
            {
                "role": "assistant", "content": null, "reasoning_content": "Hm.", "refusal": null,
                "annotations": [], "tool_calls": [call("a", r#"{"x": [1]}"#), call("b", "{}")],
            },
            { "role": "tool", "tool_call_id": "b", "content": "2", "name": "f" },
            { "role": "tool", "tool_call_id": "a", "content": [{ "type": "text", "text": "" }] },
        ]);
        let called = |id: &str, arguments: Value| ToolCall {
            id: id.into(),
            name: "f".into(),
            arguments: arguments.as_object().unwrap().clone(),
        };
        let expected = [
            Message::user("go"),
            Message {
                role: Role::Assistant,
                content: None,
                reasoning: Some("Hm.".into()),
                calls: vec![called("a", json!({ "x": [1] })), called("b", json!({}))],
                tool_call_id: None,
            },
            Message::tool("b", "2"),
            Message::tool("a", ""),
        ];
        let conversation = read(messages, json!({})).unwrap();
        assert_eq!(conversation.messages, expected);
        assert!(!conversation.continues);
    }

    #[test]
    fn messages_of_other_servers_and_libraries_are_taken_back() {
        let answered = |fields: Value| {
            let mut message = json!({ "role": "assistant", "content": "Yes." });
            message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let ask = json!({ "role": "user", "content": "Again?" });
            read(json!([message, ask]), json!({})).map(|read| read.messages[0].clone())
        };
        for fields in [
            json!({ "parsed": null, "refusal": null, "annotations": [] }),
            json!({ "parsed": { "a": 1 }, "audio": null, "function_call": null }),
            json!({ "tool_calls": null, "annotations": [{ "type": "url_citation" }] }),
            json!({ "tool_calls": [], "reasoning": null, "reasoning_details": [] }),
            json!({ "id": "msg_1", "images": [], "provider_specific_fields": { "a": 1 } }),
            json!({ "extra_content": {}, "cache_control": { "type": "ephemeral" }, "name": null }),
            json!({ "name": "ann" }),
            json!({ "content": [{ "type": "text", "text": "Yes.", "annotations": [] }] }),
            json!({ "content": null, "refusal": "Yes." }),
            json!({ "content": "", "refusal": "Yes." }),
            json!({ "content": [{ "type": "refusal", "refusal": "Yes." }] }),
        ] {
            assert_eq!(answered(fields.clone()), Ok(Message::assistant("Yes.")), "{fields}");
        }
        for (field, value) in [
            ("audio", json!({ "id": "audio_1" })),
            ("function_call", json!({ "name": "f", "arguments": "{}" })),
            ("images", json!([{ "type": "image_url" }])),
            ("weight", json!(0)),
        ] {
            match answered(json!({ field: value })) {
                Err(Error::InvalidRequest { param, .. }) => {
                    assert_eq!(param, format!("messages[0].{field}"));
                }
                other => panic!("{field}: {other:?}"),
            }
        }
    }

    #[test]
    fn reasoning_has_several_names_of_which_one_counts() {
        let details = json!([
            { "type": "reasoning.summary", "summary": "So" },
            { "type": "reasoning.encrypted", "data": "xyz" },
            { "type": "reasoning.text", "text": " be it.", "signature": null },
        ]);
        for (fields, reasoning) in [
            (json!({ "reasoning_content": "a", "reasoning": "b", "thinking": "c" }), Some("a")),
            (json!({ "reasoning_content": "", "reasoning": "b", "thinking": "c" }), Some("b")),
            (
                json!({ "reasoning": null, "thinking": "c", "reasoning_details": details }),
                Some("c"),
            ),
            (json!({ "reasoning_details": details }), Some("So be it.")),
            (json!({ "reasoning_details": [], "reasoning": "" }), None),
            (json!({ "reasoning_content": "", "reasoning_details": [] }), Some("")),
            (json!({ "content": null, "reasoning": "b" }), Some("b")),
        ] {
            let mut message = json!({ "role": "assistant", "content": "" });
            message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let read = read(json!([message]), json!({})).unwrap();
            let message =
                Message { reasoning: reasoning.map(Into::into), ..Message::assistant("") };
            assert_eq!(read.messages, [message], "{fields}");
        }
    }

    #[test]
    fn calls_without_arguments_have_an_empty_object() {
        for function in [
            json!({ "name": "f" }),
            json!({ "name": "f", "arguments": null }),
            json!({ "name": "f", "arguments": "" }),
            json!({ "name": "f", "arguments": " \n" }),
            json!({ "name": "f", "arguments": "null" }),
            json!({ "name": "f", "arguments": {} }),
            json!({ "name": "f", "arguments": "{}", "parsed_arguments": { "a": 1 } }),
        ] {
            let call = json!({
                "id": "a", "type": "function", "function": function, "index": 0,
                "extra_content": { "google": { "thought_signature": "x" } },
            });
            let messages = json!([{ "role": "assistant", "content": null, "tool_calls": [call] }]);
            let read = read(messages, json!({})).unwrap();
            let expected = ToolCall { id: "a".into(), name: "f".into(), arguments: Map::new() };
            assert_eq!(read.messages[0].calls, [expected], "{function}");
        }
    }

    #[test]
    fn inconsistent_messages_are_refused_by_path() {
        let calls = |calls: Value| json!({ "role": "assistant", "tool_calls": calls });
        let result = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "1" });
        let once = calls(json!([call("a", "{}")]));
        let parts = |parts: Value| json!([{ "role": "user", "content": parts }]);
        for (messages, param) in [
            (parts(json!(5)), "messages[0].content"),
            (parts(json!([{ "type": "text", "text": 5 }])), "messages[0].content[0].text"),
            (parts(json!([{ "type": "text", "text": "a" }, "b"])), "messages[0].content[1]"),
            (json!([result("a")]), "messages[0].tool_call_id"),
            (json!([once, result("b")]), "messages[1].tool_call_id"),
            (json!([once, result("a"), result("a")]), "messages[2].tool_call_id"),
            (json!([once, { "role": "tool", "content": "1" }]), "messages[1].tool_call_id"),
            (json!([once, { "role": "tool", "tool_call_id": "a" }]), "messages[1].content"),
            (
                json!([once, { "role": "tool", "tool_call_id": "a", "content": "", "name": "g" }]),
                "messages[1].name",
            ),
            (json!([once, once]), "messages[1].tool_calls[0].id"),
            (json!([calls(json!([call("", "{}")]))]), "messages[0].tool_calls[0].id"),
            (json!([calls(json!([]))]), "messages[0].content"),
            (
                json!([calls(json!([call("a", "x")]))]),
                "messages[0].tool_calls[0].function.arguments",
            ),
            (
                json!([calls(json!([call("a", "[1]")]))]),
                "messages[0].tool_calls[0].function.arguments",
            ),
            (
                json!([calls(
                    json!([{ "id": "a", "function": { "name": "é", "arguments": "{}" } }])
                )]),
                "messages[0].tool_calls[0].function.name",
            ),
            (json!([calls(json!([{ "id": "a" }]))]), "messages[0].tool_calls[0]"),
            (
                json!([calls(json!([{ "id": "a", "function": { "name": "f", "args": "" } }]))]),
                "messages[0].tool_calls[0].function.args",
            ),
            (
                json!([calls(json!([{ "id": "a", "function": { "name": "f" }, "x": 1 }]))]),
                "messages[0].tool_calls[0].x",
            ),
            (
                json!([{ "role": "user", "content": "x", "tool_call_id": "a" }]),
                "messages[0].tool_call_id",
            ),
            (
                json!([{ "role": "user", "content": "x", "reasoning_content": "a" }]),
                "messages[0].reasoning_content",
            ),
            (
                json!([{ "role": "user", "content": "x", "reasoning": "a" }]),
                "messages[0].reasoning",
            ),
            (json!([{ "role": "user", "content": "x", "refusal": "a" }]), "messages[0].refusal"),
            (
                json!([{ "role": "user", "content": "x", "tool_calls": [call("a", "{}")] }]),
                "messages[0].tool_calls",
            ),
            (json!([{ "role": "user", "content": "x", "prefix": true }]), "messages[0].prefix"),
            (
                json!([
                    { "role": "assistant", "content": "x", "prefix": true },
                    { "role": "user", "content": "x" },
                ]),
                "messages[0].prefix",
            ),
        ] {
            match read(messages.clone(), json!({})) {
                Err(Error::InvalidRequest { param: at, message }) => {
                    assert_eq!(at, param, "{messages}: {message}");
                }
                other => panic!("{messages}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_last_message_of_the_assistant_is_continued() {
        let ends = |last: Value| json!([{ "role": "user", "content": "go" }, last]);
        let said = json!({ "role": "assistant", "content": "Once" });
        let marked = json!({ "role": "assistant", "content": "Once", "prefix": true });
        let called =
            json!({ "role": "assistant", "content": "x", "tool_calls": [call("a", "{}")] });
        let asked = |to: bool| json!({ "continue_final_message": to });
        for (last, fields, continues) in [
            (&said, json!({}), true),
            (&marked, json!({}), true),
            (&said, asked(true), true),
            (&said, asked(false), false),
            (&called, json!({}), false),
            (&json!({ "role": "assistant", "content": "" }), json!({}), false),
        ] {
            let read = read(ends(last.clone()), fields.clone()).unwrap();
            assert_eq!(read.continues, continues, "{last} {fields}");
        }
        for messages in [json!([{ "role": "user", "content": "go" }]), ends(called)] {
            let refused = read(messages, asked(true)).unwrap_err();
            assert!(refused.to_string().contains("continue_final_message"), "{refused}");
        }
    }
}
