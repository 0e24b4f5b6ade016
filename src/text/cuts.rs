//! Where a long text may be cut, so that its parts have the tokens of the whole.
//!
//! A cut lies behind a letter, before a character that ends words. Which letters and characters these are
//! is tried for each tokenizer: no word may reach across a cut, and what is on one side may change nothing
//! on the other. A tokenizer that does not split texts into words must have no token that reaches across.

use std::collections::BTreeSet;

use tokenizers::{AddedToken, Result};

use super::{added::Splitter, pause::pause, pipeline::Pipeline};
use crate::regex::Regex;

/// Bytes in which a cut is looked for at a time.
const SEARCH: usize = 2 << 10;

/// Letters of scripts, two of each to try, and characters that end their words.
const SCRIPTS: [(&str, [char; 2], &str); 8] = [
    ("a-zA-Z", ['n', 'N'], " \n,."),
    ("а-яА-Я", ['н', 'Н'], " \n,."),
    ("α-ωΑ-Ω", ['ν', 'Ν'], " \n,."),
    ("א-ת", ['נ', 'ה'], " \n,."),
    ("ب-غ", ['ب', 'ح'], " \n."),
    ("一-龥", ['中', '文'], "，。、\n"),
    ("ぁ-ゖァ-ヺ", ['か', 'ナ'], "，。、\n"),
    ("가-힣", ['가', '한'], " \n,."),
];
/// What may stand before the letter and behind the end of a word.
const BEFORE: [&str; 4] = ["n", " n", "1", ".\n"];
const BEHIND: [&str; 8] = ["", "n", " n", "\n\nN", "  1", "1", ".", "中"];

/// The places at which a tokenizer's texts may be cut.
pub struct Cuts {
    places: Option<Regex>,
}

impl Cuts {
    /// The cuts of a tokenizer with these stages; finding them out is work of several pieces.
    pub async fn new(pipeline: &Pipeline, splitter: &Splitter) -> Result<Cuts> {
        let mut places = Vec::new();
        let mut pairs = None;
        for (range, letters, ends) in SCRIPTS {
            let class = Regex::new(&format!("[{range}]"))?;
            let is_letter =
                |text: &str| class.find_all(text).map_or(true, |found| !found.is_empty());
            let mut good = String::new();
            for end in ends.chars() {
                let reaches = |token: &AddedToken| {
                    let content = &token.content;
                    let mut before = content.match_indices(end).map(|(at, _)| &content[..at]);
                    token.rstrip && is_letter(last(content))
                        || before.any(|before| is_letter(last(before)))
                };
                if pipeline.added().any(|(_, token)| reaches(token)) {
                    continue;
                }
                let Some(seen) = tried(pipeline, splitter, letters, end)? else { continue };
                if !seen.is_empty() {
                    let pairs = pairs.get_or_insert_with(|| Pairs::new(pipeline));
                    if seen.iter().any(|seen| pairs.reach(is_letter, *seen)) {
                        continue;
                    }
                }
                good.push(end);
            }
            if !good.is_empty() {
                places.push(format!("[{range}](?=[{good}])"));
            }
            pause().await;
        }
        let places = (!places.is_empty()).then(|| Regex::new(&places.join("|"))).transpose()?;
        Ok(Cuts { places })
    }

    /// The end of the part of at least so many bytes that begins at `from`: a cut, or the text's end.
    pub fn end(&self, text: &str, from: usize, bytes: usize) -> Result<usize> {
        let Some(places) = &self.places else { return Ok(text.len()) };
        let mut at = floor(text, from.saturating_add(bytes));
        while at < text.len() {
            let end = floor(text, at + SEARCH);
            if let Some((_, cut)) = places.find_all(&text[at..end])?.first() {
                return Ok(at + cut);
            }
            at = end;
        }
        Ok(text.len())
    }
}

/// Tries cuts between the letters and the end of a word. Returns the character that the model sees there
/// where a word reaches across, if it ever does; `None` if one side changes the other.
fn tried(
    pipeline: &Pipeline,
    splitter: &Splitter,
    letters: [char; 2],
    end: char,
) -> Result<Option<BTreeSet<char>>> {
    let pieces =
        |text: &str| pipeline.pieces(splitter.split(text, &pipeline.normalizers, |_, _| true)?);
    let mut seen = BTreeSet::new();
    for letter in letters {
        let alone = pieces(&letter.to_string())?;
        let [(alone, _)] = &alone[..] else { return Ok(None) };
        let lefts = BEFORE.map(|before| pieces(&format!("{before}{letter}")));
        for behind in BEHIND {
            let right = pieces(&format!("{letter}{end}{behind}"))?;
            let Some(((first, first_at), others)) = right.split_first() else { return Ok(None) };
            let Some(rest) = first.strip_prefix(alone) else { return Ok(None) };
            for (before, left) in BEFORE.iter().zip(&lefts) {
                let Ok(left) = left else { return Ok(None) };
                let mut parts = left.clone();
                if let (Some(first), Some((piece, at))) = (rest.chars().next(), parts.last_mut()) {
                    if !piece.ends_with(letter) {
                        return Ok(None);
                    }
                    seen.insert(first);
                    piece.push_str(rest);
                    at.end = first_at.end + before.len();
                }
                parts.extend(others.iter().map(|(piece, at)| {
                    (piece.clone(), at.start + before.len()..at.end + before.len())
                }));
                if parts != pieces(&format!("{before}{letter}{end}{behind}"))? {
                    return Ok(None);
                }
            }
        }
    }
    Ok(Some(seen))
}

