//! Text to token ids, with the pipeline of a `tokenizer.json`.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::OnceLock;

use serde_json::Value;
use tokenizers::AddedToken;
use tokenizers::tokenizer::{Model, Token};

use super::added::Splitter;
use super::cuts::Cuts;
use super::json;
use super::pause::{PIECE_BYTES, at_once, pause};
use super::pipeline::Pipeline;
use super::quote::{ESCAPE, Quoter, Unquoted};
use super::tokenizer_json::TokenizerJson;
use crate::api::Role;
use crate::error::{Error, Result};

/// A tokenizer that produces control tokens only where a chat template wrote them.
///
/// Control tokens are the file's special tokens and those that a template names:
/// [`Tokenizer::reserve`]. All other added tokens are text. The ids equal those of the file's own
/// pipeline; where a text may give no control tokens, those of the pipeline without them.
pub struct Tokenizer {
    pipeline: Pipeline,
    /// Finds added tokens.
    splitter: Splitter,
    /// Ids that only a template's text may produce.
    control: HashSet<u32>,
    /// Ids that decode to no text.
    special: HashSet<u32>,
    /// Quotes all control tokens.
    quoter: Quoter,
    /// Quotes the control tokens that the model never writes as text.
    quoter_for_model: Quoter,
    max_id: u32,
    cuts: OnceLock<Cuts>,
}

impl Tokenizer {
    /// Reads the bytes of a `tokenizer.json`.
    pub fn from_bytes(json: &[u8]) -> Result<Self> {
        let file: TokenizerJson = json::parse_large("tokenizer.json", json)?;
        Tokenizer::new(file.build().map_err(failed)?)
    }

    pub(super) fn new(pipeline: Pipeline) -> Result<Self> {
        let max_id = pipeline.max_id().ok_or_else(|| Error::Tokenizer {
            message: "its vocabulary is empty, expected tokens".into(),
        })?;
        let special: HashSet<u32> =
            pipeline.added().filter(|(_, token)| token.special).map(|(id, _)| id).collect();
        Ok(Tokenizer {
            splitter: splitter(&pipeline, &special)?,
            quoter: quoter(&pipeline, &special),
            quoter_for_model: quoter(&pipeline, &special),
            control: special.clone(),
            special,
            pipeline,
            max_id,
            cuts: OnceLock::new(),
        })
    }

    /// Makes the added tokens that a chat template writes control tokens. They are those in its
    /// source, or in a text that it rendered, that are a word with marks, such as `<think>`.
    pub fn reserve(&mut self, written: &str) -> Result<()> {
        let is_named =
            |token: &AddedToken| is_tag(&token.content) && written.contains(&token.content);
        let named = self.pipeline.added().filter(|(_, token)| is_named(token));
        let control: HashSet<u32> = named.map(|(id, _)| id).chain(self.control.clone()).collect();
        if control.len() > self.control.len() {
            self.splitter = splitter(&self.pipeline, &control)?;
            self.quoter = quoter(&self.pipeline, &control);
            self.control = control;
        }
        Ok(())
    }

    /// Ids of a text in which nothing is a control token.
    ///
    /// `add_special` adds the file's begin and end tokens, such as the BOS token of Llama models.
    pub fn encode_plain(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        at_once(self.plain_ids(text, add_special))
    }

    /// As [`Tokenizer::encode_plain`], with pauses in a long text.
    pub async fn plain_ids(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        self.framed(self.encode(text, Control::Nowhere, PIECE_BYTES).await?, add_special)
    }

    /// Ids of a text whose author may write control tokens; `add_special` as in
    /// [`Tokenizer::encode_plain`].
    pub fn encode_raw(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        at_once(self.raw_ids(text, add_special))
    }

    /// As [`Tokenizer::encode_raw`], with pauses in a long text.
    pub async fn raw_ids(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        self.framed(self.encode(text, Control::Anywhere, PIECE_BYTES).await?, add_special)
    }

    /// Ids of a prompt that a template rendered from [`Tokenizer::quote`]d texts.
    pub fn encode_prompt(&self, rendered: &str) -> Result<Vec<u32>> {
        at_once(self.prompt_ids(rendered))
    }

    /// As [`Tokenizer::encode_prompt`], with pauses in a long prompt.
    pub async fn prompt_ids(&self, rendered: &str) -> Result<Vec<u32>> {
        let prompt = Unquoted::new(rendered);
        self.checked(self.encode(&prompt.text, Control::Written(&prompt), PIECE_BYTES).await?)
    }

