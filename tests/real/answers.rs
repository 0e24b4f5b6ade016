//! Turns with tool calls that published templates wrote are read back as the calls that were given.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use tabloom::api::Tool;
use tabloom::text::{Dialect, Kind, Part, Reader, Reading, Span, Thinking};

use super::files::real;

#[derive(Deserialize)]
struct Golden {
    tools: Vec<Value>,
    templates: Vec<Turns>,
}

#[derive(Deserialize)]
struct Turns {
    template: String,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    text: String,
    #[serde(default)]
    begins: bool,
    #[serde(default)]
    calls: Vec<(String, Value)>,
    #[serde(default)]
    content: String,
    #[serde(default)]
    reasoning: String,
}

/// An answer's content, reasoning and calls, from its text in pieces of this many characters.
fn read(reading: &Reading, text: &str, size: usize) -> (String, String, Vec<(String, String)>) {
    let mut reader = Reader::new(reading.clone(), false);
    let characters: Vec<char> = text.chars().collect();
    let pieces = characters.chunks(size).map(|piece| piece.iter().collect::<String>());
    let mut spans: Vec<Span> = pieces.flat_map(|piece| reader.push(&piece)).collect();
    spans.extend(reader.finish());
    let (mut content, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    let mut at = 0;
    for Span { len, kind } in spans {
        let part = &text[at..at + len];
        at += len;
        let (of, text) = match kind {
            Kind::Text(of) => (of, part.to_owned()),
            Kind::Instead(of, text) => (of, text),
            Kind::Escaped(index) => {
                let quoted = Value::from(part).to_string();
                (Part::Arguments(index), quoted[1..quoted.len() - 1].to_owned())
            }
            Kind::Call { name, arguments, .. } => {
                calls.push((name, arguments));
                continue;
            }
            Kind::Silent => continue,
        };
        match of {
            Part::Content => content += &text,
            Part::Reasoning => reasoning += &text,
            Part::Arguments(index) => calls[index].1 += &text,
        }
    }
    (content, reasoning, calls)
}

#[test]
fn what_a_template_wrote_is_read_back() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/real/answers.json");
    let Golden { tools, templates } =
        serde_json::from_slice(&fs::read(file).expect("golden file")).expect("golden turns");
    let tool = |tool: &Value| Tool {
        name: tool["function"]["name"].as_str().expect("a name").into(),
        description: None,
        parameters: tool["function"]["parameters"].as_object().cloned(),
        strict: false,
        enforceable: true,
        callable: true,
    };
    let tools: Vec<Tool> = tools.iter().map(tool).collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for Turns { template, turns } in templates {
        let source = fs::read_to_string(real(&format!("llama.cpp/templates/{template}")));
        let dialect = Dialect::of(&source.expect("a template"));
        assert!(dialect.is_some(), "{template} has no dialect");
        for turn in turns {
            let thinking = if turn.begins { Thinking::Begun } else { Thinking::Possible };
            let reading = Reading { dialect, tools: tools.clone(), thinking, ..Reading::default() };
            for size in [usize::MAX, 1, 3] {
                count += 1;
                let size = size.min(turn.text.len().max(1));
                let (content, reasoning, calls) = read(&reading, &turn.text, size);
                let calls: Vec<(String, Value)> = calls
                    .into_iter()
                    .map(|(name, json)| {
                        let value = serde_json::from_str(&json).unwrap_or(Value::String(json));
                        (name, value)
                    })
                    .collect();
                let found = (content.trim(), reasoning.trim(), &calls);
                let expected = (turn.content.trim(), turn.reasoning.trim(), &turn.calls);
                if found != expected {
                    wrong.push(format!("{template}: {:?}\n  {found:?}\n  {expected:?}", turn.text));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
