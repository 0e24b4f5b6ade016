//! Pre-tokenisers by their GGUF name (`tokenizer.ggml.pre`).

use super::super::bytes::BytesAsChars;
use super::super::pattern::{GPT_2, Split};
use super::super::pipeline::Pipeline;
use crate::error::{Error, Result};

/// A pre-tokeniser and the settings that go with its name.
#[derive(Clone, Copy)]
pub struct PreTokenizer {
    /// Applied in order: each splits the pieces that the previous ones left.
    patterns: &'static [&'static str],
    /// Whether a piece that is a token is taken whole, without merges (`ignore_merges`).
    pub whole_words: bool,
    /// Whether the text is normalised to NFC first.
    pub composes: bool,
    /// Whether to add the BOS token if the file does not say.
    pub adds_bos: bool,
}

const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_3_5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_3: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
];

const PLAIN: PreTokenizer =
    PreTokenizer { patterns: &[GPT_2], whole_words: false, composes: false, adds_bos: false };

/// GGUF names of each pre-tokeniser.
const NAMES: [(&[&str], PreTokenizer); 9] = [
    (&["gpt-2", "mpt", "olmo", "jais", "phi-2", "exaone4", "granite-docling"], PLAIN),
    (
        &["default"],
        PreTokenizer {
            patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"],
            ..PLAIN
        },
    ),
    (
        &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2", "dbrx", "smaug-bpe"],
        PreTokenizer { patterns: &[LLAMA_3], whole_words: true, adds_bos: true, ..PLAIN },
    ),
    (
        &["qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan"],
        PreTokenizer { patterns: &[QWEN_2], composes: true, ..PLAIN },
    ),
    (&["qwen35"], PreTokenizer { patterns: &[QWEN_3_5], composes: true, ..PLAIN }),
    (
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
        PreTokenizer { patterns: &[r"\p{N}", GPT_2], ..PLAIN },
    ),
    (&["tekken"], PreTokenizer { patterns: &[TEKKEN], whole_words: true, adds_bos: true, ..PLAIN }),
    (&["gpt-4o", "llama4", "kanana2"], PreTokenizer { patterns: &[GPT_4O], ..PLAIN }),
    (&["deepseek-v3"], PreTokenizer { patterns: &DEEPSEEK_3, ..PLAIN }),
];

impl PreTokenizer {
    /// The pre-tokeniser with this name.
    pub fn named(name: &str) -> Result<PreTokenizer> {
        let found = NAMES.iter().find(|(names, _)| names.contains(&name));
        found.map(|(_, pre)| *pre).ok_or_else(|| {
            let known: Vec<_> = NAMES.iter().flat_map(|(names, _)| *names).copied().collect();
            let known = known.join(", ");
            let message = format!("found tokenizer.ggml.pre {name:?}, expected one of {known}");
            Error::Tokenizer { message }
        })
    }

    /// Adds its stages to a pipeline.
    pub fn build(self, into: &mut Pipeline) -> tokenizers::Result<()> {
        for pattern in self.patterns {
            into.pre_tokenizers.push(Box::new(Split::isolating(pattern)?));
        }
        into.pre_tokenizers.push(Box::new(BytesAsChars));
        Ok(())
    }
}