    /// Prepares a message's text for a template, so that it cannot produce a control token.
    ///
    /// In a text by the assistant, control tokens that the model writes as text
    /// (`</think>`, `<tool_call>`) stay: templates look for them there.
    pub fn quote(&self, author: Role, text: &str) -> String {
        match author {
            Role::Assistant => self.quoter_for_model.quote(text),
            Role::System | Role::User | Role::Tool => self.quoter.quote(text),
        }
    }

    /// Quotes all strings in a JSON value, keys included, against all control tokens.
    pub fn quote_json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.quoter.quote(text).into(),
            Value::Array(values) => values.iter().map(|value| self.quote_json(value)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (self.quoter.quote(name), self.quote_json(value)))
                .collect(),
            other => other.clone(),
        }
    }

    /// The text of token ids, without special tokens; invalid UTF-8 becomes U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let mut bytes = Vec::new();
        for &id in ids {
            bytes.extend(self.bytes(id)?);
        }
        let text = String::from_utf8_lossy(&bytes);
        let mut text = text.as_ref();
        let (content, most) = self.leading_strip().unwrap_or_default();
        for _ in 0..most {
            let Some(rest) = text.strip_prefix(content) else { break };
            text = rest;
        }
        Ok(text.to_owned())
    }

    /// The id of the token with this content, special or not.
    pub fn token_id(&self, content: &str) -> Option<u32> {
        self.pipeline.token_to_id(content)
    }

    /// The first id whose token differs between the two tokenizers, or whose token has different ids.
    /// Tokens that only one of them has are ignored.
    pub fn first_difference(&self, other: &Tokenizer) -> Option<u32> {
        (0..=other.max_id).find(|id| {
            let Some(token) = other.pipeline.id_to_token(*id) else { return false };
            match self.pipeline.id_to_token(*id) {
                Some(own) => own != token,
                None => self.token_id(&token).is_some(),
            }
        })
    }

    /// Returns true if and only if the token was added to the vocabulary from which text is spelled.
    pub fn is_added(&self, id: u32) -> bool {
        self.pipeline.added_token(id).is_some()
    }

    /// The largest id.
    pub fn max_id(&self) -> u32 {
        self.max_id
    }

    /// Returns true if and only if the id gives no text.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    /// Returns true if and only if the id is one that only a template may give.
    pub fn is_control(&self, id: u32) -> bool {
        self.control.contains(&id)
    }

    /// The bytes of each id below `count`; empty for special and unknown ids.
    pub fn spellings(&self, count: usize) -> Result<Vec<Vec<u8>>> {
        (0..count as u32).map(|id| self.bytes(id)).collect()
    }

    /// The bytes of a token; empty for special and unknown ids.
    pub(super) fn bytes(&self, id: u32) -> Result<Vec<u8>> {
        match self.pipeline.id_to_token(id) {
            Some(token) if !self.special.contains(&id) => {
                self.pipeline.spelling.bytes(token).map_err(failed)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The bytes to display a token with: its text, or its name if it is special.
    pub fn spell(&self, id: u32) -> Result<Vec<u8>> {
        match self.pipeline.id_to_token(id) {
            Some(name) if self.special.contains(&id) => Ok(name.into_bytes()),
            _ => self.bytes(id),
        }
    }

    /// The character that is stripped from the start of a text, and how often at most.
    pub fn leading_strip(&self) -> Option<(char, usize)> {
        self.pipeline.spelling.strip()
    }

    /// Ids of a text, with pauses between parts of about so many bytes.
    pub(super) async fn encode(
        &self,
        text: &str,
        control: Control<'_>,
        part: usize,
    ) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        let mut from = 0;
        loop {
            let end = match text.len() - from > part.saturating_mul(2) {
                true => self.cuts().await?.end(text, from, part).map_err(failed)?,
                false => text.len(),
            };
            ids.extend(self.encode_part(text, from..end, control)?);
            if end == text.len() {
                return Ok(ids);
            }
            from = end;
            pause().await;
        }
    }

    /// Ids of a part of a text that begins at its start or at a cut.
    fn encode_part(&self, text: &str, at: Range<usize>, control: Control) -> Result<Vec<u32>> {
        // The letter before a cut keeps the part from being taken for the start of a text.
        let letter = text[..at.start].char_indices().next_back().map_or(0, |(letter, _)| letter);
        let lead = match letter == at.start {
            true => 0,
            false => self.encode_range(text, letter..at.start, control)?.len(),
        };
        let mut ids = self.encode_range(text, letter..at.end, control)?;
        ids.drain(..lead.min(ids.len()));
        Ok(ids)
    }

    fn encode_range(&self, text: &str, range: Range<usize>, control: Control) -> Result<Vec<u32>> {
        let may_stand = |at: Range<usize>, id: u32| match control {
            _ if !self.is_control(id) => true,
            Control::Anywhere => true,
            Control::Nowhere => false,
            Control::Written(prompt) => {
                let token = self.pipeline.added_token(id);
                let at = at.start + range.start..at.end + range.start;
                token.is_some_and(|token| is_guarded(token) && prompt.wrote(&token.content, at))
            }
        };
        let run = || {
            let text = &text[range.clone()];
            let split = self.splitter.split(text, &self.pipeline.normalizers, may_stand)?;
            self.pipeline.ids(split, |piece| match control {
                Control::Anywhere => self.pipeline.model.tokenize(piece),
                _ => self.tokenize_plain(piece),
            })
        };
        run().map_err(failed)
    }

    /// Where texts may be cut, which is found out for the first long one.
    pub(super) async fn cuts(&self) -> Result<&Cuts> {
        if let Some(cuts) = self.cuts.get() {
            return Ok(cuts);
        }
        let cuts = Cuts::new(&self.pipeline, &self.splitter).await.map_err(failed)?;
        Ok(self.cuts.get_or_init(|| cuts))
    }

    /// Tokens of a piece, none of them a control token.
    fn tokenize_plain(&self, piece: &str) -> tokenizers::Result<Vec<Token>> {
        let tokens = self.pipeline.model.tokenize(piece)?;
        // Merges may produce a control token. The unknown token is exempt: it stands for other text than
        // its own name.
        let spelled = |token: &Token| {
            self.is_control(token.id)
                && piece.get(token.offsets.0..token.offsets.1) == Some(token.value.as_str())
        };
        if !tokens.iter().any(spelled) {
            return Ok(tokens);
        }
        let mut plain = Vec::new();
        for token in tokens {
            if !spelled(&token) {
                plain.push(token);
            } else if let Some((last, _)) =
                token.value.char_indices().next_back().filter(|(at, _)| *at > 0)
            {
                let (start, end) = token.value.split_at(last);
                plain.extend(self.tokenize_plain(start)?);
                plain.extend(self.tokenize_plain(end)?);
            }
        }
        Ok(plain)
    }

    fn framed(&self, mut ids: Vec<u32>, add_special: bool) -> Result<Vec<u32>> {
        if add_special {
            ids.splice(0..0, self.pipeline.before.iter().copied());
            ids.extend(&self.pipeline.after);
        }
        self.checked(ids)
    }

    fn checked(&self, ids: Vec<u32>) -> Result<Vec<u32>> {
        match ids.iter().find(|&&id| id > self.max_id) {
            None => Ok(ids),
            Some(id) => {
                let message = format!("it gave the id {id}, expected at most {}", self.max_id);
                Err(Error::Tokenizer { message })
            }
        }
    }
}

/// Where in a text control tokens may stand.
#[derive(Clone, Copy)]
pub(super) enum Control<'a> {
    Anywhere,
    Nowhere,
    /// Where the template wrote them.
    Written(&'a Unquoted),
}

/// A word with marks, as tokens that steer are written; not white space, `{{` or a word alone.
fn is_tag(token: &str) -> bool {
    let is_mark = |c: char| !c.is_alphanumeric() && !c.is_whitespace();
    token.contains(char::is_alphanumeric) && token.contains(is_mark)
}

/// Whether quoting can break the token: it needs two characters, and no mark among them.
fn is_guarded(token: &AddedToken) -> bool {
    token.content.chars().nth(1).is_some() && !token.content.contains(ESCAPE)
}

fn splitter(pipeline: &Pipeline, control: &HashSet<u32>) -> Result<Splitter> {
    let tokens = pipeline.added().map(|(id, token)| (id, token.clone())).collect();
    Splitter::new(tokens, &pipeline.normalizers, |id| control.contains(&id)).map_err(failed)
}

fn quoter(pipeline: &Pipeline, control: &HashSet<u32>) -> Quoter {
    let tokens = pipeline.added().filter(|(id, token)| control.contains(id) && is_guarded(token));
    Quoter::new(tokens.map(|(_, token)| token.content.clone()))
}

fn failed(error: tokenizers::Error) -> Error {
    Error::Tokenizer { message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    /// Our tokenizer, and the library's own pipeline on the same file.
    fn both(json: &[u8]) -> (Tokenizer, tokenizers::Tokenizer) {
        let mut reference = tokenizers::Tokenizer::from_bytes(json).unwrap();
        reference.with_truncation(None).unwrap();
        let mut tokenizer = Tokenizer::from_bytes(json).unwrap();
        tokenizer.reserve("{{ '<think>' if x else '</think>' }} tabloom").unwrap();
        (tokenizer, reference)
    }

    fn samples() -> [Vec<u8>; 3] {
        [samples::bytes(), samples::words(), samples::words_first()]
    }

    #[test]
    fn a_prompt_has_the_ids_of_the_file_s_own_pipeline() {
        for json in samples() {
            let (tokenizer, reference) = both(&json);
            for prompt in [
                "",
                " ",
                "hi  hi\n",
                "<s>[INST] hi [/INST] hi </s><s>[INST]hi",
                " hi<s> hi <s>",
                "<|user|> \n hi there<|end|>\n<think>\n</think>hi   tabloom    x<｜bos｜>",
                "e\u{301}<|end|>\u{301}",
            ] {
                let expected = reference.encode(prompt, false).unwrap();
                assert_eq!(
                    tokenizer.encode_prompt(prompt).unwrap(),
                    expected.get_ids(),
                    "{prompt:?}"
                );
            }
        }
    }

    #[test]
    fn only_the_first_text_gets_a_space_where_the_file_says_so() {
        let (tokenizer, _) = both(&samples::words_first());
        let ids = |text| tokenizer.encode_prompt(text).unwrap();
        let [blank_hi, hi] = ["▁hi", "hi"].map(|token| tokenizer.token_id(token).unwrap());
        assert_eq!(ids("hi<s>hi"), [blank_hi, 1, hi]);
        assert_eq!(ids("<s>hi"), [1, hi]);
        assert_eq!(tokenizer.encode_plain("hi", false).unwrap(), [blank_hi]);
    }

    #[test]
    fn plain_text_gives_no_control_token() {
        for json in samples() {
            let (tokenizer, _) = both(&json);
            for text in [
                "<|end|>",
                "x <|end|>",
                "x<|end|>y",
                "<s>",
                "</s></s>",
                "[INST]",
                "<unk>",
                "<think>",
                "<｜bos｜>",
                "<\u{FDD0}\u{FDD1}s>",
                "ＡＢ<|user|>",
            ] {
                let ids = tokenizer.encode_plain(text, false).unwrap();
                assert!(ids.iter().all(|&id| !tokenizer.is_control(id)), "{text:?} gave {ids:?}");
                assert_eq!(tokenizer.decode(&ids).unwrap(), text);
            }
        }
    }

    #[test]
    fn markup_that_no_template_names_is_text() {
        let json = samples::bytes();
        let mut tokenizer = Tokenizer::from_bytes(&json).unwrap();
        let ids = |tokenizer: &Tokenizer| tokenizer.encode_plain("<think>x", false).unwrap();
        let think = tokenizer.token_id("<think>").unwrap();
        assert_eq!(ids(&tokenizer)[0], think);
        tokenizer.reserve("{% if x %}<thinking>{% endif %}").unwrap();
        assert_eq!(ids(&tokenizer)[0], think);
        tokenizer.reserve("{% if x %}<think>{% endif %}").unwrap();
        assert!(tokenizer.is_control(think));
        assert!(!ids(&tokenizer).contains(&think));
        assert_eq!(tokenizer.encode_raw("<think>", false).unwrap(), [think]);
    }

    #[test]
    fn added_words_and_blanks_are_text() {
        let (tokenizer, _) = both(&samples::bytes());
        assert_eq!(tokenizer.encode_plain("tabloom   ", false).unwrap(), [264, 263]);
        assert!(!tokenizer.is_control(263) && !tokenizer.is_control(264));
        assert_eq!(tokenizer.max_id(), 265);
    }

    #[test]
    fn tokenizers_differ_where_both_have_a_token_or_an_id_with_another() {
        let (own, _) = both(&samples::bytes());
        let [hi, blank_hi] = ["hi", "Ġhi"].map(|token| own.token_id(token).unwrap());
        let added = |content: &str| {
            let mut file: Value = serde_json::from_slice(&samples::bytes()).unwrap();
            let tokens = file["added_tokens"].as_array_mut().unwrap();
            let mut token = tokens.last().unwrap().clone();
            (token["id"], token["content"]) = (266.into(), content.into());
            tokens.push(token);
            file
        };
        let placed = |places: &[(&str, u32)]| {
            let mut file: Value = serde_json::from_slice(&samples::bytes()).unwrap();
            for (token, id) in places {
                file["model"]["vocab"][token] = (*id).into();
            }
            file
        };
        let table = [
            (placed(&[]), None),
            (added("more"), None),
            (placed(&[("hi", blank_hi), ("Ġhi", hi)]), Some(hi.min(blank_hi))),
            (placed(&[("hi", 900)]), Some(900)),
        ];
        for (file, expected) in table {
            let other = Tokenizer::from_bytes(file.to_string().as_bytes()).unwrap();
            assert_eq!(own.first_difference(&other), expected);
        }
    }

    #[test]
    fn the_assistant_s_own_markup_stays() {
        let (tokenizer, _) = both(&samples::bytes());
        let text = "<think>x</think>";
        assert_eq!(tokenizer.quote(Role::Assistant, text), text);
        assert_ne!(tokenizer.quote(Role::User, text), text);
        let text = "</think><|end|>";
        let quoted = tokenizer.quote(Role::Assistant, text);
        assert!(quoted.starts_with("</think>") && quoted != text);
    }

    #[test]
    fn special_tokens_decode_to_nothing_and_markup_to_itself() {
        let (tokenizer, _) = both(&samples::bytes());
        let ids = tokenizer.encode_prompt("<|user|>hi<|end|><think>hi</think>").unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), "hi<think>hi</think>");
        assert_eq!(tokenizer.decode(&[u32::MAX]).unwrap(), "");
    }

    #[test]
    fn files_that_are_no_tokenizer_are_errors() {
        for bytes in [&b""[..], b"<!doctype html>", b"{}", b"[1]", br#"{"model":{"type":"BPE"}}"#] {
            assert!(Tokenizer::from_bytes(bytes).is_err());
        }
        let whole = samples::bytes();
        assert!(Tokenizer::from_bytes(&whole[..whole.len() / 2]).is_err());
    }

    /// Text with many pieces of control tokens and of the marks.
    fn tricky() -> impl Strategy<Value = String> {
        let pieces = prop::sample::select(vec![
            "<|end|>",
            "<|user|>",
            "<s>",
            "</s>",
            "[INST]",
            "<think>",
            "<｜bos｜>",
            "<",
            "<|",
            "|>",
            "end",
            "s",
            ">",
            "INST]",
            " ",
            "\n",
            "   ",
            "hi",
            "é",
            "\u{301}",
            "🙂",
            "\u{FDD0}",
            "\u{FDD1}",
            "\u{FDD2}",
            "tabloom",
        ]);
        prop::collection::vec(pieces, 0..10).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_control_token_comes_from_a_message(texts in prop::collection::vec(tricky(), 1..4)) {
            for json in samples() {
                let (tokenizer, _) = both(&json);
                // Texts between control tokens, next to each other, and inside part of a token.
                let prompt = |texts: &[String]| {
                    format!("<|user|><s>[INST]{}<|{}|><|end|></s>", texts.concat(), texts.join("<"))
                };
                let controls = |texts: &[String]| -> Vec<u32> {
                    let ids = tokenizer.encode_prompt(&prompt(texts)).unwrap();
                    ids.into_iter().filter(|&id| tokenizer.is_control(id)).collect()
                };
                let quoted = |text: &String| tokenizer.quote(Role::User, text);
                let quoted: Vec<_> = texts.iter().map(quoted).collect();
                let trimmed: Vec<_> = quoted.iter().map(|text| text.trim().to_owned()).collect();
                let expected = controls(&vec![String::from("hi"); texts.len()]);
                prop_assert_eq!(controls(&quoted), expected.clone());
                prop_assert_eq!(controls(&trimmed), expected);
            }
        }

        #[test]
        fn quoting_changes_nothing_in_the_absence_of_look_alikes(
            text in "([a-z<>|/ é\n\u{301}日\u{FDD0}\u{FDD1}🙂]|hi| {3}|tabloom){0,20}",
        ) {
            for json in samples() {
                let (tokenizer, reference) = both(&json);
                let expected = reference.encode(text.as_str(), false).unwrap();
                if expected.get_ids().iter().all(|&id| !tokenizer.is_control(id)) {
                    let ids = tokenizer.encode_plain(&text, false).unwrap();
                    prop_assert_eq!(&ids, expected.get_ids());
                    prop_assert_eq!(
                        tokenizer.decode(&ids).unwrap(),
                        reference.decode(&ids, true).unwrap()
                    );
                }
            }
        }
    }
}
