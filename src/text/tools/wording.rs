//! Describes tools in plain text, for models whose templates do not support them.
//!
//! The system message lists the tools and asks for calls in the Hermes format; earlier calls and their
//! results become text in that format.

use serde_json::{Value, json};

use super::dialect::Dialect;

/// The system message's description of these tools.
pub fn instructions(tools: &[Value]) -> String {
    let list: Vec<String> = tools.iter().map(|tool| tool["function"].to_string()).collect();
    format!(
        "You can call these functions, which are described as JSON:\n<tools>\n{}\n</tools>\n\
         To call one, answer with its name and arguments as a JSON object between tags:\n\
         <tool_call>\n{{\"name\": \"function\", \"arguments\": {{\"key\": \"value\"}}}}\n</tool_call>\n\
         Its result comes between <tool_response> and </tool_response>. \
         Answer in plain text where no function is needed.",
        list.join("\n")
    )
}

/// Rewrites messages so that none has tool calls or the role `tool`. The instructions go into the
/// system message, or into the first user message if the template allows no system message.
pub fn worded(messages: Vec<Value>, instructions: Option<&str>, in_system: bool) -> Vec<Value> {
    let mut worded: Vec<Value> = Vec::new();
    let mut results = false;
    for message in messages {
        let content = message["content"].as_str().unwrap_or_default();
        let is_result = message["role"] == "tool";
        if is_result {
            let result = format!("<tool_response>\n{content}\n</tool_response>");
            match worded.last_mut().filter(|_| results) {
                Some(last) => append(last, "\n", &result),
                None => worded.push(json!({ "role": "user", "content": result })),
            }
        } else {
            let mut message = message.clone();
            if let Some(calls) = message.as_object_mut().and_then(|m| m.remove("tool_calls")) {
                for call in calls.as_array().into_iter().flatten() {
                    let call = &call["function"];
                    let call = format!("<tool_call>\n{call}\n</tool_call>");
                    append(&mut message, "\n", &call);
                }
            }
            worded.push(message);
        }
        results = is_result;
    }
    let Some(instructions) = instructions else { return worded };
    let first = worded.iter().position(|message| message["role"] == "user");
    match (worded.first_mut(), first) {
        (Some(system), _) if system["role"] == "system" => append(system, "\n\n", instructions),
        (_, Some(first)) if !in_system => {
            let said = worded[first]["content"].as_str().unwrap_or_default();
            worded[first]["content"] = format!("{instructions}\n\n{said}").into();
        }
        _ => worded.insert(0, json!({ "role": "system", "content": instructions })),
    }
    worded
}

/// The messages with the tools' descriptions as text in the system message, apart from its content.
pub fn carried(mut messages: Vec<Value>, tools: &[Value]) -> Vec<Value> {
    let list: Vec<&Value> = tools.iter().map(|tool| &tool["function"]).collect();
    if messages.first().is_none_or(|first| first["role"] != "system") {
        messages.insert(0, json!({ "role": "system", "content": "" }));
    }
    messages[0]["tools"] = json!(list).to_string().into();
    messages
}

/// The messages with earlier calls as text in the model's own format, for templates that leave calls out.
pub fn spoken(mut messages: Vec<Value>, dialect: Dialect) -> Vec<Value> {
    for message in &mut messages {
        let calls = message.as_object_mut().and_then(|message| message.remove("tool_calls"));
        if let Some(Value::Array(calls)) = calls {
            let text = dialect.format().written(calls.iter().map(|call| &call["function"]));
            append(message, "\n", &text);
        }
    }
    messages
}

/// The messages as gpt-oss's template reads them: an assistant's message has one call, the call's result
/// comes next, and text before a call is reasoning.
pub fn one_call_each(messages: Vec<Value>) -> Vec<Value> {
    let mut rest: Vec<Option<Value>> = messages.into_iter().map(Some).collect();
    let mut all = Vec::new();
    for at in 0..rest.len() {
        let Some(mut message) = rest[at].take() else { continue };
        let calls = message.as_object_mut().and_then(|message| message.remove("tool_calls"));
        let calls = match calls {
            Some(Value::Array(calls)) if !calls.is_empty() => calls,
            _ => {
                all.push(message);
                continue;
            }
        };
        let said = |name: &str| message[name].as_str().unwrap_or_default();
        let parts = [said("reasoning_content"), said("content")];
        let thinking =
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
        for (i, call) in calls.into_iter().enumerate() {
            let id = call["id"].clone();
            let mut one = json!({ "role": "assistant", "tool_calls": [call] });
            if i == 0 && !thinking.is_empty() {
                one["thinking"] = thinking.as_str().into();
            }
            all.push(one);
            // Results up to the next message of another role.
            let results = rest[at + 1..].iter_mut().take_while(|message| {
                message.as_ref().is_none_or(|message| message["role"] == "tool")
            });
            let answers = |message: &Option<Value>| {
                message.as_ref().is_some_and(|message| message["tool_call_id"] == id)
            };
            all.extend(results.filter(|message| answers(message)).filter_map(Option::take));
        }
    }
    all
}

/// Appends to a message's content.
fn append(message: &mut Value, separator: &str, text: &str) {
    let said = message["content"].as_str().unwrap_or_default();
    let separator = if said.is_empty() { "" } else { separator };
    message["content"] = format!("{said}{separator}{text}").into();
}
