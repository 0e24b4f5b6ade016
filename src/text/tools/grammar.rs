//! Grammars of answers that call tools, in llguidance's dialect of Lark.

use serde_json::{Map, Value, json};

use super::{
    dialect::{Arguments, Call, Dialect, Format, Notation},
    reading::{Reading, THINK, Thinking},
    values::Types,
};
use crate::api::{Form, Tool, Tools};

/// The grammar that a request's tools impose on the answer. If calls are required, it allows only
/// calls; if the content has a schema, calls or that; if a tool is strict, any text, and it constrains the
/// calls in it.
pub fn form(tools: &Tools, reading: &Reading) -> Option<Form> {
    let Some(dialect) = reading.dialect else {
        return tools.content.clone().map(Form::JsonSchema);
    };
    if !tools.constrain() {
        return None;
    }
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
        if self.dialect == Dialect::Harmony {
            return self.messages();
        }
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
        let body = match &self.tools.content {
            _ if self.tools.required => calls,
            Some(schema) => {
                rules.push(self.content(schema));
                format!("(content | {calls})")
            }
            None => self.free(&calls, &mut rules),
        };
        rules.insert(0, format!("start: {thought}{blank}{body}"));
        rules.push(r"ANY: /(.|\n)*/".into());
        let callable = self.tools.callable().enumerate();
        rules.extend(callable.flat_map(|(i, tool)| self.arguments(i, tool)));
        rules.push(r"KEY: /[A-Za-z0-9_-]+/".into());
        rules.join("\n") + "\n"
    }

    /// gpt-oss's messages: reasoning and preambles, then calls or the final answer.
    fn messages(&self) -> String {
        let [start, channel, constrain, message, end] =
            ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"]
                .map(|marker| self.token(marker));
        let mut rules = vec!["ANY: /(.|\\n)*/".to_owned()];
        let body = match self.special("<|end|>") {
            Some(_) => format!("ANY {end} {start} \"assistant\""),
            None => "body".into(),
        };
        if body == "body" {
            rules.push(self.until("body", "ANY", "<|end|><|start|>assistant"));
        }
        // A preamble to calls is content: there is none where that has a schema, or only calls are allowed.
        let is_held = self.tools.required || self.tools.content.is_some();
        let channels = if is_held { "" } else { " | \"commentary\"" };
        rules.push(format!("before: {channel} (\"analysis\"{channels}) {message} {body}"));
        let mut last = Vec::new();
        for (i, tool) in self.tools.callable().enumerate() {
            let to = literal(&format!("commentary to=functions.{} ", tool.name));
            rules.push(format!("args{i}: %json {}", self.schema(tool)));
            last.push(format!("{channel} {to} {constrain} \"json\" {message} args{i}"));
        }
        match &self.tools.content {
            _ if self.tools.required => {}
            Some(schema) => {
                rules.push(self.content(schema));
                last.push(format!("{channel} \"final\" {message} content"));
            }
            None => last.push(format!("{channel} \"final\" {message} ANY")),
        }
        rules.insert(0, format!("start: before* ({})", last.join(" | ")));
        rules.join("\n") + "\n"
    }

    /// The rule of an answer without calls that has a schema.
    fn content(&self, schema: &Value) -> String {
        format!("content: %json {}", self.spaced(schema.clone()))
    }

    /// Any text, then optional calls.
    fn free(&self, calls: &str, rules: &mut Vec<String>) -> String {
        let possible = self.reading.thinking == Thinking::Possible;
        // Text that starts with `<think>` is reasoning and has its own rule.
        let plain = if possible { r"ANY & ~/[ \n]*<think>(.|\n)*/" } else { "ANY" };
        rules.push(format!("TEXT: {plain}"));
        if self.dialect.bare() {
            rules.push(r"OTHER: /[^{ \n](.|\n)*/".into());
            return format!("(OTHER | {calls})?");
        }
        let marker = self.marker();
        if self.special(marker).is_some() {
            return format!("TEXT ({calls})?");
        }
        rules.push(self.until("head", "TEXT", marker));
        let first = self.call_behind_marker();
        let more = self.more();
        format!("(TEXT | head {first}{more})")
    }

    /// The marker before a call.
    fn marker(&self) -> &'static str {
        self.format().opens.first().unwrap_or(&"")
    }

    fn format(&self) -> &'static Format {
        self.dialect.format()
    }

    /// A rule for the text before a marker, and the marker.
    fn until(&self, name: &str, text: &str, marker: &str) -> String {
        match self.special(marker.trim()) {
            Some(_) => format!("{name}: {text} {}", self.texts(marker)),
            None => format!("{name}[lazy]: {text} {}", literal(marker)),
        }
    }

    /// One call, or several if allowed; appends the rules that it uses.
    fn calls(&self, rules: &mut Vec<String>) -> String {
        let tools: Vec<&Tool> = self.tools.callable().collect();
        let bodies = tools.iter().enumerate().map(|(i, tool)| match &self.format().call {
            Call::Object(key) => {
                let head = format!("{{\"name\": \"{}\", \"{key}\": ", tool.name);
                format!("{} args{i} {}", literal(&head), literal("}"))
            }
            Call::Named { before, after, end, .. } => {
                let before = if *before == self.marker() { "" } else { before };
                let head = self.texts(&format!("{before}{}{after}", tool.name));
                format!("{head} args{i} {}", self.texts(&end.concat()))
            }
        });
        rules.push(format!("body: {}", bodies.collect::<Vec<_>>().join(" | ")));
        match self.dialect.bare() {
            true => "body".into(),
            false => {
                let marker = self.token(self.marker());
                format!("{marker} {}{}", self.call_behind_marker(), self.more())
            }
        }
    }

    fn call_behind_marker(&self) -> String {
        let Format { bracketed, call, space, shared, separator, closes, .. } = self.format();
        let more = match *shared && !self.tools.single {
            true => format!(" ({} body)*", self.texts(separator)),
            false => String::new(),
        };
        let calls = match bracketed {
            true => format!("\"[\" body{more} \"]\""),
            false => format!("body{more}"),
        };
        let space = self.texts(space);
        match closes.first() {
            // Lists end by themselves.
            Some(close) if *bracketed && matches!(call, Call::Object(_)) => {
                format!("{calls} ({})?", self.token(close))
            }
            Some(close) => format!("{space} {calls} {space} {}", self.token(close)),
            None => calls,
        }
    }

    /// Further calls, each with its own marker.
    fn more(&self) -> String {
        let Format { shared, separator, .. } = self.format();
        if self.tools.single || *shared {
            return String::new();
        }
        let marker = self.token(self.marker());
        let call = self.call_behind_marker();
        format!(" ({} {marker} {call})*", self.texts(separator))
    }

    /// The rules of a tool's arguments.
    fn arguments(&self, i: usize, tool: &Tool) -> Vec<String> {
        let Call::Named { arguments: Arguments::Pairs { notation, .. }, .. } = &self.format().call
        else {
            return vec![format!("args{i}: %json {}", self.schema(tool))];
        };
        let separator = match notation {
            Notation::Plain => String::new(),
            Notation::Literal(separator) => format!("{} ", literal(separator)),
        };
        let mut rules = Vec::new();
        if !self.held(tool) {
            self.pair(&format!("arg{i}"), "KEY", None, &mut rules);
            rules.push(format!("args{i}: (arg{i} ({separator}arg{i})*)?"));
            return rules;
        }
        let Some(schema) = &tool.parameters else { return vec![format!("args{i}: \"\"")] };
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        let properties: Vec<_> = properties.into_iter().flatten().collect();
        // Of the arguments from number j on: `more` follow others, `args` are the first.
        let mut first = "\"\"".to_owned();
        let mut more = "\"\"".to_owned();
        for (j, (name, _)) in properties.iter().enumerate().rev() {
            let pair = format!("arg{i}_{j}");
            let typed = Typed { tool, schema, name };
            self.pair(&pair, &literal(name), Some(typed), &mut rules);
            let must = required.is_some_and(|names| names.iter().any(|must| must == name.as_str()));
            let [begins, follows] = [String::new(), separator.clone()]
                .map(|separator| format!("{separator}{pair} {more}"));
            let [begins, follows] = match must {
                true => [begins, follows],
                false => [format!("{begins} | {first}"), format!("{follows} | {more}")],
            };
            rules.push(format!("first{i}_{j}: {begins}"));
            rules.push(format!("more{i}_{j}: {follows}"));
            (first, more) = (format!("first{i}_{j}"), format!("more{i}_{j}"));
        }
        rules.push(format!("args{i}: {first}"));
        rules
    }

    /// The rules of an argument with this key.
    fn pair(&self, name: &str, key: &str, typed: Option<Typed>, rules: &mut Vec<String>) {
        let Call::Named { arguments: Arguments::Pairs { key: keys, value, notation }, .. } =
            &self.format().call
        else {
            return;
        };
        let [before, behind] = [keys[0].to_owned(), format!("{}{}", keys[1], value[0])];
        let head = format!("{} {key} {}", self.texts(&before), self.texts(&behind));
        let schema = typed.as_ref().map_or_else(Value::default, Typed::schema);
        let plain = *notation == Notation::Plain;
        let strings = typed.as_ref().is_none_or(Typed::only_strings);
        let value_rule = match schema["enum"].as_array() {
            Some(values) if plain && strings => {
                let words = values.iter().filter_map(Value::as_str).map(literal);
                let words = words.collect::<Vec<_>>().join(" | ");
                format!("{name}v: ({words}) {}", self.texts(value[1]))
            }
            _ if plain && strings => {
                // A reader ends the string here, whatever white space is around.
                let end = value[1].trim();
                let (_, rest) = value[1].split_once(end).unwrap_or_default();
                rules.push(self.until(&format!("{name}s"), "ANY", end));
                format!("{name}v: {name}s {}", self.texts(rest))
            }
            _ => {
                rules.push(format!("{name}j: %json {}", self.spaced(schema)));
                format!("{name}v: {name}j {}", self.texts(value[1]))
            }
        };
        rules.push(value_rule);
        rules.push(format!("{name}: {head} {name}v"));
    }

    /// Whether a tool's arguments are constrained to its schema.
    fn held(&self, tool: &Tool) -> bool {
        tool.is_held(self.tools.required)
    }

    /// A tool's schema with JSON whitespace as models are trained to write it.
    fn schema(&self, tool: &Tool) -> Value {
        let any = || Map::from_iter([("type".to_owned(), "object".into())]);
        let held = self.held(tool);
        let mut schema = match &tool.parameters {
            Some(schema) if held => schema.clone(),
            None if held => Map::from_iter(
                any().into_iter().chain([("additionalProperties".into(), false.into())]),
            ),
            _ => any(),
        };
        schema.entry("type").or_insert_with(|| "object".into());
        self.spaced(schema.into())
    }

    /// A schema with JSON whitespace as models are trained to write it.
    fn spaced(&self, schema: Value) -> Value {
        let mut schema = match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        let spacing =
            json!({ "item_separator": ", ", "key_separator": ": ", "whitespace_flexible": false });
        schema.insert("x-guidance".into(), spacing);
        schema.into()
    }

    /// The id of a special token: a grammar must refer to it by id, not by text.
    fn special(&self, text: &str) -> Option<u32> {
        self.reading.markers.iter().find(|(_, name)| *name == text).map(|(id, _)| *id)
    }

    /// A text that may have special tokens.
    fn texts(&self, text: &str) -> String {
        let markers = self.reading.markers.iter();
        let found = markers.filter_map(|(id, name)| Some((text.find(name)?, *id, name.len())));
        match found.min_by_key(|(at, _, len)| (*at, usize::MAX - len)) {
            Some((at, id, len)) => {
                let parts =
                    [self.texts(&text[..at]), format!("<[{id}]>"), self.texts(&text[at + len..])];
                parts.iter().filter(|part| *part != "\"\"").cloned().collect::<Vec<_>>().join(" ")
            }
            None => literal(text),
        }
    }

    fn token(&self, text: &str) -> String {
        self.special(text).map_or_else(|| literal(text), |id| format!("<[{id}]>"))
    }
}

/// A parameter of a tool.
struct Typed<'a> {
    tool: &'a Tool,
    /// The tool's schema.
    schema: &'a Map<String, Value>,
    name: &'a str,
}

impl Typed<'_> {
    fn only_strings(&self) -> bool {
        Types::of(Some(self.tool), self.name).only_strings()
    }

    /// The parameter's schema with the definitions that it may refer to; any value if it refers to others.
    fn schema(&self) -> Value {
        let mut schema = self.schema["properties"][self.name].clone();
        let text = schema.to_string();
        let defined = ["\"$ref\":\"#/$defs/", "\"$ref\":\"#/definitions/"];
        let defined: usize = defined.iter().map(|start| text.matches(start).count()).sum();
        if text.matches("\"$ref\"").count() != defined {
            return Value::default();
        }
        if let Some(object) = schema.as_object_mut()
            && defined > 0
        {
            for name in ["$defs", "definitions"] {
                let found = self.schema.get(name).map(|found| (name.to_owned(), found.clone()));
                object.extend(found);
            }
        }
        schema
    }
}

/// A text as a string literal of the grammar.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}