/// Which characters follow each other in a model's tokens.
struct Pairs {
    pairs: BTreeSet<(char, char)>,
    alone: BTreeSet<char>,
}

impl Pairs {
    fn new(pipeline: &Pipeline) -> Pairs {
        let (mut pairs, mut alone) = (BTreeSet::new(), BTreeSet::new());
        for token in pipeline.model.get_vocab().into_keys() {
            let chars = || token.chars();
            // Between words there are no letters.
            pairs.extend(chars().zip(chars().skip(1)).filter(|(_, end)| !end.is_alphanumeric()));
            alone.extend(chars().next().filter(|first| token.len() == first.len_utf8()));
        }
        Pairs { pairs, alone }
    }

    /// Whether a token reaches from a letter to this end of a word. The unknown token may do so, too.
    fn reach(&self, is_letter: impl Fn(&str) -> bool, end: char) -> bool {
        let mut before = self.pairs.iter().filter(|(_, second)| *second == end);
        !self.alone.contains(&end)
            || end.is_alphanumeric()
            || before.any(|(first, _)| is_letter(first.encode_utf8(&mut [0; 4])))
    }
}

/// The last character.
fn last(text: &str) -> &str {
    text.char_indices().next_back().map_or("", |(at, _)| &text[at..])
}

/// The end of the last whole character within so many bytes.
fn floor(text: &str, bytes: usize) -> usize {
    (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{
        pause::at_once,
        quote::Unquoted,
        samples,
        tokenizer::{Control, Tokenizer},
    };

    fn tokenizers() -> Vec<Tokenizer> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens");
        let files = std::fs::read_dir(folder).expect("the goldens are there");
        let files =
            files.filter_map(|file| std::fs::read(file.ok()?.path().join("tokenizer.json")).ok());
        let built_in = concat!(env!("CARGO_MANIFEST_DIR"), "/www/model/tokenizer.json");
        let mut all = vec![samples::bytes(), samples::words(), samples::words_first()];
        all.push(std::fs::read(built_in).expect("the built-in model is there"));
        all.extend(files);
        all.iter().map(|json| Tokenizer::from_bytes(json).expect("a tokenizer")).collect()
    }

    /// Texts in several scripts, of words and all that may stand between them.
    fn texts() -> impl Strategy<Value = String> {
        let words = "[a-zA-Z]{1,9}|hi|tabloom|[0-9]{1,7}|[一-龥ぁ-ゖ]{1,6}|[а-яА-Я]{1,8}|[가-힣]{1,4}|é|e\u{301}|🙂";
        let between = " |  |   |\n|\n\n|\t|, |\\. |\\.|'s |'|-|，|。|、|<s>|<\\|end\\|>|<\\|user\\|>| <think>";
        let pairs = (words, between).prop_map(|(word, between)| word + &between);
        prop::collection::vec(pairs, 0..400).prop_map(|pairs| pairs.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn parts_have_the_tokens_of_the_whole(text in texts()) {
            for tokenizer in tokenizers().iter() {
                let written = Unquoted::new(&text);
                for control in [Control::Nowhere, Control::Anywhere, Control::Written(&written)] {
                    let ids = |part| at_once(tokenizer.encode(&text, control, part)).expect("tokens");
                    let whole = ids(usize::MAX);
                    for part in [1, 20, 300] {
                        prop_assert_eq!(&whole, &ids(part));
                    }
                }
            }
        }
    }

    #[test]
    fn usual_texts_are_cut() {
        for tokenizer in tokenizers() {
            for word in ["word ", "line\n", "слово "] {
                let text = word.repeat(1000);
                let mut from = 0;
                while from < text.len() {
                    let end = at_once(tokenizer.cuts())
                        .expect("cuts")
                        .end(&text, from, 100)
                        .expect("a part");
                    assert!(end - from <= 100 + 2 * word.len() || end == text.len(), "{word}");
                    assert!(end > from);
                    from = end;
                }
            }
        }
    }
}
