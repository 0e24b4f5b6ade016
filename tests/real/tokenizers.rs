//! Published tokenizers against the library `tokenizers`: `golden_published_tokenizers.py` has the
//! digests of its ids.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tabloom::text::{Chat, ChatFiles, Detokenizer};

use super::files::real;

/// Texts of a digest.
const BLOCK: usize = 100;

#[derive(Deserialize)]
struct Golden {
    pieces: Vec<Vec<String>>,
    tokenizers: Vec<Digests>,
}

/// Digests of each block of texts.
#[derive(Deserialize)]
struct Digests {
    name: String,
    /// Of texts whose author may write control tokens.
    raw: Vec<String>,
    /// Of users' texts.
    plain: Vec<String>,
    /// Of the texts that the raw ids decode to.
    decoded: Vec<String>,
}

fn golden() -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/real/tokens.json");
    serde_json::from_slice(&fs::read(path).expect("golden file")).expect("golden JSON")
}

/// The random numbers that both sides draw.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % count
    }
}

/// Texts that draw pieces, most of them from one group.
fn texts(groups: &[Vec<String>], count: usize) -> Vec<String> {
    let mut draw = Draw(12);
    let text = |at| {
        let group = at % groups.len();
        let pieces = 1 + draw.below(12);
        let mut text = String::new();
        for _ in 0..pieces {
            let group = if draw.below(4) > 0 { group } else { draw.below(groups.len()) };
            text.push_str(&groups[group][draw.below(groups[group].len())]);
        }
        text
    };
    (0..count).map(text).collect()
}

fn chat(name: &str) -> Chat {
    let read = |file: &str| fs::read(real(&format!("tokenizers/{name}/{file}"))).expect(name);
    let (tokenizer, config) = (read("tokenizer.json"), read("tokenizer_config.json"));
    Chat::new(&ChatFiles {
        tokenizer: &tokenizer,
        tokenizer_config: Some(&config),
        ..ChatFiles::default()
    })
    .expect(name)
}

/// Compares each block of lines with its digest; names the first block that differs.
fn check(name: &str, kind: &str, texts: &[String], lines: &[String], expected: &[String]) {
    assert_eq!(lines.len(), expected.len() * BLOCK, "{name}");
    let blocks = lines.chunks(BLOCK).zip(texts.chunks(BLOCK)).zip(expected);
    for (at, ((lines, texts), expected)) in blocks.enumerate() {
        let digest = Sha256::digest(lines.join("\n"));
        let found: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        if found != *expected {
            let shown = texts.iter().zip(lines).map(|(text, line)| format!("{text:?} {line}\n"));
            panic!("{name}: {kind} differ in block {at}:\n{}", shown.collect::<String>());
        }
    }
}

fn written(ids: &[u32]) -> String {
    let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
    ids.join(" ")
}

#[test]
fn published_tokenizers_give_the_ids_and_texts_of_the_library() {
    let Golden { pieces, tokenizers } = golden();
    assert!(tokenizers.len() > 10);
    let texts = texts(&pieces, tokenizers[0].raw.len() * BLOCK);
    for Digests { name, raw, plain, decoded } in &tokenizers {
        let chat = chat(name);
        let tokenizer = chat.tokenizer();
        let (mut raw_ids, mut plain_ids, mut decoded_texts) = (vec![], vec![], vec![]);
        for text in &texts {
            let ids = tokenizer.encode_raw(text, false).expect(name);
            let mut detokenizer = Detokenizer::new(tokenizer.clone(), false);
            let mut streamed: String =
                ids.iter().map(|id| detokenizer.push(*id).expect(name)).collect();
            streamed.push_str(&detokenizer.finish());
            raw_ids.push(written(&ids));
            decoded_texts.push(streamed);
            let ids = tokenizer.encode_plain(text, false).expect(name);
            assert!(ids.iter().all(|id| !tokenizer.is_control(*id)), "{name}: {text:?}");
            plain_ids.push(written(&ids));
        }
        check(name, "ids of raw texts", &texts, &raw_ids, raw);
        check(name, "ids of users' texts", &texts, &plain_ids, plain);
        check(name, "decoded texts", &texts, &decoded_texts, decoded);
    }
}
