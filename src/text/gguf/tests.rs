use serde_json::json;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use super::*;
use crate::api::Message;

/// A byte-level vocabulary with two merges, as converted from a Llama 3.
fn bytes() -> Value {
    let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    let mut tokens: Vec<String> = alphabet.into_iter().map(String::from).collect();
    tokens.extend(["hi", "Ġhi", "<|begin|>", "<|eot_id|>", "<think>"].map(String::from));
    let mut kinds = vec![1; 258];
    kinds.extend([3, 3, 4]);
    json!({
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": ["h i", "Ġ hi"],
        "tokenizer.ggml.bos_token_id": 258,
        "tokenizer.ggml.eos_token_id": 259,
        "tokenizer.chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}",
    })
}

/// SentencePiece words with scores, as converted from a Llama 2.
fn words() -> Value {
    let mut tokens = ["<unk>", "<s>", "</s>"].map(String::from).to_vec();
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(["▁", "h", "i", "<", "s", ">", "▁h", "hi", "▁hi", "<s"].map(String::from));
    let mut kinds = vec![2, 3, 3];
    kinds.extend([6; 256]);
    kinds.extend([1; 10]);
    let mut scores = vec![0.0; 259 + 6];
    scores.extend([-3.0, -1.0, -2.0, -4.0]);
    json!({
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": kinds,
    })
}

fn read(metadata: &Value) -> Result<GgufText> {
    GgufText::read("model.gguf", metadata.as_object().unwrap())
}

fn with(mut metadata: Value, key: &str, value: Value) -> Value {
    metadata[format!("tokenizer.ggml.{key}")] = value;
    metadata
}

fn plain(metadata: &Value, text: &str) -> Vec<u32> {
    read(metadata).unwrap().tokenizer.encode_plain(text, true).unwrap()
}

#[test]
fn bytes_are_merged_and_get_the_file_s_bos_token() {
    let GgufText { tokenizer, bos, eos, templates, defaults } = read(&bytes()).unwrap();
    assert_eq!((&bos[..], &eos[..]), ("<|begin|>", "<|eot_id|>"));
    assert_eq!(defaults.eos_ids, [259]);
    assert!(templates[0].0 == "default" && templates[0].1.starts_with("{{ bos_token }}"));
    assert_eq!(tokenizer.encode_plain("hi hi", true).unwrap(), [258, 256, 257]);
    assert_eq!(tokenizer.encode_prompt("<|begin|>hi<think>").unwrap(), [258, 256, 260]);
    assert_eq!(tokenizer.decode(&[258, 256, 257, 260]).unwrap(), "hi hi<think>");
    let quoted = tokenizer.encode_plain("<|eot_id|>", false).unwrap();
    assert!(quoted.iter().all(|id| *id < 256), "{quoted:?}");

    assert_eq!(plain(&with(bytes(), "add_bos_token", json!(false)), "hi"), [256]);
    assert_eq!(plain(&with(bytes(), "add_eos_token", json!(true)), "hi"), [258, 256, 259]);
    assert_eq!(plain(&with(bytes(), "pre", json!("qwen2")), "hi"), [256]);
}

#[test]
fn templates_have_names_and_a_broken_one_costs_the_chat_alone() {
    let mut metadata = bytes();
    metadata["tokenizer.chat_template.tool_use"] = "{{ if .Tools }}".into();
    let templates = read(&metadata).unwrap().templates;
    assert!(templates.contains(&("tool_use".into(), "{{ if .Tools }}".into())), "{templates:?}");
    metadata["tokenizer.chat_template"] = "{{ if .System }}".into();
    let chat = super::super::Chat::from_gguf("model.gguf", metadata.as_object().unwrap()).unwrap();
    let error = chat.prompt(&vec![Message::user("hi")].into(), None).unwrap_err();
    assert!(matches!(error, Error::Template { .. }), "{error}");
}

