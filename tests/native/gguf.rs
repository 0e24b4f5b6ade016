//! GGUF files against transformers and its tokenizers, for the same models.

use std::{fs, path::PathBuf};

use crate::support::goldens::{Golden, executor, folder};
use pollster::block_on;
use serde::Deserialize;
use tabloom::{
    api::Message,
    executor::AnyExecutor,
    load::{self, Device, LoadOptions},
    text::Chat,
    weights::{ByteStream, FolderSource, Reader, Source, gguf},
};

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
