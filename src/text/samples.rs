//! Small tokenizers for tests, in the two common layouts.

use serde_json::{Map, Value, json};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

/// Byte-level BPE after a regular expression, as in Llama 3 and Qwen.
///
/// Whole words are looked up before any merge (`ignore_merges`), and the file still has the
/// truncation settings of its training.
pub fn bytes() -> Vec<u8> {
    let mut vocab = Map::new();
    let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    let letters = alphabet.iter().map(char::to_string);
    let words = ["<|end|>", "hi", "Ġhi", "ðŁ"].map(String::from);
    for (id, token) in letters.chain(words).enumerate() {
        vocab.insert(token, json!(id));
    }
    let mut added = vec![
        added_token(256, "<|end|>", true),
        added_token(260, "<|user|>", true),
        added_token(261, "<think>", false),
        added_token(262, "</think>", false),
        added_token(263, "   ", false),
        added_token(264, "tabloom", false),
        added_token(265, "<｜bos｜>", true),
    ];
    added[1]["rstrip"] = json!(true);
    tokenizer(json!({
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "ignore_merges": true, "vocab": vocab,
            "merges": [["h", "i"], ["Ġ", "hi"], ["ð", "Ł"]],
        },
    }))
}

/// SentencePiece words with a leading `▁` and byte fallback, as in Llama 2.
///
/// Its merges can produce the control token `<s>`.
pub fn words() -> Vec<u8> {
    tokenizer(json!({
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]},
        "pre_tokenizer": null,
    }))
}

/// The same words, but only the first of a text gets a `▁`, as in Mistral.
pub fn words_first() -> Vec<u8> {
    tokenizer(json!({
        "normalizer": null,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false},
    }))
}

/// A `tokenizer.json` of words, with these sections replaced.
fn tokenizer(changes: Value) -> Vec<u8> {
    let mut vocab = Map::new();
    let specials = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"].map(String::from);
    let bytes = (0..=255).map(|byte| format!("<0x{byte:02X}>"));
    let letters = "▁abcdefghijklmnopqrstuvwxyz.<>/|[]INST".chars().map(String::from);
    let merged = ["▁h", "hi", "▁hi", "<s"].map(String::from);
    for token in specials.iter().cloned().chain(bytes).chain(letters).chain(merged) {
        let id = vocab.len();
        vocab.entry(token).or_insert(json!(id));
    }
    let added: Vec<_> =
        specials.iter().enumerate().map(|(id, token)| added_token(id, token, true)).collect();
    let mut file = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
            "vocab": vocab, "merges": [["h", "i"], ["▁", "h"], ["▁", "hi"], ["<", "s"], ["<s", ">"]],
        },
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        file[key] = value.clone();
    }
    file.to_string().into_bytes()
}

fn added_token(id: usize, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "special": special,
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
    })
}
