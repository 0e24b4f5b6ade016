//! A request for a response, as a request for a chat completion.

use serde_json::{Map, Value, json};
use tabloom::{Error, Result, api::ChatCompletionRequest};

use super::answer::head;
use crate::failure::Failure;

/// What responses call the chat's parameters with these beginnings; the last that fits counts.
const NAMES: [(&str, &str); 8] = [
    ("messages", "input"),
    ("response_format", "text.format"),
    ("response_format.json_schema", "text.format"),
    ("tool_choice.function", "tool_choice"),
    ("tool_choice.allowed_tools", "tool_choice"),
    ("max_completion_tokens", "max_output_tokens"),
    ("reasoning_effort", "reasoning.effort"),
    ("verbosity", "text.verbosity"),
];

/// What chats take and responses do not, and what to do in its place.
const OF_CHATS: [(&str, &str); 9] = [
    ("messages", "none, but input"),
    ("max_tokens", "none, but max_output_tokens"),
    ("max_completion_tokens", "none, but max_output_tokens"),
    ("response_format", "none, but text.format"),
    ("reasoning_effort", "none, but reasoning.effort"),
    ("verbosity", "none, but text.verbosity"),
    ("logprobs", "none, but include: [\"message.output_text.logprobs\"]"),
    ("prompt_logprobs", "none, but a chat completion"),
    ("n", "none, but a request for each answer"),
];

const LOGPROBS: &str = "message.output_text.logprobs";
/// What is never there to be included, as reasoning is given in plain text.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// A request that was translated.
pub struct Asked {
    pub chat: ChatCompletionRequest,
    pub names: Names,
    /// What the response repeats.
    pub head: Value,
}

impl Asked {
    /// Reads a request: an object, otherwise unchecked.
    pub fn read(params: &Value) -> Result<Asked, Failure> {
        let (chat, names) = translated(params)?;
        match ChatCompletionRequest::read(&chat) {
            Ok(chat) => Ok(Asked { chat, names, head: head(params) }),
            Err(error) => Err(names.failure(error)),
        }
    }
}

/// The chat's parameters and what the request calls them.
pub struct Names(Vec<(String, String)>);

impl Names {
    /// An error about the chat, as one about the request.
    pub fn failure(&self, mut error: Error) -> Failure {
        if let Error::InvalidRequest { param, .. } | Error::ContextLengthExceeded { param, .. } =
            &mut error
        {
            *param = self.own(param);
        }
        error.into()
    }

    fn own(&self, param: &str) -> String {
        let mut names = self.0.iter().rev();
        let found = names.find_map(|(chat, own)| Some((own, param.strip_prefix(chat.as_str())?)));
        found.map_or(param.into(), |(own, rest)| format!("{own}{rest}"))
    }
}

/// The chat. All that has the same name is passed on; the engine refuses what it does not support.
fn translated(params: &Value) -> Result<(Value, Names)> {
    let Value::Object(mut chat) = params.clone() else {
        return Err(invalid("request", params, "an object"));
    };
    for (name, expected) in OF_CHATS {
        if let Some(value) = chat.get(name).filter(|value| !value.is_null()) {
            return Err(invalid(name, value, expected));
        }
    }
    let mut take = |name: &str| chat.remove(name).unwrap_or_default();
    let [input, instructions, tools, choice] =
        ["input", "instructions", "tools", "tool_choice"].map(&mut take);
    let [text, reasoning, include, limit] =
        ["text", "reasoning", "include", "max_output_tokens"].map(&mut take);
    neutral("background", &take("background"), json!(false))?;
    neutral("truncation", &take("truncation"), json!("disabled"))?;
    let [format, verbosity] = fields("text", text, ["format", "verbosity"])?;
    let [effort, summary] = fields("reasoning", reasoning, ["effort", "summary"])?;
    neutral("reasoning.summary", &summary, json!("auto"))?;

    let names = NAMES.map(|(chat, own)| (chat.into(), own.into())).into();
    let mut conversation = Conversation { messages: Vec::new(), names };
    if !instructions.is_null() {
        conversation.text("system", instructions, "instructions");
    }
    match input {
        Value::String(_) => conversation.text("user", input, "input"),
        Value::Array(items) => {
            for (i, item) in items.into_iter().enumerate() {
                conversation.item(item, &format!("input[{i}]"))?;
            }
        }
        other => return Err(invalid("input", &other, "a text or a list of items")),
    }
    let Conversation { messages, mut names } = conversation;

    let tools = match tools {
        Value::Null => Value::Null,
        tools => chat_tools("tools", tools)?,
    };
    for i in 0..tools.as_array().map_or(0, Vec::len) {
        names.push((format!("tools[{i}].function"), format!("tools[{i}]")));
    }
    let wanted = match include {
        Value::Null => Vec::new(),
        include => list("include", include)?,
    };
    for (i, what) in wanted.iter().enumerate() {
        if what != LOGPROBS && what != ENCRYPTED {
            return Err(invalid(format!("include[{i}]"), what, LOGPROBS));
        }
    }
    let top = chat.get("top_logprobs").and_then(Value::as_f64).is_some_and(|most| most > 0.0);
    let logprobs = top || wanted.iter().any(|what| what == LOGPROBS);
    if chat.get("stream") == Some(&Value::Bool(true)) {
        let options = chat.entry("stream_options").or_insert(Value::Null);
        if options.is_null() {
            *options = json!({});
        }
        if let Value::Object(options) = options {
            options.insert("include_usage".into(), true.into());
        }
    }
    for (name, value) in [
        ("messages", Value::from(messages)),
        ("tools", tools),
        ("tool_choice", tool_choice(choice)?),
        ("response_format", response_format(format)),
        ("verbosity", verbosity),
        ("reasoning_effort", effort),
        ("max_completion_tokens", limit),
        ("logprobs", if logprobs { true.into() } else { Value::Null }),
    ] {
        if !value.is_null() {
            chat.insert(name.into(), value);
        }
    }
    Ok((Value::Object(chat), Names(names)))
}

