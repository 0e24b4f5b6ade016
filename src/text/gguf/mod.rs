//! The tokenizer of a GGUF file: its metadata have a vocabulary and names of known algorithms instead
//! of a `tokenizer.json` pipeline.

mod pre_tokenizer;
mod vocabulary;

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::models::bpe::{BPE, Merges};
use tokenizers::normalizers::{NFC, Prepend};

use super::ends;
use super::generation::GenerationDefaults;
use super::json::misfitting;
use super::pattern::Replace;
use super::pipeline::Pipeline;
use super::spelling::{Spelling, Step};
use super::tokenizer::Tokenizer;
use crate::api::typed;
use crate::error::{Error, Result};
use pre_tokenizer::{PreTokenizer, WORDS};
use vocabulary::{Kind, Vocabulary};

/// Tokenizer, template and defaults from the metadata.
pub struct GgufText {
    pub tokenizer: Tokenizer,
    /// Texts of the BOS and EOS tokens; empty if there is none.
    pub bos: String,
    pub eos: String,
    /// Names and sources of its chat templates.
    pub templates: Vec<(String, String)>,
    pub defaults: GenerationDefaults,
}

/// The keys that are used.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "general.name")]
    name: Option<&'a str>,
    #[serde(rename = "tokenizer.ggml.model")]
    model: &'a str,
    #[serde(rename = "tokenizer.ggml.pre")]
    pre: Option<&'a str>,
    #[serde(rename = "tokenizer.ggml.tokens", borrow)]
    tokens: Vec<&'a str>,
    #[serde(rename = "tokenizer.ggml.token_type", default)]
    kinds: Vec<i64>,
    #[serde(rename = "tokenizer.ggml.scores", default)]
    scores: Vec<f64>,
    #[serde(rename = "tokenizer.ggml.merges", default)]
    merges: Vec<&'a str>,
    #[serde(rename = "tokenizer.ggml.bos_token_id")]
    bos: Option<u32>,
    #[serde(rename = "tokenizer.ggml.eos_token_id")]
    eos: Option<u32>,
    #[serde(rename = "tokenizer.ggml.eot_token_id")]
    eot: Option<u32>,
    #[serde(rename = "tokenizer.ggml.eom_token_id")]
    eom: Option<u32>,
    #[serde(rename = "tokenizer.ggml.unknown_token_id")]
    unknown: Option<u32>,
    #[serde(rename = "tokenizer.ggml.add_bos_token")]
    add_bos: Option<bool>,
    #[serde(rename = "tokenizer.ggml.add_eos_token")]
    add_eos: Option<bool>,
    #[serde(rename = "tokenizer.ggml.add_space_prefix")]
    add_space: Option<bool>,
}

impl GgufText {
    /// Reads the metadata of a file; `file` is its name in error messages.
    pub fn read(file: &str, metadata: &Map<String, Value>) -> Result<GgufText> {
        let fields: Fields = typed(metadata)
            .map_err(|misfit| misfitting(file, "GGUF file with a tokenizer", misfit))?;
        // llama.cpp's defaults for SentencePiece files without these ids.
        let words = fields.model == "llama";
        let bos = fields.bos.or(words.then_some(1));
        let eos = fields.eos.or(words.then_some(2));
        let mut vocabulary = Vocabulary::new(&fields.tokens, &fields.kinds)?;
        for (key, id) in [
            ("bos", bos),
            ("eos", eos),
            ("eot", fields.eot),
            ("eom", fields.eom),
            ("unknown", fields.unknown),
        ] {
            let Some(id) = id else { continue };
            if id as usize >= vocabulary.tokens.len() {
                return Err(Error::InvalidConfig {
                    file: file.into(),
                    field: format!("tokenizer.ggml.{key}_token_id"),
                    found: id.to_string(),
                    expected: format!(
                        "less than {}, the number of tokens",
                        vocabulary.tokens.len()
                    ),
                });
            }
            vocabulary.kinds[id as usize] = Kind::Control;
        }
        let content = |id: Option<u32>| {
            id.map_or_else(String::new, |id| vocabulary.tokens[id as usize].to_string())
        };
        let (bos, eos) = ((bos, content(bos)), (eos, content(eos)));

        let pre = fields.pre.unwrap_or("default");
        let (mut pipeline, adds_bos) = match fields.model {
            "llama" => {
                let merges = vocabulary.merges_by_score(&fields.scores)?;
                (words_pipeline(&vocabulary, merges, &fields)?, true)
            }
            "gemma4" => {
                let merges = vocabulary.merges(&fields.merges)?;
                (words_pipeline(&vocabulary, merges, &fields)?, true)
            }
            "gpt2" if WORDS.contains(&pre) => {
                let merges = vocabulary.merges(&fields.merges)?;
                (words_pipeline(&vocabulary, merges, &fields)?, pre != "sarvam-moe")
            }
            "gpt2" => bytes_pipeline(&vocabulary, pre, &fields)?,
            found => {
                let message =
                    format!("found tokenizer.ggml.model {found:?}, expected llama, gemma4 or gpt2");
                return Err(Error::Tokenizer { message });
            }
        };
        let name = fields.name.unwrap_or_default().to_lowercase();
        let strips = ["phi-3", "phi3"].iter().any(|family| name.contains(family));
        pipeline.add(vocabulary.added(strips)).map_err(failed)?;
        pipeline.before.extend(bos.0.filter(|_| fields.add_bos.unwrap_or(adds_bos)));
        pipeline.after.extend(eos.0.filter(|_| fields.add_eos.unwrap_or(false)));

        let named = [eos.0, fields.eot, fields.eom].into_iter().flatten().collect();
        let special: HashMap<&str, u32> =
            vocabulary.added_ids().map(|id| (&*vocabulary.tokens[id as usize], id)).collect();
        let eos_ids = ends::completed(named, |text| special.get(text).copied());
        Ok(GgufText {
            tokenizer: Tokenizer::new(pipeline)?,
            bos: bos.1,
            eos: eos.1,
            templates: templates(metadata),
            defaults: GenerationDefaults {
                eos_ids,
                ..GenerationDefaults::from_gguf(file, metadata)?
            },
        })
    }
}

