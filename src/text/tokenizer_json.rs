//! Reads `tokenizer.json`.
//!
//! Supported are the components with which a text is the concatenation of its tokens' bytes; an error
//! names any other.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::{Lowercase, NFC, NFD, NFKC, NFKD, Prepend, Strip};
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::tokenizer::SplitDelimiterBehavior;
use tokenizers::{AddedToken, Result};

use super::bytes::{BlankFirst, BytesAsChars};
use super::pattern::{GPT_2, Replace, Split, Written};
use super::pipeline::Pipeline;
use super::spelling::{Spelling, Step};

/// Highest id of a token: no model has embeddings for more.
const HIGHEST_ID: u32 = (1 << 21) - 1;
/// Largest factor by which replacements may lengthen a text.
const MOST_GROWTH: usize = 256;

/// The sections of the file. Truncation and padding are settings of training and not read.
#[derive(Deserialize)]
pub struct TokenizerJson {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<NormalizerPart>,
    pre_tokenizer: Option<PreTokenizerPart>,
    post_processor: Option<PostProcessorPart>,
    decoder: Option<DecoderPart>,
    model: ModelPart,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum NormalizerPart {
    Sequence {
        normalizers: Vec<NormalizerPart>,
    },
    #[serde(rename = "NFC")]
    Nfc,
    #[serde(rename = "NFD")]
    Nfd,
    #[serde(rename = "NFKC")]
    Nfkc,
    #[serde(rename = "NFKD")]
    Nfkd,
    Lowercase,
    Strip {
        strip_left: bool,
        strip_right: bool,
    },
    Prepend {
        prepend: String,
    },
    Replace {
        pattern: Written,
        content: String,
    },
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum PreTokenizerPart {
    Sequence {
        pretokenizers: Vec<PreTokenizerPart>,
    },
    ByteLevel {
        add_prefix_space: bool,
        #[serde(default = "yes")]
        use_regex: bool,
    },
    Split {
        pattern: Written,
        behavior: SplitDelimiterBehavior,
        invert: bool,
    },
    Metaspace {
        replacement: char,
        prepend_scheme: Option<PrependScheme>,
        /// Older files have this instead of a scheme.
        add_prefix_space: Option<bool>,
        #[serde(default = "yes")]
        split: bool,
    },
    Digits {
        individual_digits: bool,
    },
    Punctuation {
        behavior: Option<SplitDelimiterBehavior>,
    },
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum PostProcessorPart {
    Sequence {
        processors: Vec<PostProcessorPart>,
    },
    /// It changes the tokens' offsets only.
    ByteLevel,
    TemplateProcessing {
        single: Vec<Piece>,
        special_tokens: HashMap<String, SpecialToken>,
    },
}

/// An item of a post-processing template.
#[derive(Deserialize)]
enum Piece {
    Sequence {},
    SpecialToken { id: String },
}

#[derive(Deserialize)]
struct SpecialToken {
    ids: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum DecoderPart {
    Sequence { decoders: Vec<DecoderPart> },
    ByteLevel,
    ByteFallback,
    Fuse,
    Replace { pattern: Written, content: String },
    Strip { content: char, start: usize, stop: usize },
}

/// Byte-pair encoding.
#[derive(Deserialize)]
struct ModelPart {
    /// Old files leave it out.
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: Vocab,
    merges: Vec<Merge>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
}

/// A BPE merge: a pair of tokens, or a string of both with a space between.
struct Merge(String, String);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("two tokens to merge")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Merge, E> {
                match text.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => {
                        Ok(Merge(left.into(), right.into()))
                    }
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut pair: A,
            ) -> std::result::Result<Merge, A::Error> {
                let (left, right) = (pair.next_element()?, pair.next_element()?);
                let both = left.zip(right).map(|(left, right)| Merge(left, right));
                both.ok_or_else(|| A::Error::custom("expected two tokens to merge"))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

fn yes() -> bool {
    true
}

impl TokenizerJson {
    /// Builds the pipeline that the file describes.
    pub fn build(self) -> Result<Pipeline> {
        let growths = [
            self.normalizer.as_ref().map_or(1, NormalizerPart::growth),
            self.decoder.as_ref().map_or(1, DecoderPart::growth),
        ];
        if growths.iter().any(|growth| *growth > MOST_GROWTH) {
            let most = format!("expected at most {MOST_GROWTH} times");
            return Err(
                format!("its replacements make texts {growths:?} times longer, {most}").into()
            );
        }
        let mut steps = Vec::new();
        let decoder = self.decoder.into_iter();
        decoder.for_each(|part| part.steps(&mut steps));
        let mut pipeline = Pipeline::new(self.model.build()?, Spelling::new(steps)?);
        if let Some(part) = self.normalizer {
            part.build(&mut pipeline)?;
        }
        if let Some(part) = self.pre_tokenizer {
            part.build(&mut pipeline)?;
        }
        if let Some(part) = self.post_processor {
            part.build(&mut pipeline)?;
        }
        pipeline.add(self.added_tokens)?;
        Ok(pipeline)
    }
}

impl ModelPart {
    fn build(self) -> Result<BPE> {
        if let Some(kind) = self.kind.filter(|kind| kind != "BPE") {
            return Err(format!("its model is {kind}, expected BPE").into());
        }
        let affixes = [self.continuing_subword_prefix, self.end_of_word_suffix];
        if let Some(affix) = affixes.into_iter().flatten().find(|affix| !affix.is_empty()) {
            return Err(format!("its words are marked by {affix:?}, expected no marks").into());
        }
        if let Some(id) = self.vocab.values().find(|id| **id > HIGHEST_ID) {
            return Err(format!("it has the id {id}, expected at most {HIGHEST_ID}").into());
        }
        // The library reports merges whose result is no token, but panics if it is longer than any token.
        let longest = self.vocab.keys().map(String::len).max().unwrap_or(0);
        if let Some(Merge(a, b)) =
            self.merges.iter().find(|Merge(a, b)| a.len() + b.len() > longest)
        {
            return Err(format!("its merges make {:?}, which is no token", a.clone() + b).into());
        }
        let merges = self.merges.into_iter().map(|Merge(left, right)| (left, right)).collect();
        let mut model = BPE::builder()
            .vocab_and_merges(self.vocab, merges)
            .fuse_unk(self.fuse_unk)
            .byte_fallback(self.byte_fallback)
            .ignore_merges(self.ignore_merges);
        if let Some(token) = self.unk_token {
            model = model.unk_token(token);
        }
        model.build()
    }
}

impl NormalizerPart {
    /// Largest factor by which it can lengthen a text.
    fn growth(&self) -> usize {
        match self {
            NormalizerPart::Sequence { normalizers } => {
                product(normalizers.iter().map(NormalizerPart::growth))
            }
            NormalizerPart::Prepend { prepend: text }
            | NormalizerPart::Replace { content: text, .. } => 1 + text.len(),
            _ => 1,
        }
    }

    fn build(self, into: &mut Pipeline) -> Result<()> {
        let steps = &mut into.normalizers.0;
        match self {
            NormalizerPart::Sequence { normalizers } => {
                return normalizers.into_iter().try_for_each(|part| part.build(into));
            }
            NormalizerPart::Nfc => steps.push(Box::new(NFC)),
            NormalizerPart::Nfd => steps.push(Box::new(NFD)),
            NormalizerPart::Nfkc => steps.push(Box::new(NFKC)),
            NormalizerPart::Nfkd => steps.push(Box::new(NFKD)),
            NormalizerPart::Lowercase => steps.push(Box::new(Lowercase)),
            NormalizerPart::Strip { strip_left, strip_right } => {
                steps.push(Box::new(Strip::new(strip_left, strip_right)));
            }
            NormalizerPart::Prepend { prepend } => steps.push(Box::new(Prepend::new(prepend))),
            NormalizerPart::Replace { pattern, content } => {
                steps.push(Box::new(Replace::new(pattern, content)?));
            }
        }
        Ok(())
    }
}

impl PreTokenizerPart {
    fn build(self, into: &mut Pipeline) -> Result<()> {
        let steps = &mut into.pre_tokenizers;
        match self {
            PreTokenizerPart::Sequence { pretokenizers } => {
                return pretokenizers.into_iter().try_for_each(|part| part.build(into));
            }
            PreTokenizerPart::ByteLevel { add_prefix_space, use_regex } => {
                if add_prefix_space {
                    steps.push(Box::new(BlankFirst));
                }
                if use_regex {
                    steps.push(Box::new(Split::isolating(GPT_2)?));
                }
                steps.push(Box::new(BytesAsChars));
            }
            PreTokenizerPart::Split { pattern, behavior, invert } => {
                steps.push(Box::new(Split::new(pattern, behavior, invert)?));
            }
            PreTokenizerPart::Metaspace {
                replacement,
                prepend_scheme,
                add_prefix_space,
                split,
            } => {
                let scheme = match add_prefix_space {
                    Some(false) => PrependScheme::Never,
                    _ => prepend_scheme.unwrap_or(PrependScheme::Always),
                };
                steps.push(Box::new(Metaspace::new(replacement, scheme, split)));
            }
            PreTokenizerPart::Digits { individual_digits } => {
                steps.push(Box::new(Digits::new(individual_digits)));
            }
            PreTokenizerPart::Punctuation { behavior } => {
                let behavior = behavior.unwrap_or(SplitDelimiterBehavior::Isolated);
                steps.push(Box::new(Punctuation::new(behavior)));
            }
        }
        Ok(())
    }
}

impl PostProcessorPart {
    fn build(self, into: &mut Pipeline) -> Result<()> {
        match self {
            PostProcessorPart::Sequence { processors } => {
                return processors.into_iter().try_for_each(|part| part.build(into));
            }
            PostProcessorPart::ByteLevel => {}
            PostProcessorPart::TemplateProcessing { single, special_tokens } => {
                let (mut before, mut after, mut behind) = (Vec::new(), Vec::new(), false);
                for piece in single {
                    let Piece::SpecialToken { id } = piece else {
                        behind = true;
                        continue;
                    };
                    let known = special_tokens.get(&id);
                    let token =
                        known.ok_or_else(|| format!("its template names no token {id:?}"))?;
                    if behind { &mut after } else { &mut before }.extend(&token.ids);
                }
                into.before.splice(0..0, before);
                into.after.extend(after);
            }
        }
        Ok(())
    }
}

fn product(growths: impl Iterator<Item = usize>) -> usize {
    growths.fold(1, usize::saturating_mul)
}

impl DecoderPart {
    /// Largest factor by which it can lengthen a token.
    fn growth(&self) -> usize {
        match self {
            DecoderPart::Sequence { decoders } => product(decoders.iter().map(DecoderPart::growth)),
            DecoderPart::Replace { content, .. } => 1 + content.len(),
            _ => 1,
        }
    }

    fn steps(self, steps: &mut Vec<Step>) {
        steps.push(match self {
            DecoderPart::Sequence { decoders } => {
                return decoders.into_iter().for_each(|part| part.steps(steps));
            }
            DecoderPart::ByteLevel => Step::ByteLevel,
            DecoderPart::ByteFallback => Step::ByteFallback,
            DecoderPart::Fuse => Step::Fuse,
            DecoderPart::Replace { pattern, content } => Step::Replace(pattern, content),
            DecoderPart::Strip { content, start, stop } => Step::Strip { content, start, stop },
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Tokenizer, samples};

    const TEXT: &str = "Hi hi  hi! Ａ 1234-56 é e\u{301}\n";

    /// A sample tokenizer with some of its sections replaced.
    fn file(sample: Vec<u8>, changes: Value) -> Vec<u8> {
        let mut file: Value = serde_json::from_slice(&sample).unwrap();
        for (section, part) in changes.as_object().unwrap() {
            file[section] = part.clone();
        }
        file.to_string().into_bytes()
    }

    /// Every kind of component gives the same ids as the library's own pipeline.
    #[test]
    fn components_behave_as_the_library_s() {
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true});
        let split = |pattern: Value| json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false});
        let template = |sequence: &str| {
            let special = |id| json!({"SpecialToken": {"id": id, "type_id": 0}});
            let text = |id| json!({"Sequence": {"id": id, "type_id": 0}});
            json!({
                "type": sequence,
                "single": [special("<|user|>"), text("A"), special("<|end|>")],
                "pair": [text("A"), text("B")],
                "special_tokens": {
                    "<|user|>": {"id": "<|user|>", "ids": [260], "tokens": ["<|user|>"]},
                    "<|end|>": {"id": "<|end|>", "ids": [256], "tokens": ["<|end|>"]},
                },
            })
        };
        let template = template("TemplateProcessing");
        let then_bytes =
            |first: Value| json!({"type": "Sequence", "pretokenizers": [first, bytes]});
        for changes in [
            json!({"pre_tokenizer": bytes}),
            json!({"pre_tokenizer": then_bytes(split(json!({"Regex": "\\p{N}{1,3}"})))}),
            json!({"pre_tokenizer": then_bytes(split(json!({"String": "h"})))}),
            json!({"pre_tokenizer": then_bytes(json!({"type": "Digits", "individual_digits": true}))}),
            json!({"pre_tokenizer": then_bytes(json!({"type": "Digits", "individual_digits": false}))}),
            json!({"pre_tokenizer": then_bytes(json!({"type": "Punctuation", "behavior": "Contiguous"}))}),
            json!({"pre_tokenizer": then_bytes(json!({"type": "Punctuation"}))}),
            json!({"normalizer": null}),
            json!({"normalizer": {"type": "NFD"}}),
            json!({"normalizer": {"type": "NFKC"}}),
            json!({"normalizer": {"type": "NFKD"}}),
            json!({"normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Lowercase"},
                {"type": "Strip", "strip_left": true, "strip_right": true},
                {"type": "Replace", "pattern": {"Regex": "[0-9]+"}, "content": "1"},
                {"type": "Prepend", "prepend": "!"},
            ]}}),
            json!({"post_processor": template}),
            json!({"post_processor": {"type": "Sequence", "processors": [bytes, template]}}),
        ] {
            let json = file(samples::bytes(), changes);
            let mut reference = tokenizers::Tokenizer::from_bytes(&json).unwrap();
            reference.with_truncation(None).unwrap();
            let ours = Tokenizer::from_bytes(&json).unwrap();
            for special in [false, true] {
                let expected = reference.encode(TEXT, special).unwrap();
                assert_eq!(ours.encode_plain(TEXT, special).unwrap(), expected.get_ids());
            }
        }
        for metaspace in [
            json!({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}),
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true}),
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": false}),
        ] {
            let json = file(samples::words_first(), json!({"pre_tokenizer": metaspace}));
            let reference = tokenizers::Tokenizer::from_bytes(&json).unwrap();
            let ours = Tokenizer::from_bytes(&json).unwrap();
            let expected = reference.encode("hi  hi", false).unwrap();
            assert_eq!(ours.encode_plain("hi  hi", false).unwrap(), expected.get_ids());
        }
    }

    #[test]
    fn merges_are_pairs_or_strings() {
        let pairs = samples::bytes();
        let mut strings: Value = serde_json::from_slice(&pairs).unwrap();
        strings["model"]["merges"] = json!(["h i", "Ġ hi", "ð Ł"]);
        strings["model"].as_object_mut().unwrap().remove("type");
        let ids = |json: &[u8]| Tokenizer::from_bytes(json).unwrap().encode_plain(TEXT, false);
        assert_eq!(ids(strings.to_string().as_bytes()).unwrap(), ids(&pairs).unwrap());
    }

    #[test]
    fn unsupported_components_are_named() {
        let merges = |merge: Value| json!({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [merge]}});
        let model = |key: &str, value: Value| {
            let mut model = json!({"vocab": {"a": 0}, "merges": []});
            model[key] = value;
            json!({"model": model})
        };
        let template = json!({"type": "TemplateProcessing", "special_tokens": {},
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]});
        let replace =
            json!({"type": "Replace", "pattern": {"Regex": "."}, "content": "x".repeat(16)});
        for (changes, named) in [
            (model("type", json!("WordPiece")), "WordPiece"),
            (model("vocab", json!({"a": 1 << 21})), "2097152"),
            (json!({"normalizer": {"type": "Sequence", "normalizers": vec![replace; 3]}}), "4913"),
            (model("continuing_subword_prefix", json!("##")), "##"),
            (model("end_of_word_suffix", json!("</w>")), "</w>"),
            (merges(json!("ab")), "ab"),
            (merges(json!("a b c")), "a b c"),
            (merges(json!(["a"])), "two tokens"),
            (merges(json!(["a", "b"])), "ab"),
            (json!({"normalizer": {"type": "BertNormalizer"}}), "BertNormalizer"),
            (json!({"pre_tokenizer": {"type": "UnicodeScripts"}}), "UnicodeScripts"),
            (json!({"decoder": {"type": "WordPiece"}}), "WordPiece"),
            (json!({"post_processor": {"type": "BertProcessing"}}), "BertProcessing"),
            (json!({"post_processor": template}), "<s>"),
        ] {
            let error = Tokenizer::from_bytes(&file(samples::bytes(), changes)).err().unwrap();
            assert!(error.to_string().contains(named), "{error} does not name {named}");
        }
    }
}
