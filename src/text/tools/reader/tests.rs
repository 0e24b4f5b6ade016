//! Answers of all formats, cut anywhere.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::api::Tool;
use crate::text::tools::values::escaped;

const DIALECTS: [Dialect; 15] = [
    Dialect::Hermes,
    Dialect::Llama,
    Dialect::Mistral,
    Dialect::MistralNamed,
    Dialect::Listed,
    Dialect::Tagged,
    Dialect::Parameters,
    Dialect::Params,
    Dialect::ArgKeys,
    Dialect::Functions,
    Dialect::DeepSeek,
    Dialect::DeepSeekBlock,
    Dialect::Python,
    Dialect::Gemma,
    Dialect::Harmony,
];

fn tool(name: &str) -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "text": { "type": "string" },
            "count": { "type": "integer" },
            "whether": { "type": "boolean" },
            "list": { "type": "array", "items": { "type": "number" } },
            "maybe": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
            "mode": { "$ref": "#/$defs/Mode" },
        },
        "$defs": { "Mode": { "enum": ["1", "fast"] } },
    });
    let parameters = parameters.as_object().cloned();
    Tool {
        name: name.into(),
        description: None,
        parameters,
        strict: false,
        enforceable: true,
        callable: true,
    }
}

fn reading(dialect: Dialect) -> Reading {
    let tools = vec![tool("get_time"), tool("add")];
    Reading { dialect: Some(dialect), tools, ..Reading::default() }
}

fn thinking(thinking: Thinking) -> Reading {
    Reading { thinking, ..Reading::default() }
}

/// An answer's content, reasoning and calls.
#[derive(Debug, Default, PartialEq)]
struct Whole {
    content: String,
    reasoning: String,
    calls: Vec<(String, String)>,
    /// Bytes of reasoning.
    thought: usize,
}

/// Parses a text in pieces; all spans together must be the text.
fn read(reading: &Reading, pieces: &[&str]) -> Whole {
    let mut reader = Reader::new(reading.clone(), false);
    let mut spans: Vec<Span> = pieces.iter().flat_map(|piece| reader.push(piece)).collect();
    spans.extend(reader.finish());
    let text = pieces.concat();
    let mut whole = Whole { thought: reader.thought(), ..Whole::default() };
    let mut at = 0;
    for Span { len, kind } in spans {
        let part = &text[at..at + len];
        at += len;
        let (part_of, part) = match kind {
            Kind::Text(of) => (of, part.to_owned()),
            Kind::Escaped(index) => (Part::Arguments(index), escaped(part)),
            Kind::Instead(of, text) => (of, text),
            Kind::Call { index, name, arguments } => {
                assert_eq!(index, whole.calls.len());
                whole.calls.push((name, arguments));
                continue;
            }
            Kind::Silent => continue,
        };
        match part_of {
            Part::Content => whole.content += &part,
            Part::Reasoning => whole.reasoning += &part,
            Part::Arguments(index) => {
                assert_eq!(index + 1, whole.calls.len());
                whole.calls[index].1 += &part;
            }
        }
    }
    assert_eq!(at, text.len(), "all of {text:?} is emitted");
    whole
}

/// Parses a text whole, with every single cut, and character by character; all must agree.
fn read_all_ways(reading: &Reading, text: &str) -> Whole {
    let whole = read(reading, &[text]);
    for (cut, _) in text.char_indices() {
        assert_eq!(read(reading, &[&text[..cut], &text[cut..]]), whole, "cut at {cut}");
    }
    let characters: Vec<String> = text.chars().map(String::from).collect();
    let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
    assert_eq!(read(reading, &characters), whole, "character by character");
    whole
}