/// The chat templates: `tokenizer.chat_template`, and `tokenizer.chat_template.NAME` for others.
fn templates(metadata: &Map<String, Value>) -> Vec<(String, String)> {
    let named = |(key, source): (&String, &Value)| {
        let name = match key.strip_prefix("tokenizer.chat_template")? {
            "" => "default",
            name => name.strip_prefix('.')?,
        };
        Some((name.to_owned(), source.as_str()?.to_owned()))
    };
    metadata.iter().filter_map(named).collect()
}

/// SentencePiece: words with `▁` for blanks and byte fallback.
fn words_pipeline(vocabulary: &Vocabulary, merges: Merges, fields: &Fields) -> Result<Pipeline> {
    let unknown = fields.unknown.unwrap_or(0) as usize;
    let unknown =
        vocabulary.tokens.get(unknown).map_or_else(String::new, |token| token.to_string());
    let model = BPE::builder()
        .vocab_and_merges(vocabulary.ids()?, merges)
        .unk_token(unknown)
        .fuse_unk(true)
        .byte_fallback(true)
        .build();
    let mut steps = vec![Step::Replace("▁".into(), " ".into()), Step::ByteFallback, Step::Fuse];
    let add_space = fields.add_space.unwrap_or(fields.model == "llama");
    if add_space {
        steps.push(Step::Strip { content: ' ', start: 1, stop: 0 });
    }
    let spelling = Spelling::new(steps).map_err(failed)?;
    let mut pipeline = Pipeline::new(model.map_err(failed)?, spelling);
    let normalizers = &mut pipeline.normalizers.0;
    if add_space {
        normalizers.push(Box::new(Prepend::new("▁".into())));
    }
    normalizers.push(Box::new(Replace::new(" ".into(), "▁".into()).map_err(failed)?));
    Ok(pipeline)
}

/// Byte-level BPE after a regex split (GPT-2), and whether a BOS token is added by default.
fn bytes_pipeline(vocabulary: &Vocabulary, pre: &str, fields: &Fields) -> Result<(Pipeline, bool)> {
    let pre = PreTokenizer::named(pre)?;
    let model = BPE::builder()
        .vocab_and_merges(vocabulary.ids()?, vocabulary.merges(&fields.merges)?)
        .ignore_merges(pre.whole_words)
        .build();
    let spelling = Spelling::new(vec![Step::ByteLevel]).map_err(failed)?;
    let mut pipeline = Pipeline::new(model.map_err(failed)?, spelling);
    if pre.composes {
        pipeline.normalizers.0.push(Box::new(NFC));
    }
    pre.build(&mut pipeline).map_err(failed)?;
    Ok((pipeline, pre.adds_bos))
}

fn failed(error: tokenizers::Error) -> Error {
    Error::Tokenizer { message: error.to_string() }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
