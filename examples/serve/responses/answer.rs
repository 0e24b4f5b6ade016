//! A response that grows with a chat's answer, and the events that tell of it.

use serde_json::{Value, json};
use tabloom::{
    Error,
    api::{
        ChatCompletion, ChatCompletionChunk, ChoiceLogprobs, Delta, FinishReason, ToolCallDelta,
        Usage,
    },
};

/// What a response repeats of its request.
pub fn head(params: &Value) -> Value {
    let given = |name: &str, otherwise: Value| match &params[name] {
        Value::Null => otherwise,
        value => value.clone(),
    };
    json!({
        "object": "response",
        "background": false,
        "instructions": given("instructions", Value::Null),
        "max_output_tokens": given("max_output_tokens", Value::Null),
        "metadata": given("metadata", json!({})),
        "parallel_tool_calls": given("parallel_tool_calls", json!(true)),
        "previous_response_id": null,
        "reasoning": { "effort": params["reasoning"]["effort"], "summary": null },
        "store": false,
        "temperature": given("temperature", Value::Null),
        "text": { "format": match &params["text"]["format"] {
            Value::Null => json!({ "type": "text" }),
            format => format.clone(),
        } },
        "tool_choice": given("tool_choice", json!("auto")),
        "tools": given("tools", json!([])),
        "top_logprobs": given("top_logprobs", json!(0)),
        "top_p": given("top_p", Value::Null),
        "truncation": "disabled",
    })
}

/// A response whose items are written one after another: reasoning, a message, calls.
pub struct Answer {
    response: Value,
    id: String,
    output: Vec<Value>,
    /// Whether the last item is being written.
    open: bool,
    /// The number of the call that is being written.
    call: Option<usize>,
    events: Vec<Value>,
    told: u64,
}

impl Answer {
    /// The whole response.
    pub fn whole(head: Value, chat: ChatCompletion) -> Value {
        let mut answer = Answer::new(head, &chat.id, chat.created, &chat.model);
        let choice = chat.choices.into_iter().next();
        let reason = choice.as_ref().map(|choice| choice.finish_reason);
        if let Some(choice) = choice {
            let calls = choice.message.tool_calls.into_iter().enumerate();
            let delta = Delta {
                role: None,
                content: choice.message.content,
                reasoning_content: choice.message.reasoning_content,
                tool_calls: calls
                    .map(|(i, call)| {
                        let function = call.function;
                        ToolCallDelta::first(i, call.id, function.name, function.arguments)
                    })
                    .collect(),
            };
            answer.add(delta, choice.logprobs);
        }
        answer.end(reason, Some(chat.usage));
        answer.response
    }

    /// A response that begins with a chunk; its first events.
    pub fn begin(head: Value, chunk: &ChatCompletionChunk) -> Answer {
        let mut answer = Answer::new(head, &chunk.id, chunk.created, &chunk.model);
        for kind in ["created", "in_progress"] {
            answer.tell(kind, json!({ "response": answer.response }));
        }
        answer
    }

    fn new(mut response: Value, id: &str, created: u64, model: &str) -> Answer {
        let id = id.strip_prefix("chatcmpl-").unwrap_or(id).to_owned();
        for (name, value) in [
            ("id", json!(format!("resp_{id}"))),
            ("created_at", created.into()),
            ("model", model.into()),
            ("status", "in_progress".into()),
            ("error", Value::Null),
            ("incomplete_details", Value::Null),
            ("output", json!([])),
            ("usage", Value::Null),
        ] {
            response[name] = value;
        }
        let (output, events) = (Vec::new(), Vec::new());
        Answer { response, id, output, open: false, call: None, events, told: 0 }
    }

    /// The events since the last call.
    pub fn events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    /// Adds a piece.
    pub fn add(&mut self, delta: Delta, logprobs: Option<ChoiceLogprobs>) {
        if let Some(text) = delta.reasoning_content.filter(|text| !text.is_empty()) {
            let part = json!({ "type": "reasoning_text", "text": "" });
            self.begin_item("reasoning", "rs", json!({ "summary": [] }), Some(part));
            self.write(&text, None);
        }
        if let Some(text) = delta.content.filter(|text| !text.is_empty()) {
            self.begin_message();
            let logprobs = logprobs.map_or(json!([]), |logprobs| json!(logprobs.content));
            self.write(&text, Some(logprobs));
        }
        delta.tool_calls.into_iter().for_each(|call| self.add_call(call));
    }

