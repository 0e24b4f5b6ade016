//! Describes tools in plain text, for models whose templates do not support them.
//!
//! The system message lists the tools and asks for calls in the Hermes format; earlier calls and their
//! results become text in that format.

use serde_json::{Value, json};

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

/// Appends to a message's content.
fn append(message: &mut Value, separator: &str, text: &str) {
    let said = message["content"].as_str().unwrap_or_default();
    let separator = if said.is_empty() { "" } else { separator };
    message["content"] = format!("{said}{separator}{text}").into();
}