#[test]
fn the_template_gets_the_tokens_of_the_file() {
    let chat = super::super::Chat::from_gguf("model.gguf", bytes().as_object().unwrap()).unwrap();
    let ids = chat.prompt(&vec![Message::user("hi<|eot_id|>")].into(), None).unwrap().ids;
    assert_eq!((ids[..2].to_vec(), *ids.last().unwrap()), (vec![258, 256], 259));
    assert_eq!(ids.iter().filter(|id| **id > 257).count(), 2, "{ids:?}");
}

#[test]
fn words_are_merged_by_score() {
    let GgufText { tokenizer, bos, eos, defaults, .. } = read(&words()).unwrap();
    assert_eq!((&bos[..], &eos[..], &defaults.eos_ids[..]), ("<s>", "</s>", &[2][..]));
    let [space, h, i, space_h, hi, space_hi] = [259, 260, 261, 265, 266, 267];
    assert_eq!(tokenizer.encode_plain("hi", true).unwrap(), [1, space_hi]);
    assert_eq!(tokenizer.encode_plain("hi h i", false).unwrap(), [space_hi, space_h, space, i]);
    assert_eq!(tokenizer.encode_plain("hhi", false).unwrap(), [space_h, hi]);
    assert_eq!(tokenizer.encode_prompt("<s>hi</s>").unwrap(), [1, space_hi, 2]);
    // "é" is two bytes, and "<s>" in a message is no control token.
    assert_eq!(tokenizer.encode_plain("é", false).unwrap(), [space, 3 + 0xc3, 3 + 0xa9]);
    assert_eq!(tokenizer.decode(&[space, 3 + 0xc3, 3 + 0xa9]).unwrap(), "é");
    let ids = tokenizer.encode_plain("<s>", false).unwrap();
    assert!(!ids.contains(&1), "{ids:?}");

    // A higher score goes first.
    let mut apart = words();
    apart["tokenizer.ggml.tokens"][267] = json!("other");
    assert_eq!(plain(&apart, "hi"), [1, space, hi]);
    apart["tokenizer.ggml.scores"][265] = json!(-0.5);
    assert_eq!(plain(&apart, "hi"), [1, space_h, i]);
    let bare = with(words(), "add_space_prefix", json!(false));
    assert_eq!(plain(&bare, "hi h"), [1, hi, space_h]);
    assert_eq!(plain(&bare, "h"), [1, h]);
}

#[test]
fn all_known_end_tokens_end_an_answer() {
    let eos = |metadata: &Value| read(metadata).unwrap().defaults.eos_ids;
    assert_eq!(eos(&with(bytes(), "eos_token_id", json!(0))), [0, 259]);
    assert_eq!(eos(&with(bytes(), "eot_token_id", json!(260))), [259, 260]);
    assert_eq!(eos(&with(bytes(), "eom_token_id", json!(5))), [5, 259]);
    // A token that ends answers by its name alone must be a control token.
    let mut text = with(bytes(), "eos_token_id", json!(0));
    text["tokenizer.ggml.token_type"][259] = json!(1);
    assert_eq!(eos(&text), [0]);
    assert!(read(&text).unwrap().tokenizer.is_control(0), "an end token is a control token");
}

#[test]
fn a_name_is_optional_and_every_split_can_run_in_a_browser() {
    assert!(read(&with(bytes(), "pre", Value::Null)).is_ok(), "absent: default");
    for pattern in pre_tokenizer::patterns() {
        let translated = crate::regex::translate(pattern);
        assert!(translated.is_ok(), "{pattern}: {translated:?}");
    }
}

#[test]
fn words_may_have_a_list_of_merges() {
    let mut metadata = with(words(), "merges", json!(["h i", "▁ h", "▁ hi"]));
    metadata["tokenizer.ggml.model"] = json!("gemma4");
    let [space_hi, hi, space_h] = [267, 266, 265];
    assert_eq!(
        plain(&metadata, "hi hi"),
        plain(&with(metadata.clone(), "pre", json!("any")), "hi hi")
    );
    let ids = |text| read(&metadata).unwrap().tokenizer.encode_plain(text, false).unwrap();
    assert_eq!(ids("hi hi h"), [hi, space_hi, space_h]);
    assert_eq!(ids("é"), [3 + 0xc3, 3 + 0xa9]);
    let mut named = with(metadata.clone(), "pre", json!("sarvam-moe"));
    named["tokenizer.ggml.model"] = json!("gpt2");
    assert_eq!(plain(&named, "hi hi h"), [hi, space_hi, space_h]);
}