#[test]
fn calls_are_found_in_every_dialect() {
    let time = ("get_time", r#"{"zone": "a } \" ] <tool_call> é"}"#);
    let add = ("add", r#"{"of": [1, {"x": 2}]}"#);
    let json = |(name, arguments): (&str, &str)| {
        format!(r#"{{"name": "{name}", "arguments": {arguments}}}"#)
    };
    let parameters = |call| json(call).replace("arguments", "parameters");
    let (t, a) = (json(time), json(add));
    for (dialect, text, content, calls) in [
        (Dialect::Hermes, format!("<tool_call>\n{t}\n</tool_call>"), "", vec![time]),
        (
            Dialect::Hermes,
            format!("Wait.\n<tool_call>{t}</tool_call>\n<tool_call>\n{a}\n</tool_call>\n"),
            "Wait.\n",
            vec![time, add],
        ),
        (Dialect::Hermes, format!("<tool_call>\n{a}"), "", vec![add]),
        (Dialect::Hermes, format!("<tool_call>{a}</tool_call> Done."), " Done.", vec![add]),
        (Dialect::Llama, parameters(time), "", vec![time]),
        (Dialect::Llama, format!("<|python_tag|>{}", parameters(time)), "", vec![time]),
        (Dialect::Llama, format!("{}; {}", parameters(time), parameters(add)), "", vec![time, add]),
        (Dialect::Llama, format!("It is {}", parameters(time)), "It is ", vec![]),
        (Dialect::Mistral, format!("[TOOL_CALLS][{t}, {a}]"), "", vec![time, add]),
        (Dialect::Mistral, format!(" [TOOL_CALLS] [{a}]"), "", vec![add]),
        (
            Dialect::MistralNamed,
            format!("Now [TOOL_CALLS]get_time[ARGS]{}", time.1),
            "Now ",
            vec![time],
        ),
        (
            Dialect::MistralNamed,
            format!(
                "[TOOL_CALLS]add[CALL_ID]a1b2c3d4e[ARGS]{}[TOOL_CALLS]get_time[ARGS]{}",
                add.1, time.1
            ),
            "",
            vec![add, time],
        ),
        (Dialect::Listed, format!("<|tool_call|>[{t}]<|/tool_call|>"), "", vec![time]),
        (Dialect::Listed, format!("<|tool_call|>[{t}, {a}]"), "", vec![time, add]),
    ] {
        let found = read_all_ways(&reading(dialect), &text);
        let expected: Vec<(String, String)> =
            calls.iter().map(|(name, json)| (name.to_string(), json.to_string())).collect();
        let kept = if calls.is_empty() { &text } else { content };
        assert_eq!((found.content.as_str(), found.calls), (kept, expected), "{text:?}");
    }
}

#[test]
fn calls_with_other_key_orders_and_shapes_are_parsed() {
    for call in [
        r#"{"arguments": {"a": 1}, "name": "add"}"#,
        r#"{"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}"#,
        r#"{"id": "x", "name": "add", "arguments": "{\"a\":1}"}"#,
        r#"{"name": "add", "parameters": {"a": 1}, "id": "x"}"#,
    ] {
        let found =
            read_all_ways(&reading(Dialect::Hermes), &format!("<tool_call>{call}</tool_call>"));
        let [(name, arguments)] = &found.calls[..] else { panic!("{call}: {found:?}") };
        assert_eq!((name.as_str(), arguments.replace(' ', "").as_str()), ("add", r#"{"a":1}"#));
        assert_eq!(found.content, "");
    }
    let none = r#"<tool_call>{"name": "add"}</tool_call>"#;
    let found = read_all_ways(&reading(Dialect::Hermes), none);
    assert_eq!(found.calls, [("add".into(), "{}".into())]);
}

#[test]
fn text_that_is_no_call_is_content() {
    let odd = r#"{"name": "unknown", "arguments": {"a": 1}}"#;
    for dialect in DIALECTS.into_iter().filter(|dialect| *dialect != Dialect::Harmony) {
        let marker = dialect.format().opens[0];
        for text in [
            format!("{marker}{odd}"),
            format!("{marker}[{odd}]"),
            format!("{marker} and so on"),
            format!("{marker}{{\"name\": \"add\", \"arguments\": 5}}"),
            format!("{marker}add and so on"),
            format!("{marker}{{\"name\": \"ad"),
            format!("  {marker}"),
            format!("1 {}", &marker[..marker.len() - 1]),
            odd.to_owned(),
            r#"{"sum": 3}"#.to_owned(),
            " \n".to_owned(),
            String::new(),
        ] {
            let found = read_all_ways(&reading(dialect), &text);
            assert_eq!((found.content, found.calls.len()), (text, 0), "{dialect:?}");
        }
    }
}

#[test]
fn the_name_is_emitted_first_and_arguments_as_they_are_written() {
    let mut reader = Reader::new(reading(Dialect::Hermes), false);
    let text = r#"Hm <tool_call>{"name": "add", "arguments": {"a": 12, "b": "x y"}}</tool_call>"#;
    let mut held = 0;
    for (place, c) in text.char_indices() {
        held += c.len_utf8();
        held -=
            reader.push(&text[place..place + c.len_utf8()]).iter().map(|s| s.len).sum::<usize>();
        let free = [0..3, 44..text.len() - 13].iter().any(|part| part.contains(&place));
        assert!(!free || held == 0, "{} is held back", &text[..=place]);
    }
}

#[test]
fn names_of_special_tokens_are_no_content() {
    let mut special = reading(Dialect::Mistral);
    special.markers = vec![(5, "[TOOL_CALLS]")];
    assert_eq!(read_all_ways(&special, "[TOOL_CALLS] no [TOOL_CA").content, " no [TOOL_CA");
    let mut reader = Reader::new(special, true);
    let spans = [reader.push("[TOOL_CALLS] no"), reader.finish()].concat();
    assert_eq!(spans, [Span { len: 15, kind: Kind::Text(Part::Content) }]);
}

#[test]
fn only_one_call_counts_if_single() {
    let single = Reading { single: true, ..reading(Dialect::Hermes) };
    let call = r#"<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>"#;
    let found = read_all_ways(&single, &[call, call].join("\n"));
    assert_eq!(found.calls, [("add".into(), r#"{"a": 1}"#.into())]);
    assert_eq!(found.content, "");
}

/// One call's name and arguments.
fn called(dialect: Dialect, text: &str) -> (String, serde_json::Value) {
    let found = read_all_ways(&reading(dialect), text);
    let [(name, arguments)] = &found.calls[..] else { panic!("{text}: {found:?}") };
    let arguments = serde_json::from_str(arguments);
    let arguments = arguments.unwrap_or_else(|error| panic!("{text}: {error}: {found:?}"));
    assert_eq!(found.content, "", "{text}");
    (name.clone(), arguments)
}

#[test]
fn values_have_the_types_of_the_tool_s_schema() {
    let expected = json!({
        "text": "12\n\"x\" </b>\n", "count": 12, "whether": true, "list": [1, 2.5], "maybe": "12",
        "mode": "1", "other": { "a": null }, "word": "so",
    });
    let parameters = "<tool_call>\n<function=add>\n\
        <parameter=text>\n12\n\"x\" </b>\n\n</parameter>\n<parameter=count>\n12\n</parameter>\n\
        <parameter=whether>\nTrue\n</parameter>\n<parameter=list>\n[1, 2.5]\n</parameter>\n\
        <parameter=maybe>\n12\n</parameter>\n<parameter=mode>\n1\n</parameter>\n\
        <parameter=other>\n{\"a\": null}\n</parameter>\n<parameter=word>\nso\n</parameter>\n\
        </function>\n</tool_call>";
    let keys = "<tool_call>add\n<arg_key>text</arg_key>\n<arg_value>12\n\"x\" </b>\n</arg_value>\n\
        <arg_key>count</arg_key><arg_value>12</arg_value><arg_key>whether</arg_key>\
        <arg_value>true</arg_value><arg_key>list</arg_key><arg_value>[1, 2.5]</arg_value>\
        <arg_key>maybe</arg_key><arg_value>12</arg_value><arg_key>mode</arg_key>\
        <arg_value>1</arg_value><arg_key>other</arg_key><arg_value>{\"a\": null}</arg_value>\
        <arg_key>word</arg_key><arg_value>so</arg_value></tool_call>";
    let xml = "<function name=\"add\"><param name=\"text\"><![CDATA[12\n\"x\" </b>\n]]></param>\
        <param name=\"count\">12</param><param name=\"whether\">True</param>\
        <param name=\"list\"><![CDATA[[1, 2.5]]]></param><param name=\"maybe\">12</param>\
        <param name=\"mode\">1</param><param name=\"other\">{'a': None}</param>\
        <param name=\"word\">so</param></function>";
    let python = "<|tool_call_start|>[add(text='12\\n\"x\" </b>\\n', count=12, whether=True, \
        list=(1, 2.5), maybe=\"12\", mode='1', other={'a': None}, word='so')]<|tool_call_end|>";
    let gemma = "<|tool_call>call:add{text:<|\"|>12\n\"x\" </b>\n<|\"|>,count:12,whether:true,\
        list:[1,2.5],maybe:<|\"|>12<|\"|>,mode:<|\"|>1<|\"|>,other:{a:null},word:<|\"|>so<|\"|>}<tool_call|>";
    for (dialect, text) in [
        (Dialect::Parameters, parameters),
        (Dialect::ArgKeys, keys),
        (Dialect::Params, xml),
        (Dialect::Python, python),
        (Dialect::Gemma, gemma),
    ] {
        assert_eq!(called(dialect, text), ("add".into(), expected.clone()), "{dialect:?}");
    }
}

#[test]
fn calls_that_leave_out_what_is_plain_are_calls() {
    for (dialect, text) in [
        (Dialect::Hermes, r#"<tool_call>{"name": "add", "arguments": ""}</tool_call>"#),
        (Dialect::Hermes, r#"<tool_call>{"name": "add", "arguments": null}</tool_call>"#),
        (Dialect::Hermes, r#"<tool_call>{"name": "add", "arguments": "{}"}</tool_call>"#),
        (Dialect::Hermes, r#"<tool_call>{"name": "add", "arguments": {}}}</tool_call>"#),
        (Dialect::Hermes, r#"<tool_call>[{"name": "add", "parameters": {}}]</tool_call>"#),
        (Dialect::Hermes, r#"<tool_call>{"name": "add", "arguments": {}</tool_call>"#),
        (Dialect::Llama, r#"{"name": "add"}"#),
        (Dialect::Llama, r#"{"name": "add", "parameters": {}}}"#),
        (Dialect::Mistral, r#"[TOOL_CALLS][{"name": "add", "arguments": null}]"#),
        (Dialect::MistralNamed, "[TOOL_CALLS]add[ARGS]"),
        (Dialect::MistralNamed, "[TOOL_CALLS]add[ARGS]{}}"),
        (Dialect::Listed, r#"functools[{"name": "add", "arguments": {}}]"#),
        (Dialect::Tagged, r#"<TOOLCALL>[{"name": "add", "arguments": {}}]</TOOLCALL>"#),
        (Dialect::Parameters, "<function=add></function>"),
        (Dialect::Parameters, "<tool_call><function=add>"),
        (Dialect::Params, "<function name=\"add\"></function>"),
        (Dialect::ArgKeys, "<tool_call>add</tool_call>"),
        (Dialect::ArgKeys, "<tool_call>add"),
        (Dialect::Functions, "<function=add>{}</function>"),
        (Dialect::Python, "<|tool_call_start|>[add()]<|tool_call_end|>"),
        (Dialect::Gemma, "<|tool_call>call:add{}<tool_call|>"),
        (Dialect::Harmony, " to=functions.add<|channel|>commentary json<|message|>"),
        (
            Dialect::Harmony,
            "<|channel|>commentary to=functions.add <|constrain|>json<|message|><|call|>",
        ),
    ] {
        assert_eq!(called(dialect, text), ("add".into(), json!({})), "{text}");
    }
    let ended = "<tool_call>\n<function=add>\n<parameter=text>\na\n</parameter>";
    assert_eq!(called(Dialect::Parameters, ended).1, json!({ "text": "a" }));
    let ended = "<tool_call>\n<function=add>\n<parameter=count>\n5\n</parameter>";
    assert_eq!(called(Dialect::Parameters, ended).1, json!({ "count": 5 }));
}

#[test]
fn several_calls_in_one_tag_are_all_calls() {
    let call = r#"{"name": "add", "arguments": {"a": 1}}"#;
    for text in [
        format!("<tool_call>{call}\n{call}</tool_call>"),
        format!("<tool_call>\n{call}, {call}\n</tool_call>"),
        format!("<tool_call>[{call}, {call}]</tool_call>"),
    ] {
        let found = read_all_ways(&reading(Dialect::Hermes), &text);
        let one = ("add".to_owned(), r#"{"a": 1}"#.to_owned());
        assert_eq!((found.content.as_str(), found.calls), ("", vec![one.clone(), one]), "{text}");
    }
}

#[test]
fn messages_of_an_answer_are_told_apart_by_their_channels() {
    let analysis = "<|channel|>analysis<|message|>Hm.<|end|>";
    let next = "<|start|>assistant";
    for (text, reasoning, content, calls) in [
        (
            format!("{analysis}{next}<|channel|>final<|message|>Hello!<|return|>"),
            "Hm.",
            "Hello!",
            vec![],
        ),
        (format!("{analysis}{next}<|channel|>final<|message|>Hello!"), "Hm.", "Hello!", vec![]),
        (
            format!(
                "{analysis}{next}<|channel|>commentary<|message|>I look.<|end|>{next}<|channel|>\
                 commentary to=functions.add <|constrain|>json<|message|>{{\"a\": 1}}<|call|>"
            ),
            "Hm.",
            "I look.",
            vec![("add", "{\"a\": 1}")],
        ),
        (
            format!("{analysis}{next} to=functions.add<|channel|>commentary json<|message|>{{}}"),
            "Hm.",
            "",
            vec![("add", "{}")],
        ),
        (
            format!("{analysis}{next}{analysis}{next}<|channel|>final<|message|>A <b> <|"),
            "Hm.\n\nHm.",
            "A <b> <|",
            vec![],
        ),
        ("<|channel|>final<|message|>".into(), "", "", vec![]),
        ("<|channel|>final".into(), "", "", vec![]),
        ("Hello <b>".into(), "", "Hello <b>", vec![]),
        (" t".into(), "", " t", vec![]),
        ("<|channel|>commentary to=functions.unknown<|message|>{}".into(), "", "{}", vec![]),
        ("<|channel|>analysis to=python code<|message|>1+1<|call|>".into(), "1+1", "", vec![]),
    ] {
        let found = read_all_ways(&reading(Dialect::Harmony), &text);
        let expected: Vec<_> =
            calls.iter().map(|(name, json)| (name.to_string(), json.to_string())).collect();
        assert_eq!(
            (found.reasoning.as_str(), found.content.as_str()),
            (reasoning, content),
            "{text}"
        );
        assert_eq!(found.calls, expected, "{text}");
    }
    let continues = Reading { continues: true, ..reading(Dialect::Harmony) };
    assert_eq!(read_all_ways(&continues, "llo!<|return|>").content, "llo!");
}

#[test]
fn strings_without_quotes_are_emitted_as_they_are_written() {
    let mut reader = Reader::new(reading(Dialect::Parameters), false);
    reader.push("<tool_call>\n<function=add>\n<parameter=text>\nSo ");
    let spans = reader.push("one \"two\"");
    assert_eq!(spans, [Span { len: 9, kind: Kind::Escaped(0) }]);
}

#[test]
fn broken_arguments_end_with_their_call() {
    let text =
        "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": {\"b\": 1}\n</tool_call>\nSo.";
    let found = read_all_ways(&reading(Dialect::Hermes), text);
    assert_eq!(found.calls, [("add".into(), "{\"a\": {\"b\": 1}\n".into())]);
    assert_eq!(found.content, "\nSo.");
}

#[test]
fn reasoning_is_separated_from_content() {
    for (how, text, reasoning, content) in [
        (Thinking::Possible, "<think>\nHm. \n\nSo?\n</think>\n\nYes.", "Hm. \n\nSo?", "Yes."),
        (Thinking::Possible, " \n<think></think>Yes", "", "Yes"),
        (Thinking::Possible, "<think>On and ", "On and", ""),
        (Thinking::Possible, "<thin ice", "", "<thin ice"),
        (Thinking::Possible, "No <think>", "", "No <think>"),
        (Thinking::Begun, "\nHm.</think> Yes </think>", "Hm.", "Yes </think>"),
        (Thinking::Begun, "Hm </thin", "Hm </thin", ""),
        (Thinking::Amid, " so</think>Yes", " so", "Yes"),
        (Thinking::Never, "<think>Hm</think>", "", "<think>Hm</think>"),
    ] {
        let found = read_all_ways(&thinking(how), text);
        assert_eq!((found.reasoning.as_str(), found.content.as_str()), (reasoning, content));
        let ends = text.find("</think>").map(|at| at + 8);
        let expected = match how {
            Thinking::Never => 0,
            _ if reasoning.is_empty() && ends.is_none() => 0,
            _ if text.starts_with("No") => 0,
            _ => ends.unwrap_or(text.len()),
        };
        assert_eq!(found.thought, expected, "{text:?}");
    }
    let both = Reading { thinking: Thinking::Begun, ..reading(Dialect::Llama) };
    let found = read_all_ways(&both, "Add.</think>\n{\"name\": \"add\", \"parameters\": {}}");
    assert_eq!((found.reasoning.as_str(), found.content.as_str()), ("Add.", ""));
    assert_eq!(found.calls, [("add".into(), "{}".into())]);
}

proptest! {
    #[test]
    fn any_cut_gives_the_same(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]",
                "[CALL_ID]", "<|tool_call|>", "<|/tool_call|>", "<think>", "</think>", "add",
                r#"{"name": "add", "arguments": "#, r#"{"name": "add", "parameters": "#,
                r#"{"a": 1}"#, r#"{"arguments": {}, "name": "add"}"#, r#"{"name""#, "{", "}", "[",
                "<function=", "<parameter=", ">", "</parameter>", "</function>", "text", "count", "5",
                "<function name=\"", "<param name=\"", "\">", "</param>", "<![CDATA[", "]]>",
                "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "functools", "<tool_calls>",
                "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "function", "```json", "```",
                "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "<|tool_call_start|>", "<|tool_call_end|>",
                "(", ")", "=", "'", "<|tool_call>", "call:", ":", "<|\"|>", "<tool_call|>",
                "<|start|>assistant", "<|channel|>", "analysis", "final", "commentary", " to=functions.add",
                "<|message|>", "<|end|>", "<|constrain|>", "<|call|>", "]", ",", ";", " ", "\n", "\"", "\\", "é", "x", "<", "12",
            ]),
            0..16,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        dialect in prop::option::of(prop::sample::select(DIALECTS.to_vec())),
        thinking in prop::sample::select(vec![
            Thinking::Never, Thinking::Possible, Thinking::Begun, Thinking::Amid,
        ]),
        (hides, continues, single) in any::<(bool, bool, bool)>(),
    ) {
        let text = parts.concat();
        let markers = dialect.into_iter().flat_map(Dialect::markers).chain(THINK);
        let markers = markers.filter(|_| hides).map(|name| (7, name)).collect();
        let tools = vec![tool("add")];
        let reading = Reading { dialect, tools, single, thinking, markers, continues };
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.retain(|cut| text.is_char_boundary(*cut));
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
        prop_assert_eq!(read(&reading, &pieces), read(&reading, &[&text]));
    }
}