    /// Ends the response.
    pub fn end(&mut self, reason: Option<FinishReason>, usage: Option<Usage>) {
        let cut = match reason {
            Some(FinishReason::Length) => Some("max_output_tokens"),
            Some(FinishReason::Repetition) => Some("repetition"),
            _ => None,
        };
        if self.output.is_empty() {
            // Without a word it is an empty message.
            self.begin_message();
        }
        let status = if cut.is_some() { "incomplete" } else { "completed" };
        self.close(status);
        self.response["incomplete_details"] =
            cut.map_or(Value::Null, |reason| json!({ "reason": reason }));
        self.response["usage"] = usage.map_or(Value::Null, |usage| {
            json!({
                "input_tokens": usage.prompt_tokens,
                "input_tokens_details": usage.prompt_tokens_details,
                "output_tokens": usage.completion_tokens,
                "output_tokens_details": usage.completion_tokens_details,
                "total_tokens": usage.total_tokens,
            })
        });
        self.last(status);
    }

    /// Ends the response after a failure.
    pub fn fail(&mut self, error: &Error) {
        let wire = error.to_wire();
        self.response["error"] = json!({ "code": wire.code, "message": wire.message });
        self.last("failed");
    }

    fn last(&mut self, status: &str) {
        self.response["status"] = status.into();
        self.response["output"] = self.output.clone().into();
        self.tell(status, json!({ "response": self.response }));
    }

    fn begin_message(&mut self) {
        let part = json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] });
        self.begin_item("message", "msg", json!({ "role": "assistant" }), Some(part));
    }

    /// Goes on with the item's text; `logprobs` are a message's.
    fn write(&mut self, delta: &str, logprobs: Option<Value>) {
        let Some(item) = self.output.last_mut() else { return };
        let part = &mut item["content"][0];
        append(&mut part["text"], delta);
        let mut fields = json!({ "content_index": 0, "delta": delta });
        if let Some(logprobs) = logprobs {
            if let (Value::Array(all), Value::Array(more)) = (&mut part["logprobs"], &logprobs) {
                all.extend_from_slice(more);
            }
            fields["logprobs"] = logprobs;
        }
        let kind = format!("{}.delta", part["type"].as_str().unwrap_or_default());
        self.tell_of_item(&kind, fields);
    }

    fn add_call(&mut self, call: ToolCallDelta) {
        if self.call != Some(call.index) {
            self.close("completed");
            self.call = Some(call.index);
        }
        let fields = json!({ "call_id": call.id, "name": call.function.name, "arguments": "" });
        self.begin_item("function_call", "fc", fields, None);
        let delta = call.function.arguments;
        if let Some(item) = self.output.last_mut().filter(|_| !delta.is_empty()) {
            append(&mut item["arguments"], &delta);
            self.tell_of_item("function_call_arguments.delta", json!({ "delta": delta }));
        }
    }

    /// Begins an item, unless one of its type is being written. `part` is its content.
    fn begin_item(&mut self, kind: &str, prefix: &str, fields: Value, part: Option<Value>) {
        if self.open && self.output.last().is_some_and(|item| item["type"] == kind) {
            return;
        }
        self.close("completed");
        let id = format!("{prefix}_{}_{}", self.id, self.output.len());
        let mut item = json!({ "id": id, "type": kind, "status": "in_progress" });
        if let (Value::Object(item), Value::Object(fields)) = (&mut item, fields) {
            item.extend(fields);
        }
        if part.is_some() {
            item["content"] = json!([]);
        }
        self.tell("output_item.added", json!({ "output_index": self.output.len(), "item": item }));
        if let Some(part) = &part {
            item["content"] = json!([part]);
        }
        self.output.push(item);
        self.open = true;
        if let Some(part) = part {
            self.tell_of_item("content_part.added", json!({ "content_index": 0, "part": part }));
        }
    }

    /// Ends the item that is being written.
    fn close(&mut self, status: &str) {
        let Some(item) = self.output.last_mut().filter(|_| self.open) else { return };
        self.open = false;
        item["status"] = status.into();
        let item = item.clone();
        match item.get("content") {
            Some(content) => {
                let part = &content[0];
                let mut fields = json!({ "content_index": 0, "text": part["text"] });
                if let Some(logprobs) = part.get("logprobs") {
                    fields["logprobs"] = logprobs.clone();
                }
                let kind = format!("{}.done", part["type"].as_str().unwrap_or_default());
                self.tell_of_item(&kind, fields);
                self.tell_of_item("content_part.done", json!({ "content_index": 0, "part": part }));
            }
            None => {
                let fields = json!({ "name": item["name"], "arguments": item["arguments"] });
                self.tell_of_item("function_call_arguments.done", fields);
            }
        }
        let last = self.output.len() - 1;
        self.tell("output_item.done", json!({ "output_index": last, "item": item }));
    }

    /// An event about the last item.
    fn tell_of_item(&mut self, kind: &str, mut fields: Value) {
        if let Some(item) = self.output.last() {
            fields["item_id"] = item["id"].clone();
            fields["output_index"] = (self.output.len() - 1).into();
        }
        self.tell(kind, fields);
    }

    fn tell(&mut self, kind: &str, mut fields: Value) {
        fields["type"] = format!("response.{kind}").into();
        fields["sequence_number"] = self.told.into();
        self.told += 1;
        self.events.push(fields);
    }
}