/// The messages that items stand for.
struct Conversation {
    messages: Vec<Value>,
    names: Vec<(String, String)>,
}

impl Conversation {
    fn text(&mut self, role: &str, content: Value, path: &str) {
        self.messages.push(json!({ "role": role, "content": content }));
        self.name("", path);
        self.name(".content", path);
    }

    fn item(&mut self, item: Value, path: &str) -> Result<()> {
        let Value::Object(mut item) = item else { return Err(invalid(path, &item, "an item")) };
        // Labels of what answers have been; all other fields are the engine's to judge.
        for label in ["id", "status", "phase"] {
            item.remove(label);
        }
        let kind = item.remove("type").unwrap_or_else(|| "message".into());
        match kind.as_str() {
            Some("message") => self.message(item, path),
            Some("function_call") => {
                self.call(item, path);
                Ok(())
            }
            Some("function_call_output") => {
                let output = parts(item.remove("output"), &format!("{path}.output"))?;
                let id = item.remove("call_id");
                item.extend(
                    [("role", Some("tool".into())), ("tool_call_id", id), ("content", output)]
                        .map(|(name, value)| (name.to_owned(), value.unwrap_or_default())),
                );
                self.push(item, path);
                self.name(".content", &format!("{path}.output"));
                self.name(".tool_call_id", &format!("{path}.call_id"));
                Ok(())
            }
            Some("reasoning") => {
                self.reasoning(&item, path);
                Ok(())
            }
            _ => {
                let expected = "message, function_call, function_call_output or reasoning";
                Err(invalid(format!("{path}.type"), &kind, expected))
            }
        }
    }

    /// A message; the assistant's goes on with the reasoning before it, if there is some.
    fn message(&mut self, mut message: Map<String, Value>, path: &str) -> Result<()> {
        if let Some(content) = parts(message.remove("content"), &format!("{path}.content"))? {
            message.insert("content".into(), content);
        }
        let assistant = message.get("role").is_some_and(|role| role == "assistant");
        let last = self.assistant().filter(|last| {
            assistant && !last.contains_key("content") && !last.contains_key("tool_calls")
        });
        match last {
            Some(last) => {
                last.extend(message);
                self.name("", path);
            }
            None => self.push(message, path),
        }
        Ok(())
    }

    /// A call, which the assistant's message before it has.
    fn call(&mut self, mut call: Map<String, Value>, path: &str) {
        let [id, name, arguments] =
            ["call_id", "name", "arguments"].map(|field| call.remove(field).unwrap_or_default());
        call.insert("id".into(), id);
        call.insert("type".into(), "function".into());
        call.insert("function".into(), json!({ "name": name, "arguments": arguments }));
        if self.assistant().is_none() {
            self.push(Map::from_iter([("role".into(), "assistant".into())]), path);
        }
        let calls = self.assistant().map(|last| last.entry("tool_calls").or_insert(json!([])));
        let Some(Value::Array(calls)) = calls else { return };
        let at = format!(".tool_calls[{}]", calls.len());
        calls.push(call.into());
        self.name(&at, path);
        self.name(&format!("{at}.id"), &format!("{path}.call_id"));
        self.name(&format!("{at}.function"), path);
    }

    /// Begins an answer with its reasoning; where that is encrypted, there is none.
    fn reasoning(&mut self, item: &Map<String, Value>, path: &str) {
        let pieces = |name: &str| item.get(name).and_then(Value::as_array);
        let content = pieces("content").filter(|content| !content.is_empty());
        let pieces = content.or(pieces("summary")).into_iter().flatten();
        let text: String = pieces.filter_map(|piece| piece.get("text")?.as_str()).collect();
        if !text.is_empty() {
            let fields = [("role", "assistant".into()), ("reasoning_content", text.into())];
            self.push(
                fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
                path,
            );
        }
    }

    fn push(&mut self, message: Map<String, Value>, path: &str) {
        self.messages.push(message.into());
        self.name("", path);
    }

