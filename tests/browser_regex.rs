//! Regular expressions against Hugging Face's tokenizers and llama.cpp's, natively and with a browser's own.

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use tabloom::{regex::Regex, text::Chat};
use tokenizers::NormalizedString;

#[cfg(target_arch = "wasm32")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

#[derive(Deserialize)]
struct Goldens {
    patterns: Vec<Named>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    pattern: String,
}

/// A text in pieces, by each pattern.
#[derive(Deserialize)]
struct Case {
    text: String,
    pieces: Vec<Vec<String>>,
}

/// The matches of a pattern, and the texts between them.
fn pieces<'a>(regex: &Regex, text: &'a str) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let mut end = 0;
    for (from, to) in regex.find_all(text).unwrap() {
        pieces.extend([&text[end..from], &text[from..to]]);
        end = to;
    }
    pieces.push(&text[end..]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn texts_split_as_in_python() {
    let goldens: Goldens = serde_json::from_str(include_str!("goldens/splits.json")).unwrap();
    assert!(goldens.patterns.len() > 10 && goldens.cases.len() > 100);
    for (at, Named { name, pattern }) in goldens.patterns.iter().enumerate() {
        let regex = Regex::new(pattern).unwrap();
        for case in &goldens.cases {
            assert_eq!(pieces(&regex, &case.text), case.pieces[at], "{name}: {:?}", case.text);
        }
    }
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn words_have_letters_of_any_script() {
    let words = |pattern| pieces(&Regex::new(pattern).unwrap(), "naïve_1, слово!");
    assert_eq!(words(r"\w+"), ["naïve_1", ", ", "слово", "!"]);
    assert_eq!(words(r"\W"), ["naïve_1", ",", " ", "слово", "!"]);
    assert_eq!(words(r".\b"), ["naïve_", "1", ",", " ", "слов", "о", "!"]);
    assert_eq!(words(r"[^\w,]\B"), ["naïve_1, слово", "!"]);
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn an_invalid_expression_is_an_error() {
    for pattern in ["(", "[a", "*", r"\p{NoSuchScript}", "a{2,1}"] {
        assert!(Regex::new(pattern).is_err(), "{pattern}");
    }
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn empty_matches_terminate() {
    let regex = Regex::new("b*").unwrap();
    assert_eq!(regex.find_all("a🙂bb").unwrap(), [(0, 0), (1, 1), (5, 7)]);
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

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn texts_are_split_as_in_llama_cpp_under_every_name() {
    let golden: Splits = serde_json::from_str(include_str!("goldens/gguf_splits.json")).unwrap();
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
