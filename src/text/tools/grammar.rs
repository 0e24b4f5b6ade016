//! Grammars of answers that call tools, in llguidance's dialect of Lark.

use serde_json::{Map, Value, json};

use super::{
    dialect::Dialect,
    reader::{Reading, THINK, Thinking},
};
use crate::api::{Form, Tool, Tools};

/// The grammar that a request's tools impose on the answer. If calls are required, it allows only
/// calls; if a tool is strict, it allows any text and constrains the calls in it.
pub fn form(tools: &Tools, reading: &Reading) -> Option<Form> {
    let dialect = reading.dialect.filter(|_| tools.constrain())?;
    let grammar = Grammar { dialect, tools, reading };
    Some(Form::Grammar(grammar.write()))
}

struct Grammar<'a> {
    dialect: Dialect,
    tools: &'a Tools,
    reading: &'a Reading,
}

impl Grammar<'_> {
    fn write(&self) -> String {
        let mut rules = Vec::new();
        let thought = match self.reading.thinking {
            Thinking::Never => "",
            Thinking::Possible => {
                rules.push(format!("thought: {} past", self.token(THINK[0])));
                "thought? "
            }
            Thinking::Begun | Thinking::Amid => {
                rules.push("thought: past".into());
                "thought "
            }
        };
        if !thought.is_empty() {
            rules.push(self.until("past", "ANY", THINK[1]));
            rules.push(r"blank: /[ \n]{0,4}/".into());
        }
        let blank = if thought.is_empty() { "" } else { "blank " };
        let calls = self.calls(&mut rules);
        let body = if self.tools.required { calls } else { self.free(&calls, &mut rules) };
        rules.insert(0, format!("start: {thought}{blank}{body}"));
        rules.push(r"ANY: /(.|\n)*/".into());
        let callable = self.tools.callable().enumerate();
        rules.extend(callable.map(|(i, tool)| format!("args{i}: %json {}", self.schema(tool))));
        rules.join("\n") + "\n"
    }

    /// Any text, then optional calls.
    fn free(&self, calls: &str, rules: &mut Vec<String>) -> String {
        let possible = self.reading.thinking == Thinking::Possible;
        // Text that starts with `<think>` is reasoning and has its own rule.
        let plain = if possible { r"ANY & ~/[ \n]*<think>(.|\n)*/" } else { "ANY" };
        rules.push(format!("TEXT: {plain}"));
        let marker = self.dialect.marker();
        if self.dialect == Dialect::Llama {
            rules.push(r"OTHER: /[^{ \n](.|\n)*/".into());
            return format!("(OTHER | {calls})?");
        }
        if self.special(marker).is_some() {
            return format!("TEXT ({calls})?");
        }
        rules.push(self.until("head", "TEXT", marker));
        let first = self.call_behind_marker();
        let more = self.more();
        format!("(TEXT | head {first}{more})")
    }

    /// A rule for the text before a marker, and the marker.
    fn until(&self, name: &str, text: &str, marker: &str) -> String {
        match self.special(marker) {
            Some(id) => format!("{name}: {text} <[{id}]>"),
            None => format!("{name}[lazy]: {text} {}", literal(marker)),
        }
    }

    /// One call, or several if allowed; appends the rules that it uses.
    fn calls(&self, rules: &mut Vec<String>) -> String {
        let bodies = self.tools.callable().enumerate().map(|(i, tool)| match self.dialect {
            Dialect::MistralNamed => {
                format!("{} {} args{i}", literal(&tool.name), self.token("[ARGS]"))
            }
            dialect => {
                let key = dialect.arguments();
                let head = format!("{{\"name\": \"{}\", \"{key}\": ", tool.name);
                format!("{} args{i} {}", literal(&head), literal("}"))
            }
        });
        rules.push(format!("body: {}", bodies.collect::<Vec<_>>().join(" | ")));
        match self.dialect {
            Dialect::Llama => "body".into(),
            dialect => {
                let marker = self.token(dialect.marker());
                format!("{marker} {}{}", self.call_behind_marker(), self.more())
            }
        }
    }

    fn call_behind_marker(&self) -> String {
        match self.dialect {
            Dialect::Hermes => {
                let end = self.token("</tool_call>");
                format!("{} body {} {end}", literal("\n"), literal("\n"))
            }
            dialect if dialect.lists() => {
                let more = if self.tools.single { "" } else { "(\", \" body)* " };
                format!("\"[\" body {more}\"]\"")
            }
            _ => "body".into(),
        }
    }

    /// Further calls, each with its own marker.
    fn more(&self) -> String {
        if self.tools.single {
            return String::new();
        }
        let marker = self.token(self.dialect.marker());
        let call = self.call_behind_marker();
        match self.dialect {
            Dialect::Hermes => format!(" ({} {marker} {call})*", literal("\n")),
            Dialect::MistralNamed => format!(" ({marker} {call})*"),
            Dialect::Llama | Dialect::Mistral | Dialect::Listed => String::new(),
        }
    }

    /// A tool's schema with JSON whitespace as models are trained to write it.
    fn schema(&self, tool: &Tool) -> Value {
        let any = || Map::from_iter([("type".to_owned(), "object".into())]);
        let mut schema = match &tool.parameters {
            Some(schema) if tool.is_held(self.tools.required) => schema.clone(),
            None if self.tools.required || tool.strict => Map::from_iter(
                any().into_iter().chain([("additionalProperties".into(), false.into())]),
            ),
            _ => any(),
        };
        schema.entry("type").or_insert_with(|| "object".into());
        let spacing =
            json!({ "item_separator": ", ", "key_separator": ": ", "whitespace_flexible": false });
        schema.insert("x-guidance".into(), spacing);
        schema.into()
    }

    /// The id of a special token: a grammar must refer to it by id, not by text.
    fn special(&self, text: &str) -> Option<u32> {
        self.reading.markers.iter().find(|(_, name)| *name == text).map(|(id, _)| *id)
    }

    fn token(&self, text: &str) -> String {
        self.special(text).map_or_else(|| literal(text), |id| format!("<[{id}]>"))
    }
}

/// A text as a string literal of the grammar.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}
