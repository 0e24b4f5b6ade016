//! Regular expressions with the browser's `RegExp`.

use js_sys::JsString;
use tokenizers::Result;
use wasm_bindgen::prelude::*;

use super::ecmascript;

#[wasm_bindgen]
extern "C" {
    type RegExp;
    type Match;

    #[wasm_bindgen(constructor, catch)]
    fn new(pattern: &str, flags: &str) -> std::result::Result<RegExp, JsValue>;

    /// The next match from `lastIndex` on; sets `lastIndex` to its end.
    #[wasm_bindgen(method)]
    fn exec(this: &RegExp, text: &JsString) -> Option<Match>;

    #[wasm_bindgen(method, getter, js_name = lastIndex)]
    fn last_index(this: &RegExp) -> u32;

    #[wasm_bindgen(method, setter, js_name = lastIndex)]
    fn set_last_index(this: &RegExp, index: u32);

    #[wasm_bindgen(method, getter)]
    fn index(this: &Match) -> u32;
}

/// A regular expression.
pub struct Regex(RegExp);

impl Regex {
    pub fn new(pattern: &str) -> Result<Regex> {
        let translated = ecmascript::translate(pattern)?;
        let refused = |_| format!("this browser cannot use the regular expression {pattern:?}");
        Ok(Regex(RegExp::new(&translated, "gv").map_err(refused)?))
    }

    /// Start and end of all matches, in order, in bytes.
    pub fn find_all(&self, text: &str) -> Result<Vec<(usize, usize)>> {
        let script = JsString::from(text);
        let mut bytes = Bytes { text, index: 0, byte: 0 };
        let mut found: Vec<(usize, usize)> = Vec::new();
        self.0.set_last_index(0);
        while let Some(at) = self.0.exec(&script) {
            let (start, end) = (at.index(), self.0.last_index());
            let (start_byte, end_byte) = (bytes.at(start), bytes.at(end));
            // An empty match right after a match does not count.
            let is_end = found.last().is_some_and(|&(_, last)| last == end_byte);
            if start < end || !is_end {
                found.push((start_byte, end_byte));
            }
            if start == end {
                self.0.set_last_index(end + bytes.next_char());
            }
        }
        Ok(found)
    }
}

/// A position in a text, in UTF-16 code units and in bytes.
struct Bytes<'a> {
    text: &'a str,
    index: u32,
    byte: usize,
}

impl Bytes<'_> {
    /// Converts an index to a byte position; indices must not decrease.
    fn at(&mut self, index: u32) -> usize {
        for c in self.text[self.byte..].chars() {
            if self.index >= index {
                break;
            }
            self.index += c.len_utf16() as u32;
            self.byte += c.len_utf8();
        }
        self.byte
    }

    /// Code units of the character here; 1 at the end.
    fn next_char(&self) -> u32 {
        self.text[self.byte..].chars().next().map_or(1, |c| c.len_utf16() as u32)
    }
}
