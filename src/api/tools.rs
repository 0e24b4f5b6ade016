//! The tools that a model may call: `tools`, `tool_choice` and `parallel_tool_calls`.

use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};
use tabloom_grammar::Form;

use super::refusal::invalid;
use crate::error::{Error, Result};

const MAX_TOOLS: usize = 128;
const MAX_NAME: usize = 64;

/// One of the request's `tools`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct RequestTool {
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: String,
    pub function: RequestFunction,
}

/// The function of a [`RequestTool`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct RequestFunction {
    pub name: String,
    pub description: Option<String>,
    /// The JSON schema of its arguments, an object; absent means no arguments.
    pub parameters: Option<Value>,
    pub strict: Option<bool>,
}

/// OpenAI's `tool_choice`.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolChoice {
    Mode(ToolMode),
    Pick(ToolPick),
}

/// Whether the model may, must or must not call tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    None,
    Auto,
    Required,
}

/// A [`ToolChoice`] that names tools.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct ToolPick {
    #[serde(rename = "type")]
    pub kind: PickKind,
    /// The model must call this one.
    pub function: Option<ToolName>,
    /// The model may call only these.
    pub allowed_tools: Option<AllowedTools>,
}

/// The `type` of a [`ToolPick`]: which of its fields there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PickKind {
    Function,
    AllowedTools,
}

/// A tool, by its name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct ToolName {
    pub name: String,
}

/// The tools that the model may call, or of which it must call one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct AllowedTools {
    pub mode: ToolMode,
    pub tools: Vec<AllowedTool>,
}

/// One of [`AllowedTools`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct AllowedTool {
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: String,
    pub function: ToolName,
}

impl<'de> Deserialize<'de> for ToolChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;

        impl<'de> Visitor<'de> for Choice {
            type Value = ToolChoice;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(
                    "\"none\", \"auto\", \"required\", {type: \"function\", function: {name: …}} \
                     or {type: \"allowed_tools\", allowed_tools: {mode: …, tools: […]}}",
                )
            }

            fn visit_str<E: serde::de::Error>(self, mode: &str) -> Result<ToolChoice, E> {
                let mode = ToolMode::deserialize(StrDeserializer::<E>::new(mode));
                mode.map(ToolChoice::Mode)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolChoice, A::Error> {
                ToolPick::deserialize(MapAccessDeserializer::new(map)).map(ToolChoice::Pick)
            }
        }
        deserializer.deserialize_any(Choice)
    }
}

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// 1 to 64 letters, digits, `_` and `-`; unique among the tools.
    pub name: String,
    pub description: Option<String>,
    /// A JSON schema of an object.
    pub parameters: Option<Map<String, Value>>,
    /// Whether the arguments are constrained to that schema even if no call is required.
    pub strict: bool,
    /// Whether the arguments of required calls are constrained to that schema: always if the tool is
    /// strict, otherwise if the schema can be enforced.
    pub enforceable: bool,
    /// Whether `tool_choice` allows it to be called.
    pub callable: bool,
}

/// A request's tools and how they may be called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tools {
    /// The tools passed to the chat template; empty if none may be called.
    pub list: Vec<Tool>,
    /// Whether the answer must consist of tool calls only.
    pub required: bool,
    /// Whether the answer may have at most one call.
    pub single: bool,
    /// The JSON schema of an answer without calls (`response_format`).
    pub content: Option<Value>,
}

