//! Pre-tokenisers by their GGUF name (`tokenizer.ggml.pre`), with the names of llama.cpp.
//!
//! Where llama.cpp's regular expression stands for another in the model's `tokenizer.json`, that one is
//! used; so is its normaliser.

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
const JAIS_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s";
const MINICPM_5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_3_5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const UFAKZEKA: &str =
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const BAILING: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const EXAONE_MOE: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const YOUTU: [&str; 2] = [
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u{3040}-ゟ゠-ヿ]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
const KIMI_2: &str = r"\p{Han}+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_WORDS: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const DEEPSEEK_3: [&str; 3] = [r"\p{N}{1,3}", "[一-龥\u{3040}-ゟ゠-ヿ]+", DEEPSEEK_WORDS];
const DEEPSEEK_CODER: [&str; 5] =
    [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u{800}-一가-\u{d7ff}]+", r"\p{N}"];
const DEEPSEEK_LLM: [&str; 6] = [
    r"[\r\n]",
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
    r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+",
    r"\s+$",
    "[一-龥\u{800}-一가-\u{d7ff}]+",
    r"\p{N}+",
];
const SPARK_2_5: [&str; 4] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##,
    r"\p{N}",
];
const AFMOE: [&str; 3] = [
    // Groups of three digits from the right.
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
    "[一-\u{9fff}㐀-䶿豈-\u{faff}\u{3040}-ゟ゠-ヿ･-ﾟ⼀-\u{2fdf}\u{e40}-\u{eff}\u{1780}-\u{17ff}\u{1000}-\u{109f}\u{aa60}-\u{aa7f}\u{a9e0}-\u{a9ff}가-\u{d7af}ᄀ-\u{11ff}]+",
    DEEPSEEK_WORDS,
];
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
const CHAMELEON: [&str; 6] = [
    "<sentinel:[0-9]+>",
    "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    r"([\t\n]|    |  )",
    r"\p{N}",
    r"[\p{P}!-/:-@\[-`{-~]",
    GPT_2,
];

const PLAIN: PreTokenizer =
    PreTokenizer { patterns: &[GPT_2], whole_words: false, composes: false, adds_bos: false };
const LLAMA: PreTokenizer = PreTokenizer { patterns: &[LLAMA_3], ..PLAIN };
const QWEN: PreTokenizer = PreTokenizer { patterns: &[QWEN_2], ..PLAIN };
const DIGITS: PreTokenizer = PreTokenizer { patterns: &[r"\p{N}", GPT_2], ..PLAIN };
const DEEPSEEK: PreTokenizer = PreTokenizer { patterns: &DEEPSEEK_3, ..PLAIN };

/// GGUF names of each pre-tokeniser.
const NAMES: [(&[&str], PreTokenizer); 33] = [
    (
        &[
            "gpt-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "phi-2",
            "exaone4",
            "granite-docling",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
            "roberta-bpe",
        ],
        PLAIN,
    ),
    (
        &["default"],
        PreTokenizer {
            patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"],
            ..PLAIN
        },
    ),
    (
        &["falcon"],
        PreTokenizer { patterns: &[r"[\p{P}\$\+<=>\^~\|`]+", GPT_2, "[0-9][0-9][0-9]"], ..PLAIN },
    ),
    (
        &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        PreTokenizer { whole_words: true, adds_bos: true, ..LLAMA },
    ),
    (&["dbrx", "smaug-bpe", "chatglm-bpe"], LLAMA),
    (&["glm4", "glm5"], PreTokenizer { whole_words: true, ..LLAMA }),
    (&["jais-2"], PreTokenizer { patterns: &[JAIS_2], ..PLAIN }),
    (
        &["minicpm5"],
        PreTokenizer { patterns: &[r"\p{N}{1,3}", MINICPM_5], whole_words: true, ..PLAIN },
    ),
    (
        &["qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan"],
        PreTokenizer { composes: true, ..QWEN },
    ),
    (&["kormo", "f2llmv2", "solar-open", "grok-2"], QWEN),
    (&["laguna"], PreTokenizer { patterns: &[r"[^\n]+|\n+", QWEN_2], ..PLAIN }),
    (&["qwen35"], PreTokenizer { patterns: &[QWEN_3_5], composes: true, ..PLAIN }),
    (&["ufakzeka"], PreTokenizer { patterns: &[UFAKZEKA], ..PLAIN }),
    (&["seed-coder"], PreTokenizer { patterns: &[SEED], ..PLAIN }),
    (&["bailingmoe", "bailingmoe2", "llada-moe"], PreTokenizer { patterns: &[BAILING], ..PLAIN }),
    (&["exaone-moe"], PreTokenizer { patterns: &[EXAONE_MOE], ..PLAIN }),
    (&["smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"], DIGITS),
    (&["command-r"], PreTokenizer { composes: true, ..DIGITS }),
    (&["tekken"], PreTokenizer { patterns: &[TEKKEN], whole_words: true, adds_bos: true, ..PLAIN }),
    (
        &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        PreTokenizer { patterns: &[GPT_4O], ..PLAIN },
    ),
    (
        &["granite-embed-multi-97m"],
        PreTokenizer { patterns: &[GPT_4O], whole_words: true, ..PLAIN },
    ),
    (
        &["tiny_aya", "cohere2moe"],
        PreTokenizer { patterns: &[r"\d{1,3}(?=(?:\d{3})*\b)", GPT_4O], ..PLAIN },
    ),
    (&["youtu"], PreTokenizer { patterns: &YOUTU, whole_words: true, ..PLAIN }),
    (&["kimi-k2"], PreTokenizer { patterns: &[KIMI_2], ..PLAIN }),
    (&["superbpe"], PreTokenizer { patterns: &[r"\p{N}+", r"(?=(\d{3})+(?!\d))"], ..PLAIN }),
    (&["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], DEEPSEEK),
    (&["deepseek-coder"], PreTokenizer { patterns: &DEEPSEEK_CODER, ..PLAIN }),
    (&["deepseek-llm"], PreTokenizer { patterns: &DEEPSEEK_LLM, ..PLAIN }),
    (&["spark2_5"], PreTokenizer { patterns: &SPARK_2_5, ..PLAIN }),
    (&["afmoe"], PreTokenizer { patterns: &AFMOE, ..PLAIN }),
    (&["poro-chat", "bloom", "gpt3-finnish"], PreTokenizer { patterns: &[BLOOM], ..PLAIN }),
    (&["viking"], PreTokenizer { patterns: &[BLOOM, r"\p{N}"], ..PLAIN }),
    (&["chameleon"], PreTokenizer { patterns: &CHAMELEON, adds_bos: true, ..PLAIN }),
];

/// Names of vocabularies of whole words with `▁` for blanks and no split, despite their merges.
pub const WORDS: [&str; 3] = ["gemma4", "sarvam-moe", "granite-embed-multi-311m"];

impl PreTokenizer {
    /// The pre-tokeniser with this name.
    pub fn named(name: &str) -> Result<PreTokenizer> {
        let found = NAMES.iter().find(|(names, _)| names.contains(&name));
        found.map(|(_, pre)| *pre).ok_or_else(|| {
            let known: Vec<_> = NAMES.iter().flat_map(|(names, _)| *names).copied().collect();
            let known = [known, WORDS.to_vec()].concat().join(", ");
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

/// The regular expressions of all names.
#[cfg(test)]
pub fn patterns() -> impl Iterator<Item = &'static str> {
    NAMES.iter().flat_map(|(_, pre)| pre.patterns).copied()
}
