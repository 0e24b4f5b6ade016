//! GGUF files against transformers and its tokenizers, for the same models.

use std::{fs, path::PathBuf};

use crate::support::goldens::{Golden, executor, folder};
use pollster::block_on;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use tabloom::{
    api::Message,
    executor::AnyExecutor,
    load::{self, Device, LoadOptions},
    text::Chat,
    weights::{ByteStream, FolderSource, Reader, Source, gguf},
};
use tokenizers::NormalizedString;

/// The folder of the same weights that has the golden.
const MODELS: [(&str, Option<&str>); 16] = [
    ("llama3_bf16", Some("llama3_bf16")),
    ("qwen2_bf16", Some("qwen2_bf16")),
    ("qwen3_f32", Some("qwen3_f32")),
    ("llama_q4_0", None),
    ("llama_q4_1", None),
    ("llama_mixed", None),
    ("qwen3moe_mixed", None),
    ("gpt_oss_bf16", Some("gpt_oss_bf16")),
    ("smollm3_bf16", Some("smollm3_bf16")),
    ("phi3_long_bf16", Some("phi3_long_bf16")),
    ("granite_f32", Some("granite_f32")),
    ("olmo2_f32", Some("olmo2_f32")),
    ("gemma2_bf16", Some("gemma2_bf16")),
    ("gemma3_bf16", Some("gemma3_bf16")),
    ("gpt2_f32", Some("gpt2_f32")),
    ("mixtral_bf16", Some("mixtral_bf16")),
];
/// On the CPU, the models before these differ only in metadata and tensor names.
const ON_GPU: usize = 8;

fn path(file: &str) -> PathBuf {
    PathBuf::from(folder("gguf")).join(file)
}

fn golden(name: &str, same: Option<&str>) -> Golden {
    match same {
        Some(same) => crate::support::goldens::golden(same),
        None => {
            let read = |ending| fs::read(path(&format!("{name}.{ending}"))).expect(name);
            Golden::parse(&read("json"), &read("bin"))
        }
    }
}

fn check(device: Device, models: &[(&str, Option<&str>)]) {
    for (name, same) in models {
        let source = FolderSource::new(path(&format!("{name}.gguf")));
        let executor = block_on(executor(&source, device)).expect(name);
        block_on(golden(name, *same).check(name, executor));
    }
}

#[test]
fn models_agree_with_transformers_on_the_cpu() {
    check(Device::Cpu, &MODELS);
}

#[test]
fn models_agree_with_transformers_on_the_gpu() {
    check(Device::Gpu, &MODELS[..ON_GPU]);
}

#[derive(Deserialize)]
struct Texts {
    texts: Vec<Text>,
    chats: Vec<Conversation>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    ids: Vec<u32>,
    decoded: String,
}

#[derive(Deserialize)]
struct Conversation {
    messages: Vec<Turn>,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
}

async fn chat(name: &str) -> Chat {
    let file = format!("{name}.gguf");
    let stream = FolderSource::new(folder("gguf")).open(&file).await.unwrap().expect(name);
    assert!(stream.length().is_some());
    let (metadata, _) = gguf::read(&file, &mut Reader::new(stream)).await.unwrap();
    Chat::from_gguf(&file, &metadata).unwrap()
}

#[test]
fn vocabularies_give_the_ids_of_their_original_tokenizers() {
    for name in ["tokenizer_bytes", "tokenizer_words"] {
        let chat = block_on(chat(name));
        let json = fs::read(PathBuf::from(folder(name)).join("golden.json")).expect(name);
        let golden: Texts = serde_json::from_slice(&json).expect(name);
        assert!(golden.texts.len() > 10 && golden.chats.len() > 2);
        for Text { text, ids, decoded } in &golden.texts {
            // The split that has a name in GGUF files does not compose accents.
            if name == "tokenizer_bytes" && text.contains(['\u{301}', '\u{30a}']) {
                continue;
            }
            assert_eq!(chat.tokenizer().encode_prompt(text).unwrap(), *ids, "{name}: {text:?}");
            assert_eq!(chat.tokenizer().decode(ids).unwrap(), *decoded, "{name}: {text:?}");
        }
        for Conversation { messages, ids } in &golden.chats {
            let messages: Vec<_> = messages
                .iter()
                .map(|Turn { role, content }| match role.as_str() {
                    "system" => Message::system(content),
                    "assistant" => Message::assistant(content),
                    _ => Message::user(content),
                })
                .collect();
            assert_eq!(chat.prompt(&messages.into(), None).unwrap().ids, *ids, "{name}");
        }
    }
}

