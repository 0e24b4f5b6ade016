//! Regular expressions against Hugging Face's tokenizers, natively and with a browser's own.

use serde::Deserialize;
use tabloom::regex::Regex;

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
