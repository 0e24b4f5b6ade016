//! Tokenizers and chat templates against the Python libraries.

#[path = "../browser_regex.rs"]
mod regex;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tabloom::Error;
use tabloom::api::{ChatCompletionRequest, Message, Role};
use tabloom::text::{Chat, ChatFiles, ChatTemplate, Detokenizer, TemplateOptions, Tokenizer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

const TOKENIZERS: [&str; 2] = ["tokenizer_bytes", "tokenizer_words"];

#[derive(Deserialize)]
struct TokenizerGolden {
    texts: Vec<TextCase>,
    chats: Vec<ChatCase>,
    injections: Vec<InjectionCase>,
}

/// A text to encode, with control tokens where it spells them.
#[derive(Deserialize)]
struct TextCase {
    text: String,
    ids: Vec<u32>,
    decoded: String,
}

#[derive(Deserialize)]
struct ChatCase {
    messages: Vec<MessageCase>,
    ids: Vec<u32>,
}

/// A chat whose contents spell control tokens; the ids contain only the template's own.
#[derive(Deserialize)]
struct InjectionCase {
    messages: Vec<MessageCase>,
    text: String,
    control_ids: Vec<u32>,
}

#[derive(Deserialize)]
struct MessageCase {
    role: String,
    content: String,
}

/// A request in the format of OpenAI's API.
#[derive(Deserialize)]
struct ToolCase {
    name: String,
    template: String,
    request: Value,
    expected: String,
}

#[derive(Deserialize)]
struct TemplateCase {
    name: String,
    template: String,
    bos_token: Option<String>,
    eos_token: Option<String>,
    messages: Value,
    add_generation_prompt: bool,
    variables: Map<String, Value>,
    expected: Option<String>,
    error: Option<String>,
}

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens")
}

fn tool_cases() -> Vec<ToolCase> {
    let file = fs::read(goldens().join("tool_chats.json")).expect("golden file");
    serde_json::from_slice(&file).expect("golden JSON")
}

fn golden(folder: &str) -> TokenizerGolden {
    let path = goldens().join(folder).join("golden.json");
    serde_json::from_slice(&fs::read(&path).expect("golden file")).expect("golden JSON")
}

fn tokenizer(folder: &str) -> Arc<Tokenizer> {
    let path = goldens().join(folder).join("tokenizer.json");
    Arc::new(Tokenizer::from_bytes(&fs::read(path).expect("tokenizer file")).expect("tokenizer"))
}

fn chat(folder: &str) -> Chat {
    let read = |name: &str| fs::read(goldens().join(folder).join(name)).expect("model file");
    Chat::new(&ChatFiles {
        tokenizer: &read("tokenizer.json"),
        tokenizer_config: Some(&read("tokenizer_config.json")),
        chat_template_jinja: Some(&read("chat_template.jinja")),
        ..ChatFiles::default()
    })
    .expect("chat files")
}

fn messages(cases: &[MessageCase]) -> Vec<Message> {
    let role = |name: &str| match name {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => panic!("unknown role {other:?}"),
    };
    let message = |case: &MessageCase| Message::new(role(&case.role), case.content.as_str());
    cases.iter().map(message).collect()
}

#[test]
fn template_text_has_the_ids_of_python_s_tokenizers() {
    for folder in TOKENIZERS {
        let tokenizer = tokenizer(folder);
        let texts = golden(folder).texts;
        assert!(texts.len() > 10);
        for TextCase { text, ids, .. } in texts {
            assert_eq!(tokenizer.encode_prompt(&text).unwrap(), ids, "{folder}: {text:?}");
            if !ids.iter().any(|&id| tokenizer.is_control(id)) {
                let plain = tokenizer.encode_plain(&text, false).unwrap();
                assert_eq!(plain, ids, "{folder}: {text:?}");
            }
        }
    }
}

/// `golden_added_tokens.py` makes the same files.
#[derive(Deserialize)]
struct AddedTokens {
    flags: Vec<String>,
    tokens: Vec<String>,
    normalizers: Vec<Value>,
    texts: Vec<String>,
    cases: Vec<AddedCase>,
}

/// The normaliser's index, the tokens' flags, and the ids of each text: those of added tokens as letters, a
/// dot for each other one.
#[derive(Deserialize)]
struct AddedCase(usize, Vec<u8>, Option<Vec<String>>);

