//! Tools in plain words, for models whose templates say nothing of them.
//!
//! The system message lists them and asks for calls as Hermes models write them; earlier calls and
//! their results become texts of that form.

use serde_json::{Value, json};

/// What the system message says of these tools.
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

/// Messages of which none calls a tool or is a tool's. The first that may hold instructions does: a
/// system message, or else, where there can be none, the first message of the user.
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

/// Adds to the content of a message.
fn append(message: &mut Value, separator: &str, text: &str) {
    let said = message["content"].as_str().unwrap_or_default();
    let separator = if said.is_empty() { "" } else { separator };
    message["content"] = format!("{said}{separator}{text}").into();
}