impl Tools {
    /// Checks the three parameters.
    pub(super) fn read(
        tools: Option<Vec<RequestTool>>,
        choice: Option<ToolChoice>,
        parallel: Option<bool>,
    ) -> Result<Tools> {
        let tools = tools.unwrap_or_default();
        if tools.len() > MAX_TOOLS {
            return Err(invalid("tools", format!("{} tools", tools.len()), "at most 128"));
        }
        let mut list: Vec<Tool> = Vec::new();
        for (i, tool) in tools.into_iter().enumerate() {
            let tool = Tool::read(&format!("tools[{i}]"), tool)?;
            if list.iter().any(|other| other.name == tool.name) {
                let param = format!("tools[{i}].function.name");
                return Err(invalid(param, format!("{:?} again", tool.name), "another name"));
            }
            list.push(tool);
        }
        let single = parallel == Some(false);
        let mut tools = Tools { list, required: false, single, content: None };
        match choice {
            None | Some(ToolChoice::Mode(ToolMode::Auto)) => {}
            Some(ToolChoice::Mode(ToolMode::None)) => return Ok(Tools::default()),
            Some(ToolChoice::Mode(ToolMode::Required)) => tools.required = true,
            Some(ToolChoice::Pick(ToolPick { kind, function, allowed_tools })) => {
                match (kind, function, allowed_tools) {
                    (PickKind::Function, Some(function), None) => {
                        tools.allow(&[function], |_| "tool_choice.function.name".into())?;
                        (tools.required, tools.single) = (true, true);
                    }
                    (PickKind::AllowedTools, None, Some(allowed)) => tools.allow_some(allowed)?,
                    (kind, ..) => {
                        let field = match kind {
                            PickKind::Function => "function",
                            PickKind::AllowedTools => "allowed_tools",
                        };
                        let expected = format!("{field} and nothing else beside the type");
                        return Err(invalid("tool_choice", "other fields", &expected));
                    }
                }
            }
        }
        if tools.required && tools.callable().next().is_none() {
            return Err(invalid("tool_choice", "a choice of tools", "none unless there are tools"));
        }
        Ok(tools)
    }

    /// The tools that may be called.
    pub fn callable(&self) -> impl Iterator<Item = &Tool> {
        self.list.iter().filter(|tool| tool.callable)
    }

    /// Whether calls are constrained to their tools' schemas.
    pub fn constrain(&self) -> bool {
        self.required || self.content.is_some() || self.callable().any(|tool| tool.strict)
    }

    /// The same tools, of which only strict ones are held to their schemas.
    pub fn loosened(&self) -> Tools {
        let mut loose = self.clone();
        loose.list.iter_mut().for_each(|tool| tool.enforceable = tool.strict);
        loose
    }

    /// Allows some tools, of which one must be called if the mode says so.
    fn allow_some(&mut self, allowed: AllowedTools) -> Result<()> {
        let AllowedTools { mode, tools } = allowed;
        for (i, AllowedTool { kind, .. }) in tools.iter().enumerate() {
            if kind != "function" {
                let param = format!("tool_choice.allowed_tools.tools[{i}].type");
                return Err(invalid(param, format!("{kind:?}"), "\"function\""));
            }
        }
        let names: Vec<ToolName> = tools.into_iter().map(|tool| tool.function).collect();
        self.allow(&names, |i| format!("tool_choice.allowed_tools.tools[{i}]"))?;
        match mode {
            ToolMode::Auto => {}
            ToolMode::Required => self.required = true,
            ToolMode::None => {
                let param = "tool_choice.allowed_tools.mode";
                return Err(invalid(param, "\"none\"", "\"auto\" or \"required\""));
            }
        }
        Ok(())
    }

    fn allow(&mut self, names: &[ToolName], param: impl Fn(usize) -> String) -> Result<()> {
        let known = |name: &ToolName| self.list.iter().any(|tool| tool.name == name.name);
        if let Some((i, ToolName { name })) =
            names.iter().enumerate().find(|(_, name)| !known(name))
        {
            return Err(invalid(param(i), format!("{name:?}"), "the name of one of the tools"));
        }
        for tool in &mut self.list {
            tool.callable = names.iter().any(|name| name.name == tool.name);
        }
        Ok(())
    }
}