#[test]
fn added_tokens_are_found_as_in_python_whatever_their_flags() {
    let file = fs::read(goldens().join("added_tokens.json")).expect("golden file");
    let golden: AddedTokens = serde_json::from_slice(&file).expect("golden JSON");
    let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    let vocab: Map<String, Value> =
        (0..).zip(&alphabet).map(|(id, letter)| (letter.to_string(), Value::from(id))).collect();
    let mut compared = 0;
    for AddedCase(normalizer, flags, expected) in &golden.cases {
        let token = |(at, content): (usize, &String)| {
            let mut token = json!({"id": vocab.len() + at, "content": content});
            for (name, flag) in golden.flags.iter().zip(flags) {
                token[name] = (*flag == 1).into();
            }
            token
        };
        let normalizer = &golden.normalizers[*normalizer];
        let file = json!({
            "added_tokens": golden.tokens.iter().enumerate().map(token).collect::<Value>(),
            "normalizer": normalizer,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": vocab, "merges": []},
        });
        // Where the library fails, ours must not.
        let tokenizer = Tokenizer::from_bytes(file.to_string().as_bytes()).expect("a tokenizer");
        for (at, text) in golden.texts.iter().enumerate() {
            let shown = |id: u32| match id.checked_sub(vocab.len() as u32) {
                None => '.',
                Some(added) => char::from(b'A' + added as u8),
            };
            let ids = tokenizer.encode_raw(text, false).expect("ids");
            let found: String = ids.into_iter().map(shown).collect();
            if let Some(expected) = expected {
                assert_eq!(found, expected[at], "{text:?} with {normalizer} and {flags:?}");
                compared += 1;
            }
            // Users' texts give those that do not steer alone.
            let plain = tokenizer.encode_plain(text, false).expect("ids");
            assert!(flags[0] == 0 || plain.into_iter().all(|id| shown(id) == '.'), "{text:?}");
        }
    }
    assert_eq!(compared, 3120);
}

#[test]
fn texts_decode_as_in_python_at_once_and_token_by_token() {
    for folder in TOKENIZERS {
        let tokenizer = tokenizer(folder);
        for TextCase { ids, decoded, .. } in golden(folder).texts {
            assert_eq!(tokenizer.decode(&ids).unwrap(), decoded, "{folder}");
            let mut detokenizer = Detokenizer::new(tokenizer.clone(), false);
            let mut streamed = String::new();
            for id in ids {
                let piece = detokenizer.push(id).unwrap();
                assert!(!piece.contains('\u{FFFD}'), "{folder}: {piece:?} in {decoded:?}");
                streamed.push_str(&piece);
            }
            streamed.push_str(&detokenizer.finish());
            assert_eq!(streamed, decoded, "{folder}");
        }
    }
}

#[test]
fn chats_have_the_ids_of_transformers() {
    for folder in TOKENIZERS {
        let chat = chat(folder);
        let chats = golden(folder).chats;
        assert!(chats.len() > 2);
        for case in chats {
            let ids = chat.prompt(&messages(&case.messages).into(), None).unwrap().ids;
            assert_eq!(ids, case.ids, "{folder}");
        }
    }
}

#[test]
fn control_tokens_come_from_the_template_alone() {
    for folder in TOKENIZERS {
        let chat = chat(folder);
        let tokenizer = chat.tokenizer();
        let injections = golden(folder).injections;
        assert!(!injections.is_empty());
        let control = |ids: Vec<u32>| -> Vec<u32> {
            ids.into_iter().filter(|&id| tokenizer.is_control(id)).collect()
        };
        let mut unguarded = Vec::new();
        for case in &injections {
            let ids = chat.prompt(&messages(&case.messages).into(), None).unwrap().ids;
            assert_eq!(control(ids), case.control_ids, "{folder}: {}", case.text);
            unguarded.push(control(tokenizer.encode_prompt(&case.text).unwrap()));
        }
        let fooled = injections.iter().zip(&unguarded).any(|(case, ids)| *ids != case.control_ids);
        assert!(fooled, "{folder}: the injections would not work on unguarded text either");
    }
}

#[test]
fn templates_render_as_in_transformers() {
    let file = fs::read(goldens().join("chat_templates.json")).expect("golden file");
    let cases: Vec<TemplateCase> = serde_json::from_slice(&file).expect("golden JSON");
    assert!(cases.len() > 20);
    for case in cases {
        let token = |token: &Option<String>| token.clone().unwrap_or_default();
        let (bos, eos) = (token(&case.bos_token), token(&case.eos_token));
        let template = ChatTemplate::new(case.template, &bos, &eos).expect(&case.name);
        let options = TemplateOptions {
            add_generation_prompt: case.add_generation_prompt,
            now: Some(0),
            variables: case.variables,
        };
        let rendered = template.render(&case.messages, &options);
        match (case.expected, case.error) {
            (Some(expected), None) => assert_eq!(rendered.unwrap(), expected, "{}", case.name),
            (None, Some(reason)) => match rendered {
                Err(Error::InvalidRequest { message, .. }) => {
                    assert!(message.contains(&reason), "{}: {message}", case.name);
                }
                other => panic!("{}: expected {reason:?}, got {other:?}", case.name),
            },
            _ => panic!("{}: expected a text or an error", case.name),
        }
    }
}

#[test]
fn requests_with_tools_render_as_in_transformers() {
    let cases = tool_cases();
    assert!(cases.len() > 10);
    let tokenizer = fs::read(goldens().join("tokenizer_bytes/tokenizer.json")).expect("a file");
    for ToolCase { name, template, request, expected } in cases {
        let chat = Chat::new(&ChatFiles {
            tokenizer: &tokenizer,
            chat_template_jinja: Some(template.as_bytes()),
            ..ChatFiles::default()
        })
        .expect("chat files");
        let read = ChatCompletionRequest::read(&request).expect("a request");
        let conversation = read.validate().expect("a valid request").conversation;
        let prompt = chat.prompt(&conversation, None).expect("a prompt");
        let ids = chat.tokenizer().encode_prompt(&expected).expect("a text");
        assert_eq!(prompt.ids, ids, "{name}: {expected}");
    }
}