    /// The last message, if it is the assistant's.
    fn assistant(&mut self) -> Option<&mut Map<String, Value>> {
        let last = self.messages.last_mut()?.as_object_mut()?;
        last.get("role").is_some_and(|role| role == "assistant").then_some(last)
    }

    /// Names a field of the last message.
    fn name(&mut self, field: &str, own: &str) {
        let last = self.messages.len().saturating_sub(1);
        self.names.push((format!("messages[{last}]{field}"), own.into()));
    }
}

/// A content in the chat's parts.
fn parts(content: Option<Value>, path: &str) -> Result<Option<Value>> {
    let Some(Value::Array(parts)) = content else { return Ok(content) };
    let parts = parts.into_iter().enumerate().map(|(i, mut part)| match part["type"].as_str() {
        Some("input_text" | "output_text") => {
            Ok(json!({ "type": "text", "text": part["text"].take() }))
        }
        Some("refusal") => Ok(part),
        _ => {
            let expected = "a part of type input_text or output_text";
            Err(invalid(format!("{path}[{i}]"), &part, expected))
        }
    });
    Ok(Some(parts.collect::<Result<_>>()?))
}

fn response_format(mut format: Value) -> Value {
    match &mut format {
        Value::Object(fields) if fields.get("type").is_some_and(|kind| kind == "json_schema") => {
            fields.remove("type");
            json!({ "type": "json_schema", "json_schema": format })
        }
        _ => format,
    }
}

fn chat_tools(param: &str, tools: Value) -> Result<Value> {
    let tools = list(param, tools)?.into_iter().enumerate();
    let tools = tools.map(|(i, mut tool)| {
        let kind = tool.as_object_mut().and_then(|tool| tool.remove("type")).unwrap_or_default();
        if kind != "function" {
            return Err(invalid(format!("{param}[{i}].type"), &kind, "\"function\""));
        }
        Ok(json!({ "type": "function", "function": tool }))
    });
    tools.collect()
}

fn tool_choice(mut choice: Value) -> Result<Value> {
    let Value::Object(named) = &mut choice else { return Ok(choice) };
    let kind = named.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !["function", "allowed_tools"].contains(&kind.as_str()) {
        return Ok(choice);
    }
    named.remove("type");
    if kind == "allowed_tools" {
        let tools = named.remove("tools").unwrap_or_default();
        named.insert("tools".into(), chat_tools("tool_choice.tools", tools)?);
    }
    Ok(json!({ "type": kind.clone(), kind: choice }))
}

/// Refuses all values but one that changes nothing.
fn neutral(param: &str, value: &Value, only: Value) -> Result<()> {
    if value.is_null() || *value == only {
        return Ok(());
    }
    Err(invalid(param, value, &format!("{only} or nothing")))
}

/// Two fields of an object that has no others.
fn fields(param: &str, value: Value, known: [&str; 2]) -> Result<[Value; 2]> {
    let mut fields = match value {
        Value::Null => Map::new(),
        Value::Object(fields) => fields,
        other => return Err(invalid(param, &other, "an object")),
    };
    let values = known.map(|name| fields.remove(name).unwrap_or_default());
    match fields.iter().find(|(_, value)| !value.is_null()) {
        None => Ok(values),
        Some((name, value)) => {
            let expected = format!("{} alone", known.join(" and "));
            Err(invalid(format!("{param}.{name}"), value, &expected))
        }
    }
}

fn list(param: &str, value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(invalid(param, &other, "a list")),
    }
}

fn invalid(param: impl Into<String>, found: &Value, expected: &str) -> Error {
    let found = if found.is_null() { "nothing".into() } else { found.to_string() };
    let found: String = found.chars().take(60).collect();
    let message = format!("found {found}, expected {expected}");
    Error::InvalidRequest { param: param.into(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goldens(part: &str) -> Vec<Value> {
        let text = include_str!("../../../tests/goldens/responses.json");
        let mut goldens: Value = serde_json::from_str(text).unwrap();
        serde_json::from_value(goldens[part].take()).unwrap()
    }

    #[test]
    fn requests_become_chats() {
        for case in goldens("requests") {
            let (chat, _) = translated(&case["params"]).unwrap();
            assert_eq!(chat, case["chat"], "{}", case["params"]);
        }
    }

    #[test]
    fn what_has_no_place_in_a_chat_is_refused_by_its_name() {
        for case in goldens("refused") {
            match translated(&case[0]).map(|(chat, _)| chat) {
                Err(Error::InvalidRequest { param, message }) => {
                    assert_eq!(param, case[1], "{message}");
                    assert!(message.starts_with("found "), "{message}");
                }
                other => panic!("{case}: {other:?}"),
            }
        }
    }

    #[test]
    fn errors_about_the_chat_name_what_the_request_has() {
        for case in goldens("names") {
            let (_, names) = translated(&case[0]).unwrap();
            assert_eq!(names.own(case[1].as_str().unwrap()), case[2], "{case}");
        }
    }
}