#[test]
fn a_model_without_a_vocabulary_is_an_error() {
    let source = FolderSource::new(path("llama_q4_0.gguf"));
    let options = LoadOptions { device: Device::Cpu, ..LoadOptions::default() };
    let opened = block_on(load::Opened::open(&source)).unwrap();
    let error = block_on(opened.chat()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("llama_q4_0.gguf") && error.contains("tokenizer.ggml.model"), "{error}");
    let prepared = opened.prepare(&options).unwrap();
    let executor = block_on(prepared.load(|_| std::ops::ControlFlow::Continue(()))).unwrap();
    assert!(matches!(executor.executor, AnyExecutor::Cpu(_)));
}

/// `golden_gguf_splits.py` writes it.
#[derive(Deserialize)]
struct Splits {
    tokens: Vec<Vec<String>>,
    merges: Vec<Vec<String>>,
    texts: Vec<String>,
    /// A name and the start of the SHA-256 of each text's ids.
    names: Vec<(String, Vec<String>)>,
}

/// Names for which llama.cpp has an expression without the cases of letters beyond ASCII.
const APPROXIMATED: [&str; 11] = [
    "cohere2moe",
    "gpt-4o",
    "granite-embed-multi-97m",
    "kanana2",
    "kimi-k2",
    "llama4",
    "minimax-m2",
    "talkie",
    "tekken",
    "tiny_aya",
    "youtu",
];

/// Whether llama.cpp splits a text as the model's `tokenizer.json` does. It does not compose accents,
/// takes some classes for ASCII alone, and under `afmoe` leaves numbers to the blanks before them.
fn is_comparable(name: &str, text: &str) -> bool {
    let is_composed = NormalizedString::from(text).nfc().get() == text;
    let is_classed = |c: char| c.is_whitespace() || c.is_numeric() || c == 'ſ';
    is_composed
        && !text.contains(|c: char| !c.is_ascii() && is_classed(c))
        && (text.is_ascii() || !APPROXIMATED.contains(&name))
        && !(name == "afmoe" && text.contains("  1"))
}

#[test]
fn texts_are_split_as_in_llama_cpp_under_every_name() {
    let json = fs::read(path("../gguf_splits.json")).expect("golden file");
    let golden: Splits = serde_json::from_slice(&json).expect("golden JSON");
    assert!(golden.names.len() > 80 && golden.texts.len() > 70);
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (name, expected) in &golden.names {
        let metadata = json!({
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": name,
            "tokenizer.ggml.tokens": golden.tokens[0],
            "tokenizer.ggml.merges": golden.merges[0],
        });
        let chat = Chat::from_gguf("model.gguf", metadata.as_object().unwrap()).expect(name);
        for (text, expected) in golden.texts.iter().zip(expected) {
            let ids = chat.tokenizer().encode_raw(text, false).expect(name);
            let written: Vec<String> = ids.iter().map(u32::to_string).collect();
            let digest = Sha256::digest(written.join(" "));
            let found: String = digest[..3].iter().map(|byte| format!("{byte:02x}")).collect();
            if !is_comparable(name, text) {
                continue;
            }
            compared += 1;
            if found != *expected {
                let pieces: Vec<_> =
                    ids.iter().map(|id| chat.tokenizer().decode(&[*id]).unwrap()).collect();
                wrong.push(format!("{name}: {text:?} gave {pieces:?}"));
            }
        }
    }
    assert!(compared > 2000, "{compared}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