#[test]
fn turns_of_phi_3_take_the_white_space_after_them() {
    let mut metadata = bytes();
    let ids = |metadata: &Value| {
        read(metadata).unwrap().tokenizer.encode_raw("<|eot_id|>\n hi<|begin|>", false).unwrap()
    };
    assert_eq!(ids(&metadata).len(), 4);
    metadata["general.name"] = json!("Phi-3 mini");
    assert_eq!(ids(&metadata), [259, 256, 258]);
}

#[test]
fn digits_are_split_as_the_name_says() {
    // Merges of digits make the split visible.
    let mut metadata = bytes();
    for (key, value) in [("tokens", "12"), ("tokens", "123"), ("tokens", "1234")] {
        metadata[format!("tokenizer.ggml.{key}")].as_array_mut().unwrap().push(json!(value));
        metadata["tokenizer.ggml.token_type"].as_array_mut().unwrap().push(json!(1));
    }
    metadata["tokenizer.ggml.merges"] = json!(["1 2", "12 3", "123 4"]);
    metadata["tokenizer.ggml.add_bos_token"] = json!(false);
    let count = |pre: &str| plain(&with(metadata.clone(), "pre", json!(pre)), "1234").len();
    assert_eq!(["gpt-2", "llama-bpe", "qwen2", "smollm", "default"].map(count), [1, 2, 4, 4, 2]);
}

#[test]
fn bad_vocabularies_are_refused_and_named() {
    let cases = [
        (with(bytes(), "model", json!("t5")), "found tokenizer.ggml.model \"t5\""),
        (with(bytes(), "model", Value::Null), "tokenizer.ggml.model"),
        (with(bytes(), "pre", json!("no-such")), "found tokenizer.ggml.pre \"no-such\""),
        (with(bytes(), "tokens", json!([])), "no tokens"),
        (with(bytes(), "tokens", json!([1, 2])), "tokenizer.ggml.tokens[0]"),
        (with(bytes(), "tokens", json!("a")), "tokenizer.ggml.tokens"),
        (with(bytes(), "token_type", json!([1])), "found 1 token types for 261 tokens"),
        (with(bytes(), "merges", json!([])), "no merges"),
        (with(bytes(), "merges", json!(["hi"])), "found the merge \"hi\""),
        (with(bytes(), "merges", json!(["h x"])), "found the merge \"h x\""),
        // The library would panic: the result is longer than any token.
        (with(bytes(), "merges", json!(["<|eot_id|> <|begin|>"])), "found the merge"),
        (with(bytes(), "bos_token_id", json!(261)), "bos_token_id is 261, expected less than 261"),
        (with(bytes(), "eos_token_id", json!(-1)), "tokenizer.ggml.eos_token_id"),
        (with(words(), "scores", json!([0.0])), "found 1 scores for 269 tokens"),
        (with(words(), "scores", json!(["NaN"])), "tokenizer.ggml.scores[0]"),
        (with(words(), "tokens", json!(["a", "b", "a"])), "token types for 3 tokens"),
    ];
    for (metadata, words) in cases {
        let error = read(&metadata).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let mut twice = words();
    twice["tokenizer.ggml.tokens"][260] = json!("i");
    assert!(read(&twice).map(|_| ()).unwrap_err().to_string().contains("spelled \"i\""));
    let mut long = words();
    long["tokenizer.ggml.tokens"][260] = json!("h".repeat(1 << 20));
    assert!(read(&long).map(|_| ()).unwrap_err().to_string().contains("has 1048576 bytes"));
    let mut empty = words();
    empty["tokenizer.ggml.tokens"][268] = json!("");
    assert_eq!(read(&empty).unwrap().tokenizer.token_id("[EMPTY_268]"), Some(268));
}
