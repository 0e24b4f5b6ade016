//! llama.cpp's vocabulary suites: files of a vocabulary alone, with texts and their ids.

use std::fs;

use pollster::block_on;
use tabloom::text::Chat;
use tabloom::weights::{FolderSource, Reader, Source, gguf};

use super::files::real;

/// The suites that have texts, without `bert-bge`: a vocabulary of encoders, which do not load.
const SUITES: [&str; 14] = [
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
];

const BETWEEN: &str = "\n__ggml_vocab_test__\n";

async fn chat(file: &str) -> Chat {
    let folder = real("llama.cpp/vocabularies").display().to_string();
    let stream = FolderSource::new(folder).open(file).await.unwrap().expect(file);
    let (metadata, _) = gguf::read(file, &mut Reader::new(stream)).await.unwrap();
    Chat::from_gguf(file, &metadata).unwrap()
}

#[test]
fn vocabularies_give_the_ids_of_llama_cpp() {
    let mut wrong = Vec::new();
    for name in SUITES {
        let file = format!("ggml-vocab-{name}.gguf");
        let chat = block_on(chat(&file));
        let read = |end: &str| {
            let path = real(&format!("llama.cpp/vocabularies/{file}.{end}"));
            fs::read_to_string(path).expect(name)
        };
        let (texts, ids) = (read("inp"), read("out"));
        let texts: Vec<&str> =
            texts.strip_suffix(BETWEEN).unwrap_or(&texts).split(BETWEEN).collect();
        let ids: Vec<&str> = ids.lines().collect();
        assert!(
            ids.len() > 40 && texts.len() == ids.len(),
            "{name}: {}, {}",
            texts.len(),
            ids.len()
        );
        for (text, ids) in texts.into_iter().zip(ids) {
            let expected: Vec<u32> =
                ids.split_whitespace().map(|id| id.parse().expect("an id")).collect();
            let found = chat.tokenizer().encode_plain(text, false).expect(name);
            // Its tokenizer composes accents in transformers, and so do we.
            let is_composed = name != "qwen35" || !text.contains(['\u{300}', '\u{301}']);
            if found != expected && is_composed {
                wrong.push(format!("{name}: {text:?} gave {found:?}, expected {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