fn append(text: &mut Value, more: &str) {
    if let Value::String(text) = text {
        text.push_str(more);
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use tabloom::api::{FunctionDelta, Responder};

    use super::*;

    #[derive(Deserialize)]
    struct Golden {
        deltas: Vec<Value>,
        finish: String,
        events: Vec<String>,
        output: Value,
    }

    fn first_chunk() -> ChatCompletionChunk {
        let (id, model) = ("chatcmpl-1".into(), "m".into());
        Responder { id, created: 5, model, index: 0, include_usage: true }.start()
    }

    fn delta(wire: &Value) -> Delta {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let calls = wire["tool_calls"].as_array().into_iter().flatten().map(|call| ToolCallDelta {
            index: call["index"].as_u64().unwrap() as usize,
            id: text(&call["id"]),
            kind: None,
            function: FunctionDelta {
                name: text(&call["function"]["name"]),
                arguments: text(&call["function"]["arguments"]).unwrap(),
            },
        });
        Delta {
            role: None,
            content: text(&wire["content"]),
            reasoning_content: text(&wire["reasoning_content"]),
            tool_calls: calls.collect(),
        }
    }

    #[test]
    fn answers_become_responses_and_their_events() {
        let text = include_str!("../../../tests/goldens/responses.json");
        let mut goldens: Value = serde_json::from_str(text).unwrap();
        let goldens: Vec<Golden> = serde_json::from_value(goldens["answers"].take()).unwrap();
        for golden in goldens {
            let head = head(&json!({ "input": "a", "metadata": { "c": "d" } }));
            let mut answer = Answer::begin(head, &first_chunk());
            for wire in &golden.deltas {
                answer.add(delta(wire), None);
            }
            let reason = match golden.finish.as_str() {
                "stop" => FinishReason::Stop,
                "length" => FinishReason::Length,
                "tool_calls" => FinishReason::ToolCalls,
                other => panic!("{other}"),
            };
            answer.end(Some(reason), Some(Usage::new(3, 1, 2)));
            let events = answer.events();
            let kinds: Vec<_> =
                events.iter().map(|event| event["type"].as_str().unwrap()).collect();
            let expected: Vec<_> =
                golden.events.iter().map(|kind| format!("response.{kind}")).collect();
            assert_eq!(kinds, expected);
            for (i, event) in events.iter().enumerate() {
                assert_eq!(event["sequence_number"], i);
            }
            let response = &events.last().unwrap()["response"];
            assert_eq!(response["output"], golden.output);
            assert_eq!(response["metadata"], json!({ "c": "d" }));
            assert_eq!((&response["id"], &response["created_at"]), (&json!("resp_1"), &json!(5)));
            assert_eq!(response["usage"]["input_tokens_details"], json!({ "cached_tokens": 1 }));
        }
    }

    #[test]
    fn a_failure_is_the_last_event() {
        let mut answer = Answer::begin(head(&json!({})), &first_chunk());
        answer.add("Par".into(), None);
        answer.fail(&Error::Closed);
        let events = answer.events();
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.failed");
        assert_eq!(last["response"]["error"]["code"], "closed");
        assert_eq!(last["response"]["output"][0]["content"][0]["text"], "Par");
    }
}