impl Tool {
    fn read(at: &str, tool: RequestTool) -> Result<Tool> {
        let RequestTool { kind, function } = tool;
        let RequestFunction { name, description, parameters, strict } = function;
        if kind != "function" {
            return Err(invalid(format!("{at}.type"), format!("{kind:?}"), "\"function\""));
        }
        check_name(&format!("{at}.function.name"), &name)?;
        let param = format!("{at}.function.parameters");
        let parameters = match parameters {
            None => None,
            Some(Value::Object(schema)) => Some(schema),
            Some(_) => return Err(invalid(param, "no object", "a JSON schema of an object")),
        };
        let strict = strict.unwrap_or(false);
        let checked = parameters.as_ref().map_or(Ok(()), |schema| enforceable(&param, schema));
        if strict {
            checked.clone()?;
        } else if let Some(schema) = &parameters {
            tabloom_grammar::check_size(schema).map_err(|error| refused(&param, error))?;
        }
        let enforceable = checked.is_ok();
        Ok(Tool { name, description, parameters, strict, enforceable, callable: true })
    }

    /// Whether the arguments of calls are constrained to `parameters`.
    pub fn is_held(&self, required: bool) -> bool {
        self.strict || required && self.enforceable
    }
}

/// Whether arguments can be constrained to a schema.
fn enforceable(param: &str, schema: &Map<String, Value>) -> Result<()> {
    let form = Form::JsonSchema(Value::Object(schema.clone()));
    form.check().map_err(|error| refused(param, error))?;
    match schema.get("type").filter(|kind| *kind != "object") {
        None => Ok(()),
        Some(kind) => Err(invalid(format!("{param}.type"), kind, "\"object\"")),
    }
}

fn refused(param: &str, error: tabloom_grammar::Error) -> Error {
    let param = format!("{param}{}", error.path);
    Error::InvalidRequest { param, message: error.message }
}

