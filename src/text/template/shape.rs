//! The shape in which a template takes messages, found out by rendering small conversations.

use minijinja::value::Serde;
use serde_json::{Value, json};

use super::json::dumps;

const NEEDLE: &str = "probe_value";

/// How a template wants what OpenAI's API leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shape {
    /// Content is a list of parts.
    parts: bool,
    /// An absent content is an empty text.
    empty: bool,
    /// Arguments of calls are JSON text.
    text_arguments: bool,
}

impl Shape {
    /// The shape in which `render` loses nothing. It takes messages and tools, and gives nothing on an error.
    pub fn find(render: impl Fn(&[Value], &[Value]) -> Option<String>) -> Shape {
        let shows = |shape: &Shape, messages: &[Value], tools: &[Value]| {
            // What a template does not know how to write comes out as Python prints it.
            let printed = format!("{{'probe_key': '{NEEDLE}'}}");
            render(&shape.apply(messages), tools).is_some_and(|text| {
                text.contains(NEEDLE)
                    && !text.contains(&printed)
                    && !text.contains("'type': 'text'")
            })
        };
        let user = |content: &str| json!({ "role": "user", "content": content });
        let listed = Shape { parts: true, ..Shape::default() };
        let lost = !shows(&Shape::default(), &[user(NEEDLE)], &[]);
        let parts = lost && shows(&listed, &[user(NEEDLE)], &[]);
        let call = json!({ "id": "probe1234", "type": "function", "function": {
            "name": "probe", "arguments": { "probe_key": NEEDLE },
        }});
        let called = [
            user("Hi"),
            json!({ "role": "assistant", "content": null, "tool_calls": [call] }),
            json!({ "role": "tool", "tool_call_id": "probe1234", "name": "probe", "content": "1" }),
        ];
        let string = json!({ "type": "string" });
        let tool = json!({ "type": "function", "function": {
            "name": "probe",
            "description": "Probes.",
            "parameters": { "type": "object", "properties": { "probe_key": string } },
        }});
        let shapes = [(false, false), (true, false), (false, true), (true, true)]
            .map(|(empty, text_arguments)| Shape { parts, empty, text_arguments });
        let tools = std::slice::from_ref(&tool);
        let renders = |shape: &&Shape| render(&shape.apply(&called), tools).is_some();
        let fits = shapes.iter().find(|shape| shows(shape, &called, tools));
        fits.or_else(|| shapes.iter().find(renders)).copied().unwrap_or(shapes[0])
    }

    /// Messages in this shape. What a message does not have is absent, not null.
    pub fn apply(&self, messages: &[Value]) -> Vec<Value> {
        let mut messages = messages.to_vec();
        for message in messages.iter_mut().filter_map(Value::as_object_mut) {
            match message.get_mut("content") {
                Some(content @ Value::String(_)) if self.parts => {
                    *content = json!([{ "type": "text", "text": content.take() }]);
                }
                Some(content @ Value::Null) if self.empty => *content = "".into(),
                Some(Value::Null) => drop(message.shift_remove("content")),
                _ => {}
            }
            let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
            for call in calls.into_iter().flatten().filter(|_| self.text_arguments) {
                let arguments = &mut call["function"]["arguments"];
                let text = dumps(&minijinja::Value::from(Serde(&*arguments)));
                *arguments = text.map_or(Value::Null, Value::from);
            }
        }
        messages
    }
}
