//! Prompts of conversations, from the files of small models.

use super::*;
use crate::text::samples;

const TEMPLATE: &str =
    "{{ bos_token }}{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}";

fn chat(tokenizer_config: &str, more: ChatFiles) -> Result<Chat> {
    let tokenizer_config = Some(tokenizer_config.as_bytes());
    Chat::new(&ChatFiles { tokenizer: &samples::bytes(), tokenizer_config, ..more })
}

fn text(chat: &Chat) -> Result<Vec<u32>> {
    Ok(chat.prompt(&vec![Message::user("hi<|end|>")].into(), None)?.ids)
}

#[test]
fn a_prompt_is_the_template_around_quoted_text() {
    let config = format!(
        r#"{{"bos_token":{{"content":"<｜bos｜>"}},"eos_token":"<|end|>","chat_template":{}}}"#,
        json!(TEMPLATE)
    );
    let generation_config = Some(&br#"{"eos_token_id":[7]}"#[..]);
    let chat = chat(&config, ChatFiles { generation_config, ..Default::default() }).unwrap();
    let ids = text(&chat).unwrap();
    let controls: Vec<_> =
        ids.iter().copied().filter(|&id| chat.tokenizer().is_control(id)).collect();
    assert_eq!(controls, [265, 260, 256]);
    assert_eq!(chat.tokenizer().decode(&ids).unwrap(), "hi<|end|>");
    assert_eq!(chat.defaults().eos_ids, [7, 256]);
}

#[test]
fn templates_are_found_where_models_keep_them() {
    let prompt = |config: &str, more| text(&chat(config, more).unwrap()).unwrap();
    let named = r#"{"chat_template":[{"name":"tool_use","template":"a"},{"name":"default","template":"b"}]}"#;
    let none = ChatFiles::default();
    let json = ChatFiles { chat_template_json: Some(br#"{"chat_template":"c"}"#), ..none };
    let jinja = ChatFiles { chat_template_jinja: Some(b"d"), ..json };
    let ids = [prompt(named, none), prompt(named, json), prompt(named, jinja)];
    let id = |token| chat("{}", none).unwrap().tokenizer().token_id(token).unwrap();
    assert_eq!(ids, [[id("b")], [id("c")], [id("d")]]);
}

#[test]
fn a_model_without_a_template_says_so() {
    for config in ["{}", r#"{"chat_template":null}"#] {
        let error = text(&chat(config, ChatFiles::default()).unwrap()).unwrap_err();
        assert!(matches!(error, Error::Template { .. }));
        assert!(error.to_string().contains("chat_template.jinja"));
    }
    let unnamed = r#"{"chat_template":[{"name":"rag","template":"a"}]}"#;
    let error = text(&chat(unnamed, ChatFiles::default()).unwrap()).unwrap_err();
    assert!(matches!(&error, Error::Template { message } if message.contains("rag")), "{error}");
}

#[test]
fn a_template_that_cannot_be_used_costs_the_chat_alone() {
    let long = " ".repeat((1 << 20) + 1);
    for source in ["{{ if .System }}{{ .System }}{{ end }}", "{% if %}", "{{ 'a'", &long] {
        let chat = templated(source);
        let error = text(&chat).unwrap_err();
        assert!(matches!(error, Error::Template { .. }), "{error}");
        assert_eq!(
            chat.tokenizer().decode(&chat.tokenizer().encode_plain("ab", false).unwrap()).unwrap(),
            "ab"
        );
    }
}

#[test]
fn requests_with_tools_take_the_template_named_so() {
    let in_config = r#"{"chat_template":[{"name":"tool_use","template":"{# <tool_call> #}a{{ tools | length }}"},{"name":"default","template":"b"}]}"#;
    let jinja = ChatFiles {
        chat_template_jinja: Some(b"b"),
        tool_use_jinja: Some(b"{# <tool_call> #}a{{ tools | length }}"),
        ..Default::default()
    };
    let user = || json!([{ "role": "user", "content": "hi" }]);
    for chat in [chat(in_config, ChatFiles::default()).unwrap(), chat("{}", jinja).unwrap()] {
        assert_eq!(rendered(&chat, &conversation(user(), tools())).unwrap(), "a1");
        assert_eq!(rendered(&chat, &conversation(user(), json!({}))).unwrap(), "b");
    }
}

#[test]
fn messages_have_the_shape_that_the_template_takes() {
    let head = "{# <tool_call> #}{% for m in messages %}";
    let parts = format!(
        "{head}{{% for p in m.content %}}{{{{ p.text }}}};{{% endfor %}}{{{{ m.tool_calls[0].function.name if m.tool_calls }}}}{{% endfor %}}"
    );
    let absent = format!(
        "{head}{{{{ 'content' in m }}}}{{{{ m.tool_calls[0].function.arguments.a if m.tool_calls }}}};{{% endfor %}}"
    );
    let measured = format!(
        "{head}{{{{ m.content[:2] }}}}{{{{ m.tool_calls[0].function.arguments.a if m.tool_calls }}}};{{% endfor %}}"
    );
    let joined = format!(
        "{head}{{% if m.tool_calls %}}{{{{ 'f' + m.tool_calls[0].function.arguments }}}}{{% endif %}};{{% endfor %}}"
    );
    for (template, expected) in [
        (&parts, "go;f1<|end|>;2;"),
        (&absent, "True;False<|end|>;True;True;"),
        (&measured, "go;<|end|>;1<;2;"),
        (&joined, ";f{\"a\": \"<|end|>\"};;;"),
    ] {
        let found = rendered(&templated(template), &conversation(called_twice(), json!({})));
        assert_eq!(found.unwrap(), expected, "{template}");
    }
}

#[test]
fn reasoning_in_the_history_has_all_its_names() {
    let messages = json!([
        { "role": "user", "content": "a" },
        { "role": "assistant", "content": "b", "reasoning_content": "c" },
        { "role": "user", "content": "d" },
    ]);
    for name in REASONING {
        let chat =
            templated(&format!("{{% for m in messages %}}{{{{ m.{name} }}}}.{{% endfor %}}"));
        let found = rendered(&chat, &conversation(messages.clone(), json!({}))).unwrap();
        assert_eq!(found, ".c..", "{name}");
    }
}

#[test]
fn bad_files_are_named() {
    let error = chat("<html>", ChatFiles::default()).err().unwrap().to_string();
    assert!(error.contains("tokenizer_config.json") && error.contains("HTML"), "{error}");
    let error = chat(r#"{"eos_token":5}"#, ChatFiles::default()).err().unwrap().to_string();
    assert!(error.contains("eos_token"), "{error}");
}

#[test]
fn a_template_s_file_that_cannot_be_read_costs_the_chats_that_take_it() {
    let none = ChatFiles::default();
    let jinja = ChatFiles { chat_template_jinja: Some(b"\xFF"), ..none };
    let json = ChatFiles { chat_template_json: Some(b"{% if %}"), ..none };
    let list = ChatFiles { chat_template_json: Some(br#"{"chat_template": 5}"#), ..none };
    for (file, files) in
        [("chat_template.jinja", jinja), ("chat_template.json", json), ("chat_template", list)]
    {
        let chat = chat(r#"{"chat_template":"b"}"#, files).unwrap();
        let error = text(&chat).unwrap_err();
        assert!(matches!(&error, Error::Template { message } if message.contains(file)), "{error}");
        assert!(!chat.tokenizer().encode_plain("ab", false).unwrap().is_empty());
    }
    let tools_alone =
        ChatFiles { tool_use_jinja: Some(b"\xFF"), chat_template_jinja: Some(b"b"), ..none };
    let chat = chat("{}", tools_alone).unwrap();
    let user = json!([{ "role": "user", "content": "hi" }]);
    assert_eq!(rendered(&chat, &conversation(user.clone(), json!({}))).unwrap(), "b");
    let error = rendered(&chat, &conversation(user, tools())).unwrap_err().to_string();
    assert!(error.contains("tool_use.jinja"), "{error}");
}

/// A conversation from a request's JSON.
fn conversation(messages: Value, fields: Value) -> Conversation {
    let mut request = json!({ "messages": messages });
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let request = crate::api::ChatCompletionRequest::read(&request).unwrap();
    request.validate().unwrap().conversation
}

fn templated(template: &str) -> Chat {
    let jinja = ChatFiles { chat_template_jinja: Some(template.as_bytes()), ..Default::default() };
    chat("{}", jinja).unwrap()
}

/// A prompt's text, control tokens by name.
fn rendered(chat: &Chat, conversation: &Conversation) -> Result<String> {
    let ids = chat.prompt(conversation, None)?.ids;
    let bytes: Result<Vec<Vec<u8>>> = ids.iter().map(|id| chat.tokenizer().spell(*id)).collect();
    Ok(String::from_utf8(bytes?.concat()).unwrap())
}

fn tools() -> Value {
    let f =
        json!({ "name": "f", "description": "Adds <|end|>", "parameters": { "type": "object" } });
    json!({ "tools": [{ "type": "function", "function": f }] })
}

fn called() -> Value {
    let call =
        json!({ "id": "call_1", "function": { "name": "f", "arguments": r#"{"a":"<|end|>"}"# } });
    json!([
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "call_1", "content": "1<|end|>" },
        { "role": "tool", "tool_call_id": "call_2", "content": "2" },
    ])
}

/// Two calls and their results.
fn called_twice() -> Value {
    let mut messages = called();
    let mut second = messages[1]["tool_calls"][0].clone();
    second["id"] = "call_2".into();
    messages[1]["tool_calls"].as_array_mut().unwrap().push(second);
    messages
}

#[test]
fn templates_get_tools_calls_and_results_and_no_text_gives_control_tokens() {
    let template = "{# <tool_call> #}{% for t in tools %}{{ t.function | tojson }}{% endfor %}\
        {% for m in messages %}<|user|>{{ m.role }} {{ m.name }} {{ m.tool_call_id }} {{ m.content }}\
        {% for c in m.tool_calls %}{{ c.id }} {{ c.function.arguments.a }}{% endfor %}{% endfor %}";
    let chat = templated(template);
    let conversation = conversation(called_twice(), tools());
    let prompt = chat.prompt(&conversation, None).unwrap();
    let controls = prompt.ids.iter().filter(|id| chat.tokenizer().is_control(**id)).count();
    assert_eq!(controls, 4, "those of the template");
    assert_eq!(prompt.reading.dialect, Some(Dialect::Hermes));
    assert_eq!(prompt.form, None);
    let text = rendered(&chat, &conversation).unwrap();
    assert!(
        text.starts_with(r#"{"name": "f", "description": "Adds <|end|>", "parameters""#),
        "{text}"
    );
    assert!(text.contains("assistant   call_1 <|end|>call_2 <|end|>"), "{text}");
    assert!(text.contains("tool f call_1 1<|end|>"), "{text}");
}

#[test]
fn a_template_that_ignores_tools_gets_them_in_words() {
    let plain = "{% for m in messages %}<|user|>{{ m.role }}: {{ m.content }}{% endfor %}";
    let refusing = format!(
        "{{% if messages[0].role == 'system' %}}{{{{ raise_exception('no') }}}}{{% endif %}}{plain}"
    );
    let blind = format!("{{# [TOOL_CALLS] #}}{plain}");
    for (template, role) in [(plain, "system"), (&refusing, "user"), (&blind, "system")] {
        let chat = templated(template);
        let conversation = conversation(called_twice(), tools());
        let prompt = chat.prompt(&conversation, None).unwrap();
        assert_eq!(prompt.reading.dialect, Some(Dialect::Hermes), "{template}");
        let text = rendered(&chat, &conversation).unwrap();
        let parts: Vec<&str> = text.split("<|user|>").skip(1).collect();
        assert!(parts[0].starts_with(role), "{text}");
        assert!(parts[0].contains(r#"{"name":"f","description":"Adds <|end|>""#), "{text}");
        let calls = r#"<tool_call>\n{"name":"f","arguments":{"a":"<|end|>"}}\n</tool_call>"#;
        let calls = calls.replace("\\n", "\n");
        let [.., call, result] = parts[..] else { panic!("{text}") };
        assert_eq!(call, format!("assistant: {calls}\n{calls}"));
        assert_eq!(
            result,
            "user: <tool_response>\n1<|end|>\n</tool_response>\n<tool_response>\n2\n</tool_response>"
        );
        let controls = prompt.ids.iter().filter(|id| chat.tokenizer().is_control(**id)).count();
        assert_eq!(controls, parts.len());
    }
}

#[test]
fn a_last_message_is_continued_after_its_text() {
    let ends = |text: &str| json!([{ "role": "user", "content": "ab" }, { "role": "assistant", "content": text }]);
    let plain = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}\
                 {% if add_generation_prompt %}<|user|>{% endif %}";
    let trimming = plain.replace("m.content", "m.content | trim");
    for template in [plain, &trimming] {
        let chat = templated(template);
        for text in ["ab", "So <|end|> ", "\u{FDD0} "] {
            let going_on = conversation(ends(text), json!({}));
            let found = rendered(&chat, &going_on).unwrap();
            assert_eq!(found, format!("<|user|>ab<|end|><|user|>{text}"), "{template}");
            assert!(chat.prompt(&going_on, None).unwrap().reading.continues);
        }
        let not = conversation(ends("ab"), json!({ "continue_final_message": false }));
        let found = rendered(&chat, &not).unwrap();
        assert_eq!(found, "<|user|>ab<|end|><|user|>ab<|end|><|user|>");
    }
    let chat = templated("<|user|>{{ messages[0].content }}");
    let lost = chat.prompt(&conversation(ends("cd"), json!({})), None).unwrap_err();
    assert!(lost.to_string().contains("continue_final_message"), "{lost}");
}

#[test]
fn the_prompt_shows_whether_the_answer_starts_with_reasoning() {
    let user = json!([{ "role": "user", "content": "<think>" }]);
    let amid = |text: &str| json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": text }]);
    let begun =
        "{{ messages[0].content }}{% if enable_thinking is not defined %}<think>\n{% endif %}";
    let all = "{% for m in messages %}{{ m.content }}{% endfor %}|";
    for (template, messages, fields, thinking) in [
        (begun, &user, json!({}), Thinking::Begun),
        (begun, &user, json!({ "reasoning_effort": "none" }), Thinking::Possible),
        (all, &user, json!({}), Thinking::Possible),
        (all, &amid("<think>a"), json!({}), Thinking::Amid),
        (all, &amid("<think>a</think>b"), json!({}), Thinking::Never),
    ] {
        let conversation = conversation(messages.clone(), fields);
        let found = templated(template).prompt(&conversation, None).unwrap().reading.thinking;
        assert_eq!(found, thinking, "{messages}");
    }
}

#[test]
fn calls_that_a_template_leaves_out_are_written_in_the_model_s_format() {
    let body =
        "{% for m in messages %}<|user|>{{ m.role }}: {{ m.content }}{% endfor %}{{ tools }}";
    let call = r#"{"name":"f","arguments":{"a":"<|end|>"}}"#;
    for (mark, expected) in [
        (
            "<|tool_list_start|>",
            r#"<|tool_call_start|>[f(a="<|end|>"), f(a="<|end|>")]<|tool_call_end|>"#.into(),
        ),
        ("<|tool_call|>", format!("<|tool_call|>[{call}, {call}]<|/tool_call|>")),
    ] {
        let chat = templated(&format!("{{# {mark} #}}{body}"));
        let text = rendered(&chat, &conversation(called_twice(), tools())).unwrap();
        assert!(text.contains(&format!("assistant: {expected}")), "{text}");
    }
}

#[test]
fn phi_4_finds_the_tools_in_the_system_message() {
    let template = "{% for m in messages %}{% if m['role'] == 'system' and 'tools' in m and m['tools'] is not none %}\
        <|system|>{{ m['content'] }}<|tool|>{{ m['tools'] }}<|/tool|><|end|>{% else %}\
        <|user|>{{ m['content'] }}<|end|>{% endif %}{% endfor %}<|assistant|>";
    let user = json!([{ "role": "user", "content": "a" }]);
    let found = templated(template).prompt(&conversation(user.clone(), tools()), None).unwrap();
    assert_eq!(found.reading.dialect, Some(Dialect::Listed));
    let text = rendered(&templated(template), &conversation(user.clone(), tools())).unwrap();
    assert!(text.starts_with("<|system|><|tool|>[{\"name\":\"f\","), "{text}");
    let without = rendered(&templated(template), &conversation(user, json!({}))).unwrap();
    assert_eq!(without, "<|user|>a<|end|><|assistant|>");
}

#[test]
fn harmony_is_read_without_tools_and_its_template_gets_one_call_a_message() {
    let template = "{# <|channel|> <|message|> #}{% for m in messages %}<|start|>{{ m.role }}|\
        {{ m.thinking }}|{{ m.content }}|{{ (m.tool_calls or [{}])[0].id }}|{{ m.tool_call_id }}{% endfor %}";
    let user = json!([{ "role": "user", "content": "a" }]);
    let reading = templated(template).prompt(&conversation(user, json!({})), None).unwrap().reading;
    assert_eq!((reading.dialect, reading.thinking), (Some(Dialect::Harmony), Thinking::Possible));
    let mut messages = called_twice();
    messages[1]["content"] = "So.".into();
    messages[1]["reasoning_content"] = "Hm.".into();
    let text = rendered(&templated(template), &conversation(messages, tools())).unwrap();
    let parts: Vec<&str> = text.split("<|start|>").skip(2).collect();
    let [first, result, second, other] = parts[..] else { panic!("{text}") };
    assert!(first.starts_with("assistant|Hm.\n\nSo.||call_1"), "{text}");
    assert!(result.starts_with("tool||1") && result.contains("call_1"), "{text}");
    assert!(second.starts_with("assistant|||call_2"), "{text}");
    assert!(other.starts_with("tool||2|") && other.contains("call_2"), "{text}");
}

#[test]
fn ends_of_the_family_join_those_in_the_files() {
    let mut tokenizer: Value = serde_json::from_slice(&samples::bytes()).unwrap();
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    let mut id = added.iter().filter_map(|token| token["id"].as_u64()).max().unwrap();
    for (text, special) in [("<|eot_id|>", true), ("</s>", false)] {
        let mut token = added[0].clone();
        id += 1;
        (token["content"], token["id"], token["special"]) =
            (text.into(), id.into(), special.into());
        added.push(token);
    }
    let tokenizer = tokenizer.to_string();
    let files = ChatFiles {
        tokenizer: tokenizer.as_bytes(),
        generation_config: Some(br#"{"eos_token_id":7}"#),
        ..Default::default()
    };
    let chat = super::Chat::new(&files).unwrap();
    let ids = &chat.defaults().eos_ids;
    let id = |text: &str| chat.tokenizer().token_id(text).unwrap();
    assert!(ids.contains(&7) && ids.contains(&id("<|eot_id|>")), "{ids:?}");
    assert!(!ids.contains(&id("</s>")), "{ids:?}");
}

#[test]
fn ids_of_calls_are_as_mistral_wants_them() {
    let template = "{# [TOOL_CALLS] #}{% for m in messages %}{{ (m.tool_calls or [{}])[0].id }}|\
                    {{ m.tool_call_id }}|{% endfor %}";
    let text = rendered(&templated(template), &conversation(called_twice(), json!({}))).unwrap();
    let ids: Vec<&str> = text.split('|').collect();
    let [_, _, call, _, _, result, _, other, _] = ids[..] else { panic!("{text}") };
    assert_eq!((call, call.len()), (result, 9));
    assert_ne!(result, other);
    assert_eq!(short_id("aB3456789"), "aB3456789");
}

#[test]
fn an_empty_prompt_is_refused() {
    let jinja = ChatFiles { chat_template_jinja: Some(b""), ..Default::default() };
    let empty = super::Chat::new(&ChatFiles { tokenizer: &samples::bytes(), ..jinja }).unwrap();
    assert!(matches!(text(&empty), Err(Error::InvalidRequest { .. })));
}