/// Checks the name of a function.
pub(super) fn check_name(param: &str, name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match (1..=MAX_NAME).contains(&name.len()) && name.chars().all(allowed) {
        true => Ok(()),
        false => {
            let name: String = name.chars().take(2 * MAX_NAME).collect();
            Err(invalid(param, format!("{name:?}"), "1 to 64 letters, digits, _ and -"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{ChatCompletionRequest, ChatRequest};

    /// A request with two tools, `add` and `get_time`, and more fields.
    fn with(fields: Value) -> Result<ChatRequest> {
        let tool = |name: &str| json!({ "type": "function", "function": { "name": name } });
        let mut request = json!({
            "messages": [{ "role": "user", "content": "hi" }],
            "tools": [tool("add"), tool("get_time")],
        });
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        ChatCompletionRequest::read(&request)?.validate()
    }

    /// One tool with these fields of its function.
    fn function(fields: Value) -> Value {
        let mut function = json!({ "name": "f" });
        function.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({ "tools": [{ "type": "function", "function": function }] })
    }

    #[test]
    fn a_choice_says_which_tools_are_called() {
        let named = |name: &str| json!({ "type": "function", "function": { "name": name } });
        let allowed = |mode: &str| {
            let tools = [named("get_time")];
            json!({ "type": "allowed_tools", "allowed_tools": { "mode": mode, "tools": tools } })
        };
        let all: &[&str] = &["add", "get_time"];
        for (choice, callable, required, single) in [
            (json!(null), all, false, false),
            (json!("auto"), all, false, false),
            (json!("required"), all, true, false),
            (named("add"), &["add"], true, true),
            (allowed("auto"), &["get_time"], false, false),
            (allowed("required"), &["get_time"], true, false),
        ] {
            let tools = with(json!({ "tool_choice": choice })).unwrap().conversation.tools;
            let found: Vec<&str> = tools.callable().map(|tool| tool.name.as_str()).collect();
            assert_eq!(
                (found, tools.required, tools.single),
                (callable.to_vec(), required, single)
            );
            assert_eq!((tools.list.len(), tools.constrain()), (2, required), "{choice}");
        }
        let none = with(json!({ "tool_choice": "none", "parallel_tool_calls": true })).unwrap();
        assert_eq!(none.conversation.tools, Tools::default());
        let one = with(json!({ "parallel_tool_calls": false })).unwrap().conversation.tools;
        assert!(one.single && !one.required);
        let none = with(json!({ "tools": [], "tool_choice": "auto" })).unwrap();
        assert_eq!(none.conversation.tools, Tools::default());
    }

    #[test]
    fn a_function_is_read_as_a_whole() {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
        let fields = json!({ "description": "Adds.", "parameters": schema, "strict": true });
        let tools = with(function(fields)).unwrap().conversation.tools;
        let tool = Tool {
            name: "f".into(),
            description: Some("Adds.".into()),
            parameters: schema.as_object().cloned(),
            strict: true,
            enforceable: true,
            callable: true,
        };
        assert!(tools.constrain());
        assert_eq!(tools.list, [tool]);
    }

    #[test]
    fn a_tool_that_is_not_strict_is_never_refused_for_its_schema() {
        let deep = (0..40).fold(json!({}), |schema, _| json!({ "properties": { "a": schema } }));
        for (property, enforceable) in [
            (json!({ "type": "object", "propertyNames": { "pattern": "^(?!a)" } }), false),
            (json!({ "type": "array", "uniqueItems": true }), false),
            (json!({ "not": { "const": 1 } }), false),
            (json!({ "not": { "type": "string" } }), true),
            (json!({ "type": "integer", "format": "uint32" }), true),
            (json!({ "type": "string", "format": "phone" }), false),
            (json!({ "type": "string", "pattern": "^(?=a)b" }), false),
            (json!({ "minimum": -9223372036854775808_i64 }), true),
            (json!({ "const": 18446744073709551615_u64 }), false),
            (json!({ "$ref": "#/paths/~1a~1{b}/get" }), false),
            (json!({ "$ref": "https://example.com/schema.json" }), false),
            (json!({ "$ref": "#/properties/a" }), false),
            (json!({ "$dynamicRef": "#node" }), false),
            (json!({ "type": "string", "x-order": 1, "nullable": true }), true),
            (json!({ "type": "text", "properties": [], "required": "a" }), false),
            (json!(5), false),
            (deep, true),
        ] {
            let schema = json!({ "type": "object", "properties": { "a": property } });
            let parameters = |strict: bool| {
                let fields = json!({ "parameters": schema, "strict": strict });
                let mut request = function(fields);
                request["tool_choice"] = json!("required");
                with(request).map(|request| request.conversation.tools.list[0].clone())
            };
            let tool = parameters(false).unwrap();
            assert_eq!(tool.parameters.as_ref(), schema.as_object());
            assert_eq!(tool.is_held(true), enforceable, "{schema}");
            assert!(!tool.is_held(false), "{schema}");
            assert_eq!(parameters(true).is_ok(), enforceable, "{schema}");
        }
        let whole = |parameters| with(function(json!({ "parameters": parameters })));
        for wrong in [json!({ "type": "array" }), json!({ "type": ["object", "null"] })] {
            let tools = whole(wrong).unwrap().conversation.tools;
            assert!(!tools.list[0].is_held(true));
        }
        let endless = (0..100).fold(json!({}), |schema, _| json!({ "not": [schema] }));
        for (hostile, found) in
            [(endless, "deeper nesting"), (json!({ "description": "x".repeat(1 << 16) }), "bytes")]
        {
            let refused = whole(hostile).unwrap_err().to_string();
            assert!(refused.contains(found), "{refused}");
        }
    }

    #[test]
    fn errors_name_the_path_of_the_parameter() {
        let named = json!({ "type": "function", "function": { "name": "subtract" } });
        let same = json!({ "type": "function", "function": { "name": "f" } });
        let many: Vec<Value> = (0..129)
            .map(|i| json!({ "type": "function", "function": { "name": format!("f{i}") } }))
            .collect();
        for (fields, param, found) in [
            (json!({ "tools": [same, same] }), "tools[1].function.name", "again"),
            (json!({ "tools": many }), "tools", "129"),
            (function(json!({ "name": "a b" })), "tools[0].function.name", "a b"),
            (function(json!({ "name": "" })), "tools[0].function.name", "\"\""),
            (function(json!({ "name": "x".repeat(65) })), "tools[0].function.name", "xxx"),
            (function(json!({ "parameters": 5 })), "tools[0].function.parameters", "no object"),
            (
                function(json!({ "strict": true, "parameters": { "type": "array" } })),
                "tools[0].function.parameters.type",
                "array",
            ),
            (
                function(json!({
                    "strict": true, "parameters": { "properties": { "a": { "minimum": "x" } } },
                })),
                "tools[0].function.parameters.properties.a.minimum",
                "\"x\"",
            ),
            (function(json!({ "returns": {} })), "tools[0].function.returns", "returns"),
            (json!({ "tools": [{ "type": "web_search" }] }), "tools[0]", "function"),
            (json!({ "tools": [5] }), "tools[0]", "an object"),
            (
                json!({ "tools": [{ "type": "custom", "function": { "name": "f" } }] }),
                "tools[0].type",
                "custom",
            ),
            (json!({ "tool_choice": "always" }), "tool_choice", "expected"),
            (json!({ "tool_choice": named }), "tool_choice.function.name", "subtract"),
            (
                json!({ "tool_choice": { "type": "function", "function": { "name": 5 } } }),
                "tool_choice.function.name",
                "5",
            ),
            (json!({ "tool_choice": { "type": "function" } }), "tool_choice", "function"),
            (json!({ "tool_choice": { "type": "tool" } }), "tool_choice.type", "tool"),
            (
                json!({ "tool_choice": { "type": "function", "name": "add" } }),
                "tool_choice.name",
                "name",
            ),
            (
                json!({ "tool_choice": { "type": "allowed_tools", "allowed_tools":
                    { "mode": "auto", "tools": [named] } } }),
                "tool_choice.allowed_tools.tools[0]",
                "subtract",
            ),
            (
                json!({ "tool_choice": { "type": "allowed_tools", "allowed_tools":
                    { "mode": "any", "tools": [] } } }),
                "tool_choice.allowed_tools.mode",
                "any",
            ),
            (
                json!({ "response_format": { "type": "json_schema", "json_schema":
                    { "name": 5, "schema": {} } } }),
                "response_format.json_schema.name",
                "5",
            ),
            (
                json!({ "response_format": { "type": "json_object", "strict": true } }),
                "response_format.strict",
                "strict",
            ),
            (json!({ "tools": [], "tool_choice": "required" }), "tool_choice", "unless there are"),
            (json!({ "parallel_tool_calls": 1 }), "parallel_tool_calls", "1"),
            (
                json!({ "structured_outputs": { "regex": "a" } }),
                "structured_outputs.regex",
                "beside tools",
            ),
            (
                json!({ "tool_choice": "required", "thinking_token_budget": 5 }),
                "thinking_token_budget",
                "5",
            ),
            (
                json!({ "chat_template_kwargs": { "messages": [] } }),
                "chat_template_kwargs.messages",
                "",
            ),
            (json!({ "chat_template_kwargs": 5 }), "chat_template_kwargs", "5"),
            (json!({ "reasoning_effort": "much" }), "reasoning_effort", "much"),
        ] {
            match with(fields.clone()) {
                Err(Error::InvalidRequest { param: at, message }) => {
                    assert_eq!(at, param, "{fields}: {message}");
                    assert!(message.contains(found), "{fields}: {message}");
                }
                other => panic!("{fields}: {other:?}"),
            }
        }
    }

    #[test]
    fn template_variables_come_from_the_request_and_its_reasoning_effort() {
        for (fields, variables) in [
            (json!({}), json!({})),
            (json!({ "reasoning_effort": "low" }), json!({ "reasoning_effort": "low" })),
            (json!({ "reasoning_effort": "none" }), json!({ "enable_thinking": false })),
            (
                json!({ "reasoning_effort": "none", "chat_template_kwargs":
                    { "enable_thinking": true, "x": [1] } }),
                json!({ "enable_thinking": true, "x": [1] }),
            ),
        ] {
            assert_eq!(Value::from(with(fields).unwrap().conversation.variables), variables);
        }
    }
}
